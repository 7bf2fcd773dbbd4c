"""The leaky rectifier."""

import tensorflow.compat.v1 as tf


def leaky_relu(tensor, alpha=0.1):
    """Returns max(x, alpha * x), tf.nn.leaky_relu with a steeper slope by default.

    (A. Maas, A. Hannun, A. Ng: Rectifier Nonlinearities Improve Neural Network Acoustic Models, 2013.)

    Args:
      tensor: float tensor of any shape.
      alpha: float in [0, 1], the slope below 0.

    Returns:
      Tensor of the shape and dtype of `tensor`.
    """
    return tf.nn.leaky_relu(tensor, alpha)
