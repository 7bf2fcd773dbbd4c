"""Shapes of which some dimensions are known when the graph is built and the others when it runs."""

import math

import tensorflow.compat.v1 as tf


def get_shape(tensor):
    """Returns the shape as a list: an int where it is known, else a scalar tensor.

    Args:
      tensor: tensor of known rank, any dtype.

    Returns:
      list of int and of int32 tensors [].

    Raises:
      ValueError: the rank is unknown.
    """
    tensor = tf.convert_to_tensor(tensor)
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape.as_list())]


def reshape(tensor, dims_list):
    """Reshapes by the numbers of the dimensions to keep; those of an inner list are merged into one.

    `reshape(images, [0, [1, 2], 3])` makes [batch, height * width, channels] of [batch, height, width, channels]. The
    result has a static size wherever all sizes that make it are static. (After the guide Effective TensorFlow, chapter
    "Understanding static and dynamic shapes".)

    Args:
      tensor: tensor of known rank, any dtype.
      dims_list: list of int and of lists of int: every dimension once, in order.

    Returns:
      Tensor with a dimension for each element of dims_list.

    Raises:
      ValueError: the dimensions are not all there, once, in order: reshaping would tear elements apart.
    """
    shape = get_shape(tensor)
    groups = [dims if isinstance(dims, (list, tuple)) else [dims] for dims in dims_list]
    if sum(map(list, groups), []) != list(range(len(shape))):
        raise ValueError(f'dims_list={dims_list} must name each of the dimensions 0 to {len(shape) - 1} once, in order')
    return tf.reshape(tensor, [math.prod(shape[dim] for dim in group) for group in groups])
