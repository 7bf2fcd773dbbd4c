"""Detection of the op that produced the first NaN or infinity."""

from collections.abc import Callable, Iterator
import contextlib
import functools
import os
import re

import tensorflow.compat.v1 as tf
from tensorflow.python.util import nest

from estimator_trainer.common.console import quiet
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.ops.debug import assert_finite

_COMMON = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), '')
_OPS = os.path.join(_COMMON, 'ops', '')
_PACKAGES = re.compile(r'[/\\](site|dist)-packages[/\\]|^<')


def check_numerics(model_fn: Callable) -> Callable:
    """Returns a model_fn that checks the output of every op, gradients included, for NaN and infinity.

    The run fails at the first op that produces such a value, as later ops do not run. Checks loop bodies, too, and the inputs
    first.
    """

    @functools.wraps(model_fn)
    def checked(features, labels, mode, params, config):
        with _checks(True), tf.variable_creator_scope(_create_unchecked):
            features, labels = (_check_inputs(inputs) for inputs in (features, labels))
            return model_fn(features, labels, mode, params, config)

    return checked


@contextlib.contextmanager
def _checks(are_enabled):
    """Within the block, creates ops with or without checks; afterwards, vice versa."""
    _set_enabled(are_enabled)
    try:
        yield
    finally:
        _set_enabled(not are_enabled)


def _set_enabled(is_enabled):
    with quiet():  # TensorFlow logs each call.
        if is_enabled:
            tf.debugging.enable_check_numerics(stack_height_limit=1000, path_length_limit=None)  # Without truncation.
        else:
            tf.debugging.disable_check_numerics()


def _create_unchecked(next_creator, **kwargs):
    """Creates a variable without checks, which would replace the read op by which a tf.train.Saver finds it."""
    with _checks(False):
        return next_creator(**kwargs)


def _check_inputs(inputs):
    """Adds checks to the dense float tensors of a structure; None stays None."""

    def check(path, tensor):
        if not isinstance(tensor, tf.Tensor) or not tensor.dtype.is_floating:
            return tensor
        name = ' '.join(map(str, path))
        return assert_finite(tensor, f'--debug_numerics: the input {name}'.rstrip())

    return inputs if inputs is None else nest.map_structure_with_tuple_paths(check, inputs)


@contextlib.contextmanager
def name_the_op() -> Iterator[None]:
    """Shortens the error of such a check, or of an `assert_finite` in the model, from a page to one line.

    Raises:
      RunError: names the op, its type, the kind of values, and the line of the model that created it; for an
        `assert_finite`, its message.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        raise (_explain(error.message) or error) from None


def _explain(message):
    found = re.search(r'^(?: *\(\d+\) \w+: )?(.*) : Tensor had (.*) values', message, re.MULTILINE)
    node = re.search(r'\{\{node ([^}]*)\}\}', message)
    if not found or not node:
        return None
    text, values = found.groups()
    op_type = re.search(r'graph op "(\w+)"', message)
    if not op_type:
        return RunError(f'{text}: {values} values')
    op = re.sub(r'/CheckNumericsV2(_\d+)?$', '', node.group(1))
    return RunError(f'--debug_numerics: the op {op} ({op_type.group(1)}) produced {values} values' + _location(message))


def _location(message):
    """Returns ', made at FILE:LINE' for the line of the model module in the op's creation stack; '' if there is none."""
    location = ''
    for path, line in re.findall(r'\+ (.+) \(L(\d+)\) ', message):
        if path.startswith(_COMMON):
            if not path.startswith(_OPS):
                location = ''  # The model's line follows those of the framework; a gradient has none.
        elif not _PACKAGES.search(path):
            location = f', made at {path}:{line}'
    return location
