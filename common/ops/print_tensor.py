"""Printing tensors while the graph runs."""

import sys

import tensorflow.compat.v1 as tf


def print_tensor(tensor: tf.Tensor, message: str | None = None, summarize: int = 3) -> tf.Tensor:
    """Prints a tensor's shape and values to stderr whenever the result is computed.

    Args:
      tensor: any tensor.
      message: printed before them; by default the tensor's name.
      summarize: number of elements to print at each end of each dimension; -1 prints all.

    Returns:
      `tensor`; use this one, since otherwise nothing is printed.
    """
    tensor = tf.convert_to_tensor(tensor)
    with tf.name_scope('print_tensor'):
        printed = tf.print(message or tensor.name, tf.shape(tensor), tensor, output_stream=sys.stderr, summarize=summarize)
        with tf.control_dependencies([printed]):
            return tf.identity(tensor)
