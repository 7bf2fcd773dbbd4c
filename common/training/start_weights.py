"""The weights that a warm start reads: of a checkpoint, a SavedModel or a file of Keras."""

import atexit
from collections.abc import Sequence
import contextlib
import os
import shutil
import tempfile
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.keras import weights as keras_weights
from estimator_trainer.common.options.values import is_scope
from estimator_trainer.common.storage.checkpoints import latest_intact
from estimator_trainer.common.storage.restore import is_intact, open_checkpoint, without_suffix

AVERAGE = '/ExponentialMovingAverage'


class StartWeights:
    """The weights to start from.

    Args:
      path, networks: as for `warm_start.start_from`.

    Attributes:
      keras: weights saved by Keras, see common/keras/weights.py, or None.
      checkpoint: the path of the checkpoint; for Keras weights, of their converted checkpoint.
      shapes: {key in the checkpoint: shape}.

    Raises:
      UsageError: there is no checkpoint at the path.
      RunError: it is corrupt.
    """

    def __init__(self, path: str, networks: Sequence[Any]):
        self.keras = keras_weights.read(path) if keras_weights.is_of_keras(path) else None
        self.checkpoint = _converted(self.keras) if self.keras else _find(path)
        if not is_intact(self.checkpoint):
            raise RunError(f'--warm_start_from={path}: {self.checkpoint} is corrupt: choose another checkpoint')
        self.shapes = open_checkpoint(self.checkpoint).get_variable_to_shape_map()
        self._places = keras_weights.match(self.keras, networks) if self.keras else {}
        self._shown = {key: name for name, key in self.keras.names.items()} if self.keras else {}

    def key(self, name: str, pair: tuple[str, str] | None) -> str:
        """Returns a variable's key in the checkpoint, possibly renamed by a pair of --warm_start_names."""
        key = renamed(name, *pair) if pair else name
        if self.keras:
            key = _of_name(key, self.keras.names) if pair or name not in self._places else self._places[name]
        return f'{key}{AVERAGE}' if f'{key}{AVERAGE}' in self.shapes else key

    def shown(self, key: str) -> str:
        """Returns the user-visible name of a key."""
        return self._shown.get(key, key)


def renamed(name: str, old: str, new: str) -> str:
    """Returns the checkpoint's name of a model variable if NEW fits its name, else ''."""
    if is_scope(new):
        return old + name.removeprefix(new) if name.startswith(new) else ''
    return old if name == new else ''


def check_source(path: str) -> None:
    """Raises UsageError if --warm_start_from names nothing to start from."""
    if not keras_weights.is_of_keras(path):
        _find(path)


def _of_name(source, names):
    """Returns the key of a name in a Keras file, where names may lack the scopes of the graph."""
    if source not in names:
        source = max((name for name in names if source.endswith(f'/{name}')), key=len, default=source)
    return names.get(source, source)


def _converted(weights):
    """Returns the path of a checkpoint converted from Keras weights, which exists until this process ends."""
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return keras_weights.to_checkpoint(weights, directory)


def _find(path):
    """Returns the path of a checkpoint, without suffix."""
    candidates = [without_suffix(path), os.path.join(path, 'variables', 'variables')]
    if tf.io.gfile.isdir(path):
        with contextlib.suppress(ValueError):  # The file `checkpoint` is corrupt.
            candidates.append(latest_intact(path) or tf.train.latest_checkpoint(path))  # The latter finds any name.
    for candidate in filter(None, candidates):
        if tf.io.gfile.exists(f'{candidate}.index'):
            return candidate
    raise UsageError(f'--warm_start_from={path}: is neither a checkpoint, nor a directory of checkpoints, nor a SavedModel')
