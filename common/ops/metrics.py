"""Metrics that accumulate counts over an evaluation: the area under the ROC curve, precision and recall, confusion matrix."""

from collections.abc import Sequence
import math
import re

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from tensorboard.plugins.pr_curve import summary
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.images import RIGHT, WRONG, class_text, shorten

RANKS = 2**16
_SIDE = 480  # Approximate size in pixels; larger for many classes.
_MIN_LABELED_CELL = 24
_MARGIN = 56
_MAX_TABLE = 100  # Classes; a larger table is hard to read and slow to render.


def auc(labels: tf.Tensor, scores: tf.Tensor, weights: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Measures how often a positive example scores higher than a negative one: a metric for `eval_metrics`.

    Compares scores as float16; ties count one half. So give logits or log-odds rather than probabilities, many of which tie
    near 1. tf.metrics.auc compares with 200 thresholds instead.

    Args:
      labels: int or bool [batch]: 0 for negative, all others are positive.
      scores: float [batch], no NaN.
      weights: of the examples, float [batch]; None for 1.

    Returns:
      (value, update_op) as in tf.metrics, float32 scalars: the area in [0, 1], NaN until there are examples of both kinds. The
      value of update_op includes the batch.
    """
    with tf.variable_scope(None, 'auc'):
        is_positive = tf.not_equal(tf.cast(labels, tf.int32), 0)
        counts, update = count_cells([2, RANKS], tf.cast(is_positive, tf.int32) * RANKS + rank(scores), weights)
        return _area(counts.read_value()), _area(update)


def rank(scores: tf.Tensor) -> tf.Tensor:
    """Maps floats to int32 in [0, RANKS) in the same order, with the resolution of float16."""
    scores = tf.cast(scores, tf.float32)
    half = tf.cast(tf.minimum(tf.abs(scores), tf.float16.max), tf.float16)
    magnitude = tf.cast(tf.bitcast(half, tf.int16), tf.int32)  # The bits of positive floats sort like their values.
    return RANKS // 2 + tf.where_v2(scores < 0, -magnitude, magnitude)


def scores_of(*ranks: int) -> np.ndarray:
    """Returns the scores of ranks, float64: those of float16 in the middle of each."""
    signed = np.array(ranks) - RANKS // 2
    return np.copysign(np.abs(signed).astype(np.int16).view(np.float16), signed).astype(float)


def _area(counts):
    """Returns the area for the counts of negatives and positives by score, int64 or float64 [2, bins]."""
    negatives, positives = tf.unstack(tf.cast(counts, tf.float64))
    below = tf.cumsum(negatives, exclusive=True) + negatives / 2
    return tf.cast(tf.reduce_sum(positives * below) / (tf.reduce_sum(positives) * tf.reduce_sum(negatives)), tf.float32)


def pr_curve(labels: tf.Tensor, probabilities: tf.Tensor, num_thresholds: int = 101) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts true and false positives over an evaluation, by threshold: a metric for `eval_metrics`.

    Micro-averaged: for each class of each example, whether its probability reaches the threshold is a binary decision. The
    thresholds are 0, 1 / (num_thresholds - 1), ..., 1. TensorBoard shows the curve in its PR Curves tab. Unlike TensorBoard's
    `streaming_op`, it takes memory only for the probabilities, not for each threshold, and tolerates values above 1.

    Args:
      labels: int [batch], in [0, num_classes).
      probabilities: float [batch, num_classes], in [0, 1]; NaN counts as 0.
      num_thresholds: at least 2.

    Returns:
      (value, update_op) as in tf.metrics. The value is a serialized tf.Summary, which the Estimator writes to the
      evaluation's event files. The value of the update_op is the counts so far, int64 [2, num_thresholds]: of wrong and right
      classes whose probability reaches a threshold, but not the next.
    """
    with tf.variable_scope(None, 'pr_curve'):
        is_label = tf.one_hot(labels, tf.shape(probabilities)[1], dtype=tf.int32)
        known = tf.cast(probabilities, tf.float32)
        known = tf.where_v2(tf.math.is_nan(known), 0.0, known)  # The loss tells of NaN.
        reached = tf.cast(tf.floor(known * (num_thresholds - 1)), tf.int32)
        counts, update = count_cells([2, num_thresholds], tf.reshape(is_label * num_thresholds + reached, [-1]))
        true_negatives, false_negatives = tf.unstack(tf.cumsum(counts, axis=1, exclusive=True))
        negatives, positives = tf.unstack(tf.reduce_sum(counts, 1))
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


def confusion_matrix(
    labels: tf.Tensor, predictions: tf.Tensor, num_classes: int, class_names: Sequence[str] | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts pairs of label and predicted class over an evaluation: a metric for `eval_metrics`.

    Args:
      labels: int [batch], in [0, num_classes).
      predictions: int [batch], in [0, num_classes).
      num_classes: number of classes.
      class_names: the names of the classes, shown in place of their numbers.

    Returns:
      (value, update_op) as in tf.metrics. The value, a serialized tf.Summary, contains an image and, for up to 100 classes,
      the counts as a text table; the Estimator writes both to the evaluation's event files, with the tags NAME/0 and NAME/1.
      The image is drawn once per evaluation. The update_op's value is the counts so far, int64 [num_classes, num_classes],
      one row per label.
    """
    with tf.variable_scope(None, 'confusion_matrix'):
        counts = make_counts([num_classes, num_classes])
        # Like tf.math.confusion_matrix, without its checks: 40 ops and 8 functions, which take time to build.
        cells = tf.stack([tf.cast(labels, tf.int64), tf.cast(predictions, tf.int64)], axis=1)
        ones = tf.ones_like(cells[:, 0])
        update = tf.assign_add(counts, tf.scatter_nd(cells, ones, tf.constant([num_classes, num_classes], tf.int64)))
        return matrix_summary(counts, class_names), update


def matrix_summary(counts: tf.Tensor, class_names: Sequence[str] | None = None) -> tf.Tensor:
    """Returns the value of the metric `confusion_matrix`, a serialized tf.Summary, of the counts."""
    num_classes = counts.shape[0]
    image = tf.numpy_function(lambda counts: draw_matrix(counts, class_names), [counts], tf.uint8)
    image.set_shape([1, None, None, 3])
    summaries = [tf.summary.image('picture', image, collections=[])]
    if num_classes <= _MAX_TABLE:
        names = [_as_markdown(class_text(i, class_names)) for i in range(num_classes)]
        table = tf.concat(
            [[['label \\ predicted', *names]], tf.concat([tf.constant(names)[:, None], tf.as_string(counts)], axis=1)],
            axis=0,
        )
        summaries.append(tf.summary.text('table', table, collections=[]))
    return tf.summary.merge(summaries, collections=[])


def _as_markdown(name):
    """Returns a name as Markdown, which TensorBoard takes each cell of a table for."""
    return re.sub(r'([\\`*_{}\[\]()>#+\-.!])', r'\\\1', name.replace('&', '&amp;').replace('<', '&lt;'))


def draw_matrix(counts: np.ndarray, class_names: Sequence[str] | None = None) -> np.ndarray:
    """Draws the counts: a row per label, a column per prediction. A darker cell has a larger share of its row.

    Correct predictions are green, wrong ones red.

    Args:
      counts: int [num_classes, num_classes].
      class_names: see `confusion_matrix`; those that do not fit are shortened.

    Returns:
      uint8 [1, height, width, 3].
    """
    num_classes = len(counts)
    cell = max(1, _SIDE // num_classes)
    side = num_classes * cell
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    colors = np.where(np.eye(num_classes, dtype=bool)[:, :, None], RIGHT, WRONG)
    shades = np.uint8(255 + (colors - 255) * np.sqrt(shares)[:, :, None])
    canvas = Image.new('RGB', (_MARGIN + side + 1, _MARGIN + side + 1), 'white')
    canvas.paste(Image.fromarray(shades.repeat(cell, 0).repeat(cell, 1)), (_MARGIN, _MARGIN))
    pen = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(12)
    pen.text((_MARGIN, 4), 'predicted', fill='black', font=font)
    pen.text((4, _MARGIN), 'label', fill='black', font=font)
    if cell >= _MIN_LABELED_CELL:
        for i in range(num_classes):
            middle = _MARGIN + (i + 0.5) * cell
            name = class_text(i, class_names)
            pen.text((middle, _MARGIN - 10), shorten(name, cell - 4, font), fill='black', font=font, anchor='mm')
            pen.text((_MARGIN - 6, middle), shorten(name, _MARGIN - 8, font), fill='black', font=font, anchor='rm')
        for (row, column), count in np.ndenumerate(counts):
            x, y = _MARGIN + column * cell, _MARGIN + row * cell
            pen.rectangle((x, y, x + cell, y + cell), outline=(220, 220, 220))
            if count:
                pen.text(
                    (x + cell / 2, y + cell / 2),
                    str(count),
                    font=font,
                    anchor='mm',
                    fill='white' if shares[row, column] > 0.25 else 'black',
                )
    return np.asarray(canvas)[None]


def count_cells(shape: Sequence[int], cells: tf.Tensor, weights: tf.Tensor | None = None) -> tuple[tf.Variable, tf.Tensor]:
    """Counts how often each cell occurs over an evaluation, or sums the weights of its occurrences.

    Args:
      shape: of the counts.
      cells: int32 [n], numbers of cells, row by row.
      weights: float [n]; None to count.

    Returns:
      The counts, int64, or float64 with weights, and the op that adds these cells, whose value is the new counts.
    """
    dtype, size = tf.int64 if weights is None else tf.float64, math.prod(shape)
    counts, each = make_counts(shape, dtype), None if weights is None else tf.cast(weights, dtype)
    new = tf.math.bincount(cells, each, minlength=size, maxlength=size, dtype=dtype)
    return counts, tf.assign_add(counts, tf.reshape(new, shape))


def make_counts(shape: Sequence[int], dtype: tf.DType = tf.int64, name: str = 'counts') -> tf.Variable:
    """Creates a variable of zeros in the current variable scope, local, like those of tf.metrics."""
    return tf.get_variable(
        name,
        shape,
        dtype,
        tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
    )
