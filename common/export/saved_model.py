"""SavedModels, loaded again to compare them."""

import collections
from collections.abc import Iterable, Iterator, Mapping
import contextlib
import keyword
import re
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.console import errors_only
from estimator_trainer.common.inference.session_calls import Call, make_call
from estimator_trainer.common.inference.signatures import DEFAULT

_SERVING = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def refused(names: Iterable[str]) -> list[str]:
    """Returns the names of inputs with which `tf.saved_model.load` of TensorFlow 2.21 fails, but not of 2.15.

    It makes them parameters of a function of Python, with _ for other characters than letters and digits: these must be valid
    names, and differ.
    """
    parameters = {name: _parameter(name) for name in names}
    counts = collections.Counter(parameters.values())
    return [name for name, made in parameters.items() if counts[made] > 1 or keyword.iskeyword(made) or not made.isidentifier()]


def _parameter(name):
    made = re.sub(r'\W', '_', name)
    return made if made[:1].isalpha() else f'arg_{made}'


class Loaded(NamedTuple):
    """A signature of a SavedModel: a function from {name: array [batch, ...]} to its outputs, those of numbers."""

    inputs: list[str]
    outputs: list[str]
    call: Call

    def __call__(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.call(*(np.asarray(batch[name]) for name in self.inputs))


@contextlib.contextmanager
def opened(path: str, signature: str) -> Iterator[Loaded]:
    """Yields a signature, named as in `signatures_of`, of a SavedModel in a directory."""
    key = f'{signature}:{_SERVING}' if signature != DEFAULT else _SERVING
    with tf.Graph().as_default() as graph, tf.Session() as session:
        with errors_only():
            found = tf.saved_model.load(session, [tf.saved_model.tag_constants.SERVING], path).signature_def[key]
        inputs, outputs = (
            {name: graph.get_tensor_by_name(info.name) for name, info in infos.items()}
            for infos in (found.inputs, found.outputs)
        )
        outputs = {name: tensor for name, tensor in outputs.items() if tensor.dtype != tf.string}
        fetches = {name: tf.identity(tensor) for name, tensor in outputs.items()}
        call = make_call(session, fetches, [*inputs.values()]) if fetches else lambda *_: {}
        yield Loaded([*inputs], [*outputs], call)
