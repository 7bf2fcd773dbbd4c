"""Checks common to model and dataset modules."""

import collections.abc
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, describe, show

DENSE = (tf.Tensor, tf2.Variable)
COMPOSITE = (tf.SparseTensor, tf.RaggedTensor)


def check_pair(source: str, names: str, returned: Any) -> Any:
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise UsageError(f'{source} must return a pair {names}, not {describe(returned)}')
    return returned


def check_dict(source: str, what: str, values: Any) -> None:
    if not isinstance(values, collections.abc.Mapping):
        raise UsageError(f'{source} must return {what} as a dict, not {describe(values)}')
    for name in values:
        if not isinstance(name, str) or not name.isprintable() or not name:
            raise UsageError(f'{source} must return {what} under names that are printable text, not {show(name)}')


def unknown_shape_error(source: str, kind: str, name: str) -> UsageError:
    return UsageError(f'{source}: the {kind} {name} has an unknown shape: give it one, with tf.ensure_shape')


def not_a_tensor_error(source: str, kind: str, name: str, value: Any) -> UsageError:
    fix = ''
    if isinstance(value, COMPOSITE):
        fix = f': {"tf.sparse.to_dense(it)" if isinstance(value, tf.SparseTensor) else "its method to_tensor()"} makes one'
    elif isinstance(value, collections.abc.Mapping):
        fix = f': give each of its items a name beside {name}'
    elif value is not None and kind == 'prediction':
        fix = ': tf.convert_to_tensor(it) makes one'
    return UsageError(f'{source}: the {kind} {name} must be a tensor, not {describe(value)}{fix}')
