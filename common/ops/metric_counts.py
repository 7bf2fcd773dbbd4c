"""The counts that metrics accumulate over an evaluation."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf


def make_counts(shape: Sequence[int]) -> tf.Variable:
    """Creates the variable `counts` in the current variable scope: int64 zeros, local, like those of tf.metrics."""
    return tf.get_variable(
        'counts',
        shape,
        tf.int64,
        tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
    )
