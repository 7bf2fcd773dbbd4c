"""What is checked of model and of dataset modules alike."""

import collections.abc

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.values import describe, show

DENSE = (tf.Tensor, tf2.Variable)
COMPOSITE = (tf.SparseTensor, tf.RaggedTensor)


def check_pair(source, names, returned):
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise UsageError(f'{source} must return a pair {names}, not {describe(returned)}')
    return returned


def check_dict(source, what, values):
    if not isinstance(values, collections.abc.Mapping):
        raise UsageError(f'{source} must return {what} as a dict, not {describe(values)}')
    for name in values:
        if not isinstance(name, str) or not name.isprintable() or not name:
            raise UsageError(f'{source} must return {what} under names that are printable text, not {show(name)}')


def unknown_shape_error(source, kind, name):
    return UsageError(f'{source}: the {kind} {name} has an unknown shape: give it one, with tf.ensure_shape')


def not_a_tensor_error(source, kind, name, value):
    cure = ''
    if isinstance(value, COMPOSITE):
        cure = f': {"tf.sparse.to_dense(it)" if isinstance(value, tf.SparseTensor) else "its method to_tensor()"} makes one'
    elif isinstance(value, collections.abc.Mapping):
        cure = f': give each of its items a name beside {name}'
    elif value is not None and kind == 'prediction':
        cure = ': tf.convert_to_tensor(it) makes one'
    return UsageError(f'{source}: the {kind} {name} must be a tensor, not {describe(value)}{cure}')
