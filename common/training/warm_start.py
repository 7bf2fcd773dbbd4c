"""Warm start: initializing the weights from another training."""

from collections.abc import Sequence
import contextlib
import os

import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.storage.checkpoints import latest_intact
from common.storage.restore import is_intact, open_checkpoint, without_suffix


def warm_start(path: str, variables: Sequence[tf.Variable]) -> None:
    """Initializes variables from those of the same name and shape in a checkpoint, and logs which were loaded.

    If the checkpoint has moving averages of the weights, these are loaded, since they are what was evaluated.

    Args:
      path: a checkpoint, a directory of checkpoints (the last one is used), output_dir/best, or a SavedModel.
      variables: the variables to initialize.

    Raises:
      UsageError: there is no checkpoint at the path, or none of its variables matches.
      RunError: the checkpoint is corrupt.
    """
    found = _find(path)
    if not is_intact(found):
        raise RunError(f'--warm_start_from={path}: {found} is corrupt: choose another checkpoint')
    shapes = open_checkpoint(found).get_variable_to_shape_map()
    matching = {}
    tf.logging.info('Starting from the weights in %s:', found)
    for variable in variables:
        name, shape = variable.op.name, variable.shape.as_list()
        average = f'{name}/ExponentialMovingAverage'
        source = average if average in shapes else name
        saved_shape = shapes.get(source)
        if saved_shape == shape:
            matching[source] = variable
        tf.logging.info(
            '  %-40s %s',
            name,
            'skipped: missing'
            if saved_shape is None
            else 'loaded'
            if saved_shape == shape
            else f'skipped: its shape is {saved_shape}, not {shape}',
        )
    if not matching:
        raise UsageError(f'--warm_start_from={path}: no variable matches one of the model in name and shape')
    tf.train.init_from_checkpoint(found, matching)


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
