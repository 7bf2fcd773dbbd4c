"""Merging tensors of different shapes by adding their projections."""

import tensorflow.compat.v1 as tf


def merge(tensors, units, activation=None):
    """Projects each tensor to `units` and adds them with broadcasting.

    The same as a dense layer on the tensors tiled to one shape and concatenated, whose kernel is the projections' kernels
    one below the other, but each is projected as small as it came: faster, and in less memory. (After the guide Effective
    TensorFlow, chapter "Broadcasting the good and the ugly".)

    Args:
      tensors: list of float tensors [..., depth_i], whose other dimensions broadcast, such as [batch, height, width, 64]
        and [batch, 1, 1, 10]. Each depth_i is static.
      units: int.
      activation: function of the sum, or None.

    Returns:
      Tensor [..., units]. Variables in the scope 'merge': a kernel for each tensor, and one bias.
    """
    with tf.variable_scope(None, 'merge'):
        projected = [tf.layers.dense(tensor, units, use_bias=i == 0, name=f'project_{i}') for i, tensor in enumerate(tensors)]
        merged = sum(projected[1:], projected[0])
        return activation(merged) if activation else merged
