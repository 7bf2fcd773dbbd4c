"""Partly static shapes, and gathering with separate indices for each example."""

from collections.abc import Sequence
import math

import tensorflow.compat.v1 as tf


def get_shape(tensor: tf.Tensor) -> list[int | tf.Tensor]:
    """Returns the shape as a list: an int for each static size, an int32 scalar tensor for each dynamic one.

    Args:
      tensor: tensor of known rank, any dtype.

    Raises:
      ValueError: the rank is unknown.
    """
    tensor = tf.convert_to_tensor(tensor)
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape.as_list())]


def reshape(tensor: tf.Tensor, dims_list: Sequence[int | list[int] | tuple[int, ...]]) -> tf.Tensor:
    """Merges dimensions: an int keeps a dimension, and the dimensions of an inner list become one.

    `reshape(images, [0, [1, 2], 3])` turns [batch, height, width, channels] into [batch, height * width, channels]. A merged
    size is static if all its factors are. (After the guide Effective TensorFlow, chapter "Understanding static and dynamic
    shapes".)

    Args:
      tensor: tensor of known rank, any dtype.
      dims_list: every dimension once, in order.

    Returns:
      Tensor with a dimension for each element of dims_list.

    Raises:
      ValueError: dims_list does not have every dimension once, in order; reshaping does not transpose.
    """
    shape: list = get_shape(tensor)
    groups = [dims if isinstance(dims, (list, tuple)) else [dims] for dims in dims_list]
    if sum(map(list, groups), []) != list(range(len(shape))):
        raise ValueError(f'dims_list={dims_list} must name each of the dimensions 0 to {len(shape) - 1} once, in order')
    return tf.reshape(tensor, [math.prod(shape[dim] for dim in group) for group in groups])


def batch_gather(tensor: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns output[i] = tf.gather(tensor[i], indices[i]) for each i of the batch.

    (After the guide Effective TensorFlow, chapter on beam search.)

    Args:
      tensor: [batch, size, ...], rank 2 or more, any dtype.
      indices: int32 or int64 [batch, ...], rank 1 or more, each in [0, size).

    Returns:
      Tensor of shape indices.shape + tensor.shape[2:].

    Raises:
      tf.errors.InvalidArgumentError: an index is out of range, when run on a CPU; a GPU returns 0 for it.
    """
    return tf.gather(tensor, indices, axis=1, batch_dims=1)
