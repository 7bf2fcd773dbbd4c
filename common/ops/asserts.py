"""Assertions that run whenever the checked tensor is used."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf


def assert_shape(tensor: tf.Tensor, shape: Sequence[int | tf.Tensor | None]) -> tf.Tensor:
    """Checks the shape of a tensor: static sizes immediately, dynamic ones whenever the result is computed.

    In a graph, an assertion op that nothing depends on never runs. Here the returned tensor depends on the check, so use
    that one.

    Args:
      tensor: any tensor.
      shape: the sizes: ints, int32 scalar tensors such as `get_shape` returns, or None for any.

    Returns:
      `tensor`, with the static shape that `shape` adds.

    Raises:
      ValueError: the static shape does not match.
      tf.errors.InvalidArgumentError: the dynamic shape does not match, when run.
    """
    static = [None if tf.is_tensor(size) else size for size in shape]
    with tf.name_scope('assert_shape'):
        tensor = tf.ensure_shape(tensor, static)
        checks = [
            tf.debugging.assert_equal(tf.shape(tensor)[i], size, message=f'Dimension {i} of {tensor.name}')
            for i, size in enumerate(shape)
            if tf.is_tensor(size)
        ]
        with tf.control_dependencies(checks):
            return tf.identity(tensor)


def assert_finite(tensor: tf.Tensor, message: str | None = None) -> tf.Tensor:
    """Checks, whenever the result is computed, that a tensor contains no NaN or infinity.

    Args:
      tensor: float tensor of any shape.
      message: for the error; by default the tensor's name.

    Returns:
      `tensor`; use this one, since otherwise the check does not run.

    Raises:
      tf.errors.InvalidArgumentError: a value is not finite, when run.
    """
    tensor = tf.convert_to_tensor(tensor)
    return tf.debugging.check_numerics(tensor, message or f'{tensor.name} is not finite')
