"""Gathering with indices of its own for each example."""

import tensorflow.compat.v1 as tf


def batch_gather(tensor, indices):
    """Returns output[i] = tf.gather(tensor[i], indices[i]) for each i of the batch.

    (After the guide Effective TensorFlow, chapter on beam search.)

    Args:
      tensor: [batch, size, ...], any rank from 2 on, any dtype.
      indices: int32 or int64 [batch, ...], any rank from 1 on, each in [0, size).

    Returns:
      Tensor of shape indices.shape + tensor.shape[2:].

    Raises:
      tf.errors.InvalidArgumentError: an index is out of range, when run on a CPU; a GPU gives 0 for it.
    """
    return tf.gather(tensor, indices, axis=1, batch_dims=1)
