"""Datasets that are repeated: each epoch's seeds follow from its number.

TensorFlow counts the epochs of a shuffle in the shuffle's iterator, whose state is lost as soon as it has ended, though its
last elements still wait in a buffer behind it.
"""

from typing import Any

from tf_estimator.exact import keys
from tf_estimator.mending import around

import tensorflow as tf
from tensorflow.python.data.ops import repeat_op
from tensorflow.python.data.util import random_seed
from tensorflow.python.framework import ops

_FLAGS = ('reshuffle_each_iteration', 'rerandomize_each_iteration')


def mend() -> None:
    around(random_seed, 'get_seed')(_get_seed)
    around(repeat_op, '_repeat')(_repeat)


def _get_seed(get_seed, seed):
    seeds = get_seed(seed)
    if keys.is_in_training(ops.get_default_graph()):
        for each in seeds:
            _mark(each)
    return seeds


def _mark(seed):
    seed.op._exact_is_seed = True
    return seed


def _repeat(repeat, input_dataset, count, name):
    variant = input_dataset._variant_tensor
    seeded: dict[Any, bool] = {}
    if not keys.is_in_training(ops.get_default_graph()) or not _has_seed(variant, seeded):
        return repeat(input_dataset, count, name)
    count = tf.cast(-1 if count is None else count, tf.int64)
    epochs = tf.data.Dataset.range(tf.where(count < 0, tf.int64.max, count))

    @tf.autograph.experimental.do_not_convert
    def epoch(number):
        return tf.data.experimental.from_variant(_of_epoch(variant, number, seeded, {}), input_dataset.element_spec)

    return epochs.flat_map(epoch, name=name)


def _has_seed(tensor: Any, known: dict[Any, bool]) -> bool:
    """Whether a dataset, not one behind a cache, depends on a seed that changes with each epoch."""
    op = tensor.op
    if op not in known:
        known[op] = _is_seed(op) or not _is_constant(op) and any(_has_seed(each, known) for each in op.inputs)
    return known[op]


def _of_epoch(tensor: Any, number: Any, seeded: dict[Any, bool], copies: dict[Any, Any]) -> Any:
    """Copies to the default graph what depends on a seed, with the seeds of an epoch."""
    op = tensor.op
    if not _has_seed(tensor, seeded):
        return tensor
    if _is_seed(op):
        return _mark(keys.fold(tensor, number))
    if op not in copies:
        inputs = [_of_epoch(each, number, seeded, copies) for each in op.inputs]
        types = [each.dtype for each in op.outputs]
        copies[op] = ops.get_default_graph().create_op(op.type, inputs, types, attrs=dict(op.node_def.attr))
    return copies[op].outputs[tensor.value_index]


def _is_seed(op):
    return hasattr(op, '_exact_is_seed')


def _is_constant(op):
    """Whether all epochs of a dataset are the same."""
    attributes = op.node_def.attr
    return (
        op.type.startswith(('Cache', 'RandomDataset'))
        and op.type != 'RandomDatasetV2'
        or any(flag in attributes and not attributes[flag].b for flag in _FLAGS)
    )
