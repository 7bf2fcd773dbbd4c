"""Which classes a classifier takes for which others."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont
import tensorflow.compat.v1 as tf

_SIDE = 480  # Pixels, about; many classes make it larger.
_MIN_CELL, _MIN_LETTERED_CELL = 4, 24
_MARGIN = 56
_RIGHT, _WRONG = np.array([0, 110, 0]), np.array([200, 0, 0])


def confusion_matrix(labels, predictions, num_classes):
    """Counts the predictions of each class by label, over a whole evaluation: a metric for `eval_metrics`.

    Args:
      labels: int [batch], in [0, num_classes).
      predictions: int [batch], in [0, num_classes).
      num_classes: int.

    Returns:
      (value, update_op) as of tf.metrics. The value, a serialized tf.Summary, holds a picture and the counts as a table of
      text; the Estimator writes both to the evaluation's events: tags NAME/0 and NAME/1. The picture is drawn once an
      evaluation. The update_op's value is the counts so far, int64 [num_classes, num_classes], a row for each label.
    """
    with tf.variable_scope(None, 'confusion_matrix'):
        counts = tf.get_variable('counts', [num_classes, num_classes], tf.int64, tf.zeros_initializer(), trainable=False,
                                 collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES])
        update = tf.assign_add(counts, tf.math.confusion_matrix(labels, predictions, num_classes, dtype=tf.int64))
        picture = tf.numpy_function(lambda counts: draw(counts), [counts], tf.uint8)
        picture.set_shape([1, None, None, 3])
        numbers = [str(i) for i in range(num_classes)]
        table = tf.concat([[['label \\ predicted', *numbers]],
                           tf.concat([tf.constant(numbers)[:, None], tf.as_string(counts)], axis=1)], axis=0)
        value = tf.summary.merge([tf.summary.image('picture', picture, collections=[]),
                                  tf.summary.text('table', table, collections=[])], collections=[])
    return value, update


def draw(counts):
    """Draws the counts: a row for each label, a column for each prediction, darker the larger their share of the row.

    Right ones are green, wrong ones red.

    Args:
      counts: int [num_classes, num_classes].

    Returns:
      uint8 [1, height, width, 3].
    """
    num_classes = len(counts)
    cell = max(_MIN_CELL, _SIDE // num_classes)
    side = num_classes * cell
    canvas = Image.new('RGB', (_MARGIN + side + 1, _MARGIN + side + 1), 'white')
    pen = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(12)
    pen.text((_MARGIN, 4), 'predicted', fill='black', font=font)
    pen.text((4, _MARGIN), 'label', fill='black', font=font)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for (row, column), count in np.ndenumerate(counts):
        x, y = _MARGIN + column * cell, _MARGIN + row * cell
        colour = _RIGHT if row == column else _WRONG
        shade = tuple(np.uint8(255 + (colour - 255) * np.sqrt(shares[row, column])).tolist())
        pen.rectangle((x, y, x + cell, y + cell), fill=shade, outline=(220, 220, 220))
        if count and cell >= _MIN_LETTERED_CELL:
            pen.text((x + cell / 2, y + cell / 2), str(count), fill='white' if shares[row, column] > 0.25 else 'black',
                     font=font, anchor='mm')
    if cell >= _MIN_LETTERED_CELL:
        for i in range(num_classes):
            middle = _MARGIN + (i + 0.5) * cell
            pen.text((middle, _MARGIN - 10), str(i), fill='black', font=font, anchor='mm')
            pen.text((_MARGIN - 12, middle), str(i), fill='black', font=font, anchor='mm')
    return np.asarray(canvas)[None]
