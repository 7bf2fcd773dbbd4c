"""Dropout that is reproducible when training resumes."""

import tensorflow.compat.v1 as tf

from common.ops.step_seed import step_seed


def dropout(tensor: tf.Tensor, drop_rate: float, is_training: bool) -> tf.Tensor:
    """Sets random elements to 0 and scales up the others, so that the expected sum is unchanged.

    The mask is a function of the graph's seed, the op's name and the global step; in a loop, such as that of a recurrent
    network, it is the same in every iteration. (N. Srivastava et al.: Dropout: a simple way to prevent neural networks from
    overfitting, 2014.)

    Args:
      tensor: float tensor of any shape.
      drop_rate: in [0, 1), the probability that an element is dropped; 0 does nothing.
      is_training: False does nothing.

    Returns:
      Tensor of the shape and dtype of `tensor`.
    """
    if not is_training or drop_rate == 0:
        return tensor
    with tf.name_scope('dropout'):
        return tf.nn.experimental.stateless_dropout(tensor, drop_rate, step_seed())
