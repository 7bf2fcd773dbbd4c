"""Max-pooling of a convolution's output, with gradients that take less time."""

import tensorflow.compat.v1 as tf


def relu_max_pool(convolved: tf.Tensor, bias: tf.Tensor, size: int, data_format: str) -> tf.Tensor:
    """Adds a bias, applies ReLU, and returns the maxima of squares.

    Only maxima have gradients: those of ReLU and of the bias are computed from them alone, not from all positions, and equal
    the usual ones but for rounding.

    Args:
      convolved: float [batch, height, width, channels], or [batch, channels, height, width] for NCHW.
      bias: float [channels].
      size: of the squares, and the stride.
      data_format: 'NHWC' or 'NCHW'.

    Returns:
      float, height and width divided by size, rounded down.
    """
    window = [1, size, size, 1] if data_format == 'NHWC' else [1, 1, size, size]
    pooling = {'ksize': window, 'strides': window, 'padding': 'VALID', 'data_format': data_format}

    @tf.custom_gradient
    def pooled(convolved, bias):
        activations = tf.nn.relu(tf.nn.bias_add(convolved, bias, data_format))
        maxima = tf.raw_ops.MaxPool(input=activations, **pooling)

        def gradients(gradient):
            gradient = tf.raw_ops.ReluGrad(gradients=gradient, features=maxima)
            of_activations = tf.raw_ops.MaxPoolGrad(orig_input=activations, orig_output=maxima, grad=gradient, **pooling)
            return of_activations, tf.raw_ops.BiasAddGrad(out_backprop=gradient, data_format=data_format)

        return maxima, gradients

    return pooled(convolved, bias)
