"""The leaky ReLU."""

import tensorflow.compat.v1 as tf


def leaky_relu(tensor: tf.Tensor, alpha: float = 0.1) -> tf.Tensor:
    """Returns max(x, alpha * x): tf.nn.leaky_relu with a steeper default slope.

    (A. Maas, A. Hannun, A. Ng: Rectifier Nonlinearities Improve Neural Network Acoustic Models, 2013.)

    Args:
      tensor: float tensor of any shape.
      alpha: in [0, 1], the slope below 0.

    Returns:
      Tensor of the shape and dtype of `tensor`.
    """
    return tf.nn.leaky_relu(tensor, alpha)
