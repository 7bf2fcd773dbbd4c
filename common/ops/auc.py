"""The area under the ROC curve as a metric."""

import tensorflow.compat.v1 as tf

from common.ops.metric_counts import make_counts

_BINS = 2**16


def auc(labels: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Measures how often a positive example has a higher score than a negative one: a metric for `eval_metrics`.

    Scores are compared as float16, and equal ones count one half. So give logits or log-odds rather than probabilities: near 1,
    many of those become equal. tf.metrics.auc compares with 200 thresholds instead.

    Args:
      labels: int or bool [batch]: 0 for negative, all others are positive.
      scores: float [batch], no NaN.

    Returns:
      (value, update_op) as in tf.metrics, float32 scalars: the area in [0, 1], NaN until there are examples of both kinds. The
      update_op's value includes the batch.
    """
    with tf.variable_scope(None, 'auc'):
        counts = make_counts([2, _BINS])
        cells = tf.cast(tf.not_equal(tf.cast(labels, tf.int32), 0), tf.int32) * _BINS + _order(scores)
        new = tf.math.bincount(cells, minlength=2 * _BINS, maxlength=2 * _BINS, dtype=tf.int64)
        update = tf.assign_add(counts, tf.reshape(new, [2, _BINS]))
        return _area(counts.read_value()), _area(update)


def _order(scores):
    """Maps floats to int32 in [0, 2^16) in the same order, with the resolution of float16."""
    scores = tf.cast(scores, tf.float32)
    half = tf.cast(tf.minimum(tf.abs(scores), tf.float16.max), tf.float16)
    magnitude = tf.cast(tf.bitcast(half, tf.int16), tf.int32)  # The bits of positive floats are in their order.
    return _BINS // 2 + tf.where_v2(scores < 0, -magnitude, magnitude)


def _area(counts):
    """Returns the area for int64 [2, bins], the counts of negatives and positives by score."""
    negatives, positives = tf.unstack(tf.cast(counts, tf.float64))
    below = tf.cumsum(negatives, exclusive=True) + negatives / 2
    return tf.cast(tf.reduce_sum(positives * below) / (tf.reduce_sum(positives) * tf.reduce_sum(negatives)), tf.float32)
