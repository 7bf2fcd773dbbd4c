"""The precision-recall curve of a classifier as a metric."""

from tensorboard.plugins.pr_curve import summary
import tensorflow.compat.v1 as tf


def pr_curve(labels: tf.Tensor, probabilities: tf.Tensor, num_thresholds: int = 101) -> tuple[tf.Tensor, tf.Operation]:
    """Counts true and false positives over an evaluation, by threshold: a metric for `eval_metrics`.

    Micro-averaged: each class of each example is one binary decision, whether its probability exceeds the threshold. The
    thresholds are 0, 1 / (num_thresholds - 1), ..., 1. TensorBoard shows the curve in its PR Curves tab.

    Args:
      labels: int [batch], in [0, num_classes).
      probabilities: float [batch, num_classes], in [0, 1].
      num_thresholds: at least 2.

    Returns:
      (value, update_op) as in tf.metrics. The value is a serialized tf.Summary, which the Estimator writes to the
      evaluation's event files.
    """
    is_label = tf.one_hot(labels, tf.shape(probabilities)[1], on_value=True, off_value=False, dtype=tf.bool)
    with tf.variable_scope(None, 'pr_curve'):
        return summary.streaming_op('curve', is_label, probabilities, num_thresholds)
