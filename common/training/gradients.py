"""Gradients, dense and sparse: their form, their type, their accumulation over steps."""

from collections.abc import Callable, Sequence
import math
from typing import Any

import tensorflow.compat.v1 as tf

ACCUMULATED = 'accumulated_gradient'  # A variable below the name of another.
_MAX_DENSE = 2**18  # Elements; up to here one op for a dense gradient is faster than several for a sparse one.


def is_small(variable: tf.Variable) -> bool:
    """Whether a dense gradient costs less than the ops of a sparse one; those of parameter servers are sent each step."""
    return (variable.shape.num_elements() or math.inf) <= _MAX_DENSE and not is_remote(variable)


def is_remote(variable: tf.Variable) -> bool:
    """Whether a variable is on a parameter server."""
    return '/job:ps' in variable.device


def make_dense(gradient: Any, variable: tf.Variable) -> tf.Tensor:
    """Returns the gradient of a variable as a tensor."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])


def merge_duplicates(gradient: Any) -> Any:
    """Sums slices of the same row in a sparse gradient, such as an embedding's, to correct its norm."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, segment_ids = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, segment_ids, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def in_one_type(gradients: Sequence[Any]) -> list[Any]:
    """Returns gradients in the widest of their types, as required by tf.global_norm and tf.clip_by_global_norm."""
    widest = max((gradient.dtype for gradient in gradients), key=lambda dtype: dtype.size)
    return [tf.cast(gradient, widest) for gradient in gradients]


def accumulate(
    gradients: Sequence[Any],
    variables: Sequence[tf.Variable],
    step: tf.Variable,
    count: int,
    mean: Callable[[Sequence[tf.Variable], tf.Tensor], Callable[[], Sequence[Any]]],
    update: Callable[[Sequence[Any]], tf.Operation],
) -> tf.Operation:
    """Returns the op that accumulates the gradients, and at every count-th step applies `update` to their mean.

    Args:
      mean: averages sums of dense gradients over the processes, see `Means.of_sums`; sparse ones are averaged in each step.
    """
    sums = [
        tf.get_variable(
            f'{variable.op.name}/{ACCUMULATED}',
            variable.shape,
            variable.dtype.base_dtype,
            tf.zeros_initializer(),
            trainable=False,
        )
        for variable in variables
    ]

    is_sparse = [isinstance(gradient, tf.IndexedSlices) for gradient in gradients]

    def update_and_reset():
        dense = iter(dense_means())
        totals = [total if is_averaged else next(dense) for total, is_averaged in zip(sums, is_sparse)]
        with tf.control_dependencies([update([total / count for total in totals])]):
            return tf.group(*[tf.assign(total, tf.zeros_like(total)) for total in sums])

    added = [tf.assign_add(total, tf.convert_to_tensor(gradient)) for total, gradient in zip(sums, gradients)]
    with tf.control_dependencies(added):
        is_due = tf.equal((step + 1) % count, 0)
        dense_means = mean([total for total, is_averaged in zip(sums, is_sparse) if not is_averaged], is_due)
        return tf.cond(is_due, update_and_reset, tf.no_op)
