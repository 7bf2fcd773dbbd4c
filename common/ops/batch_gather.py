"""Gathering with separate indices for each example."""

import tensorflow.compat.v1 as tf


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
