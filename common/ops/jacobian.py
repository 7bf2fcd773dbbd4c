"""Jacobians: the derivatives of every output with respect to every input."""

import tensorflow.compat.v1 as tf

from common.ops.shape import get_shape, reshape


def jacobian(outputs: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """Returns the derivatives of all outputs with respect to all inputs.

    The gradient is vectorized over the elements of `outputs` (tf.vectorized_map) instead of computed in a loop.

    Args:
      outputs: float tensor of any shape, computed from `inputs`.
      inputs: float tensor of any shape.

    Returns:
      Tensor of shape outputs.shape + inputs.shape; 0 if an output does not depend on an input.
    """
    rows = _gradients(tf.reshape(outputs, [-1]), inputs)
    return tf.reshape(rows, get_shape(outputs) + get_shape(inputs))


def batch_jacobian(outputs: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """Returns the derivatives of each example's outputs with respect to its own inputs.

    Correct only if an example's outputs do not depend on other examples' inputs, as they do with batch norm in training.
    The cost is one gradient per element of one example's outputs.

    Args:
      outputs: float tensor [batch, ...], computed from `inputs`.
      inputs: float tensor [batch, ...].

    Returns:
      Tensor of shape [batch] + outputs.shape[1:] + inputs.shape[1:]; 0 if an output does not depend on an input.
    """
    columns = _gradients(reshape(outputs, [0, list(range(1, outputs.shape.rank))]), inputs)
    by_example = tf.transpose(columns, [1, 0, *range(2, columns.shape.rank)])
    return tf.reshape(by_example, get_shape(outputs) + get_shape(inputs)[1:])


def _gradients(outputs, inputs):
    """Returns the gradients of outputs[..., i] for each i, of shape [i] + inputs.shape."""

    def gradient(i):
        return tf.gradients(padded[..., i], inputs, unconnected_gradients='zero')[0]

    count = tf.shape(outputs)[-1]
    padded = tf.pad(outputs, [[0, 0]] * (outputs.shape.rank - 1) + [[0, 1]])  # tf.vectorized_map needs at least one element.
    return tf.vectorized_map(gradient, tf.range(tf.maximum(count, 1)))[:count]
