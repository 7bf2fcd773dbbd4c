"""Precision and recall of a classifier, by the threshold for the probability."""

from tensorboard.plugins.pr_curve import summary
import tensorflow.compat.v1 as tf


def pr_curve(labels, probabilities, num_thresholds=101):
    """Counts true and false positives of a classifier over a whole evaluation: a metric for `eval_metrics`.

    Every class of every example is one decision, whether its probability exceeds a threshold (micro-averaging); the
    thresholds are 0, 1 / (num_thresholds - 1), ..., 1. TensorBoard draws the curve in its tab PR Curves.

    Args:
      labels: int [batch], in [0, num_classes).
      probabilities: float [batch, num_classes], in [0, 1].
      num_thresholds: int, at least 2.

    Returns:
      (value, update_op) as of tf.metrics. The value is a serialized tf.Summary, which the Estimator writes to the
      evaluation's events.
    """
    is_right = tf.one_hot(labels, tf.shape(probabilities)[1], on_value=True, off_value=False, dtype=tf.bool)
    with tf.variable_scope(None, 'pr_curve'):
        return summary.streaming_op('curve', is_right, probabilities, num_thresholds)
