"""Finding the op that made the first NaN or infinity."""

import contextlib
import functools
import os
import re

import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.ops.asserts import assert_finite
from common.quiet import quiet

_COMMON = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), '')
_OPS = os.path.join(_COMMON, 'ops', '')
_PACKAGES = re.compile(r'[/\\](site|dist)-packages[/\\]|^<')


def check_numerics(model_fn):
    """Returns a model_fn whose ops, and their gradients, are each checked where they are computed.

    Nothing is computed from a value that is not finite, so that the first op that made one ends the run. Checks are in
    the bodies of loops, too. The inputs are checked first.
    """

    @functools.wraps(model_fn)
    def checked(features, labels, mode, params, config):
        with _checking(), tf.variable_creator_scope(_create_unchecked):
            features, labels = (_check_inputs(inputs) for inputs in (features, labels))
            return model_fn(features, labels, mode, params, config)

    return checked


def _switch(is_on):
    with quiet():  # It would say so each time.
        if is_on:
            tf.debugging.enable_check_numerics(stack_height_limit=1000, path_length_limit=None)  # All of it.
        else:
            tf.debugging.disable_check_numerics()


@contextlib.contextmanager
def _checking():
    _switch(True)
    try:
        yield
    finally:
        _switch(False)


def _create_unchecked(next_creator, **kwargs):
    """Creates a variable: a check would take the place of its read op, by which a tf.train.Saver knows the variable."""
    _switch(False)
    try:
        return next_creator(**kwargs)
    finally:
        _switch(True)


def _check_inputs(inputs):
    """Checks the tensors of a dict, or None."""
    return (
        {
            name: assert_finite(tensor, f'--debug_numerics: the input {name}') if tensor.dtype.is_floating else tensor
            for name, tensor in inputs.items()
        }
        if inputs
        else inputs
    )


@contextlib.contextmanager
def name_the_op():
    """Turns the error of such a check, or of the model's own `assert_finite`, which is a page long, into one line.

    Raises:
      RunError: it names the op, its type, what its values were, and the line of the model that made it; or what the model
        said of its own check.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        raise (_explain(error.message) or error) from None


def _explain(message):
    values = re.search(r'^(?: *\(\d+\) \w+: )?(.*) : Tensor had (.*) values', message, re.MULTILINE)
    node = re.search(r'\{\{node ([^}]*)\}\}', message)
    if not values or not node:
        return None
    said, values = values.groups()
    made_by = re.search(r'graph op "(\w+)"', message)
    if not made_by:
        return RunError(f'{said}: {values} values')
    op = re.sub(r'/CheckNumericsV2(_\d+)?$', '', node.group(1))
    return RunError(f'--debug_numerics: the op {op} ({made_by.group(1)}) produced {values} values' + _place(message))


def _place(message):
    """Returns the line of the model module that the stack of the op's creation goes through, if it does."""
    place = ''
    for path, line in re.findall(r'\+ (.+) \(L(\d+)\) ', message):
        if path.startswith(_COMMON):
            if not path.startswith(_OPS):
                place = ''  # The model's line is below those of the framework; a gradient has none.
        elif not _PACKAGES.search(path):
            place = f', made at {path}:{line}'
    return place
