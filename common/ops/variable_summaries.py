"""TensorBoard summaries of a variable."""

import tensorflow.compat.v1 as tf


def variable_summaries(variable: tf.Variable) -> None:
    """Adds summaries of a variable: mean, standard deviation, minimum, maximum and a histogram.

    Args:
      variable: float variable or tensor of any shape; the tags are NAME/mean, /stddev, /min, /max and /histogram.
    """
    name = variable.op.name
    with tf.name_scope(None):
        tf.summary.scalar(f'{name}/mean', tf.reduce_mean(variable))
        tf.summary.scalar(f'{name}/stddev', tf.math.reduce_std(variable))
        tf.summary.scalar(f'{name}/min', tf.reduce_min(variable))
        tf.summary.scalar(f'{name}/max', tf.reduce_max(variable))
        tf.summary.histogram(f'{name}/histogram', variable)
