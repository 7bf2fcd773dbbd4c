"""How precision and recall depend on the probability that is asked for."""

from tensorboard.plugins.pr_curve import summary
import tensorflow.compat.v1 as tf


def pr_curve(labels, probabilities, num_thresholds=101):
    """Counts hits and misses of a classifier over a whole evaluation: a metric for `eval_metrics`.

    Every class of every example is one decision, whether its probability reaches a threshold (micro-averaging); the
    thresholds are 0, 1 / (num_thresholds - 1), ..., 1. TensorBoard draws the curve in its tab PR Curves.

    Args:
      labels: int [batch], in [0, num_classes).
      probabilities: float [batch, num_classes], in [0, 1].
      num_thresholds: int, at least 2.

    Returns:
      (value, update_op) as of tf.metrics. The value is a serialized tf.Summary, which the Estimator writes to the
      evaluation's events. The update_op's value is the counts so far, int64 [2, num_thresholds]: of wrong and of right
      classes whose probability reaches a threshold, but not the next.
    """
    with tf.variable_scope(None, 'pr_curve'):
        counts = tf.get_variable(
            'counts',
            [2, num_thresholds],
            tf.int64,
            tf.zeros_initializer(),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        )
        is_right = tf.one_hot(labels, tf.shape(probabilities)[1], dtype=tf.int32)
        reached = tf.cast(tf.floor(tf.cast(probabilities, tf.float32) * (num_thresholds - 1)), tf.int32)
        cells = tf.reshape(is_right * num_thresholds + reached, [-1])
        new = tf.math.bincount(cells, minlength=2 * num_thresholds, maxlength=2 * num_thresholds, dtype=tf.int64)
        update = tf.assign_add(counts, tf.reshape(new, [2, num_thresholds]))

        below = tf.cumsum(counts, axis=1, exclusive=True)
        false_negatives, true_negatives = below[1], below[0]
        positives, negatives = tf.reduce_sum(counts[1]), tf.reduce_sum(counts[0])
        true_positives, false_positives = positives - false_negatives, negatives - true_negatives
        return summary.raw_data_op(
            'curve',
            true_positives,
            false_positives,
            true_negatives,
            false_negatives,
            precision=true_positives / tf.maximum(true_positives + false_positives, 1),
            recall=true_positives / tf.maximum(positives, 1),
            num_thresholds=num_thresholds,
            collections=[],
        ), update
