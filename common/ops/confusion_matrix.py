"""The confusion matrix as a metric, with an image and a table for TensorBoard."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont
import tensorflow.compat.v1 as tf

from common.ops.images import RIGHT, WRONG, class_text, shorten
from common.ops.metric_counts import make_counts

_SIDE = 480  # Approximate size in pixels; larger for many classes.
_MIN_LABELED_CELL = 24
_MARGIN = 56
_MAX_TABLE = 100  # Classes; a larger table would be hard to read and slow to render.


def confusion_matrix(
    labels: tf.Tensor, predictions: tf.Tensor, num_classes: int, class_names: Sequence[str] | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts pairs of label and predicted class over an evaluation: a metric for `eval_metrics`.

    Args:
      labels: int [batch], in [0, num_classes).
      predictions: int [batch], in [0, num_classes).
      num_classes: number of classes.
      class_names: the names of the classes, to be shown in place of their numbers.

    Returns:
      (value, update_op) as in tf.metrics. The value, a serialized tf.Summary, contains an image and, for up to 100 classes,
      the counts as a text table; the Estimator writes both to the evaluation's event files, with the tags NAME/0 and NAME/1.
      The image is drawn once per evaluation. The update_op's value is the counts so far, int64 [num_classes, num_classes],
      one row per label.
    """
    with tf.variable_scope(None, 'confusion_matrix'):
        counts = make_counts([num_classes, num_classes])
        # As tf.math.confusion_matrix, without its own checks: they are 40 ops and 8 functions, which take time to build.
        cells = tf.stack([tf.cast(labels, tf.int64), tf.cast(predictions, tf.int64)], axis=1)
        ones = tf.ones_like(cells[:, 0])
        update = tf.assign_add(counts, tf.scatter_nd(cells, ones, tf.constant([num_classes, num_classes], tf.int64)))
        image = tf.numpy_function(lambda counts: draw_matrix(counts, class_names), [counts], tf.uint8)
        image.set_shape([1, None, None, 3])
        summaries = [tf.summary.image('picture', image, collections=[])]
        if num_classes <= _MAX_TABLE:
            names = [class_text(i, class_names) for i in range(num_classes)]
            table = tf.concat(
                [[['label \\ predicted', *names]], tf.concat([tf.constant(names)[:, None], tf.as_string(counts)], axis=1)],
                axis=0,
            )
            summaries.append(tf.summary.text('table', table, collections=[]))
        return tf.summary.merge(summaries, collections=[]), update


def draw_matrix(counts: np.ndarray, class_names: Sequence[str] | None = None) -> np.ndarray:
    """Draws the counts: a row per label, a column per prediction. The larger the share of the row, the darker the cell.

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
