"""Merging tensors of different shapes by adding their projections."""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf


def merge(tensors: Sequence[tf.Tensor], units: int, activation: Callable[[tf.Tensor], tf.Tensor] | None = None) -> tf.Tensor:
    """Projects each tensor to `units` and adds them with broadcasting.

    Equivalent to tiling the tensors to one shape, concatenating them and applying a dense layer whose kernel stacks the
    projections' kernels. But each tensor is projected before broadcasting, which takes less time and memory. (After the guide
    Effective TensorFlow, chapter "Broadcasting the good and the ugly".)

    Args:
      tensors: float tensors [..., depth_i], whose other dimensions broadcast, such as [batch, height, width, 64] and
        [batch, 1, 1, 10]. Each depth_i is static.
      units: size of the output's last dimension.
      activation: applied to the sum, or None.

    Returns:
      Tensor [..., units]. The variables are in the scope 'merge': a kernel for each tensor, and one bias.
    """
    with tf.variable_scope(None, 'merge'):
        projected = [tf.layers.dense(tensor, units, use_bias=i == 0, name=f'project_{i}') for i, tensor in enumerate(tensors)]
        merged = sum(projected[1:], projected[0])
        return activation(merged) if activation else merged
