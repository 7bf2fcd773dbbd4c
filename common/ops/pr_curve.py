"""The precision-recall curve of a classifier as a metric."""

from tensorboard.plugins.pr_curve import summary
import tensorflow.compat.v1 as tf

from common.ops.metric_counts import make_counts


def pr_curve(labels: tf.Tensor, probabilities: tf.Tensor, num_thresholds: int = 101) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts true and false positives over an evaluation, by threshold: a metric for `eval_metrics`.

    Micro-averaged: each class of each example is one binary decision, whether its probability reaches the threshold. The
    thresholds are 0, 1 / (num_thresholds - 1), ..., 1. TensorBoard shows the curve in its PR Curves tab. Unlike TensorBoard's
    `streaming_op`, it takes memory for the probabilities alone, not for each threshold, and tolerates those above 1.

    Args:
      labels: int [batch], in [0, num_classes).
      probabilities: float [batch, num_classes], in [0, 1].
      num_thresholds: at least 2.

    Returns:
      (value, update_op) as in tf.metrics. The value is a serialized tf.Summary, which the Estimator writes to the
      evaluation's event files. The value of the update_op is the counts so far, int64 [2, num_thresholds]: of wrong and of
      right classes whose probability reaches a threshold, but not the next.
    """
    with tf.variable_scope(None, 'pr_curve'):
        counts = make_counts([2, num_thresholds])
        is_label = tf.one_hot(labels, tf.shape(probabilities)[1], dtype=tf.int32)
        reached = tf.cast(tf.floor(tf.cast(probabilities, tf.float32) * (num_thresholds - 1)), tf.int32)
        cells = tf.reshape(is_label * num_thresholds + reached, [-1])
        new = tf.math.bincount(cells, minlength=2 * num_thresholds, maxlength=2 * num_thresholds, dtype=tf.int64)
        update = tf.assign_add(counts, tf.reshape(new, [2, num_thresholds]))

        below = tf.cumsum(counts, axis=1, exclusive=True)
        false_negatives, true_negatives = below[1], below[0]
        positives, negatives = tf.reduce_sum(counts[1]), tf.reduce_sum(counts[0])
        true_positives, false_positives = positives - false_negatives, negatives - true_negatives
        value = summary.raw_data_op(
            'curve',
            true_positives,
            false_positives,
            true_negatives,
            false_negatives,
            precision=true_positives / tf.maximum(true_positives + false_positives, 1),
            recall=true_positives / tf.maximum(positives, 1),
            num_thresholds=num_thresholds,
            collections=[],
        )
        return value, update
