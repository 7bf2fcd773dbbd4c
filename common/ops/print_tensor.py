"""Printing tensors while the graph runs."""

import sys

import tensorflow.compat.v1 as tf


def print_tensor(tensor, message=None, summarize=3):
    """Returns `tensor`, which prints its shape and values on stderr whenever the result is computed.

    Args:
      tensor: any tensor.
      message: str to print before it, by default the tensor's name.
      summarize: int, how many elements at each end of each dimension to print; -1 prints all.

    Returns:
      `tensor`; go on with this one, or nothing is printed.
    """
    tensor = tf.convert_to_tensor(tensor)
    with tf.name_scope('print_tensor'):
        printed = tf.print(message or tensor.name, tf.shape(tensor), tensor, output_stream=sys.stderr, summarize=summarize)
        with tf.control_dependencies([printed]):
            return tf.identity(tensor)
