"""Images for TensorBoard, with their labels and predictions as captions."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont
import tensorflow.compat.v1 as tf

from common.ops.images import RIGHT, WRONG, class_text, enlarge, image_summary, shorten, to_pil_images

_MIN_SIDE = 112
_LINE_HEIGHT = 20


def labeled_images(
    name: str, images: tf.Tensor, labels: tf.Tensor, predictions: tf.Tensor, class_names: Sequence[str] | None = None
) -> None:
    """Adds an image summary: each image with its label and prediction below, in red if they differ.

    Each image has its own tag, so pass only a few. They are drawn only at steps that save summaries.

    Args:
      name: the tags in TensorBoard are NAME/image/0 and so on.
      images: [batch, height, width, 1 or 3], uint8, or float in [0, 1].
      labels: int [batch].
      predictions: int [batch].
      class_names: the names of the classes, to be shown in place of their numbers.
    """
    # A lambda looks `draw_labeled` up at each call, so that tests can replace it.
    image_summary(
        name,
        lambda images, labels, predictions: draw_labeled(images, labels, predictions, class_names),
        [images, labels, predictions],
        images.shape[0] or 100,
    )


def draw_labeled(
    images: np.ndarray, labels: np.ndarray, predictions: np.ndarray, class_names: Sequence[str] | None = None
) -> np.ndarray:
    """The same in NumPy; returns uint8 [batch, height, width, 3]. Small images are enlarged."""
    font = ImageFont.load_default(16)
    drawn = []
    for image, label, prediction in zip(to_pil_images(images), labels, predictions):
        image = enlarge(image, _MIN_SIDE)
        canvas = Image.new('RGB', (image.width, image.height + 2 * _LINE_HEIGHT), 'white')
        canvas.paste(image)
        caption = ImageDraw.Draw(canvas)
        color = RIGHT if label == prediction else WRONG
        lines = f'label {class_text(label, class_names)}', f'predicted {class_text(prediction, class_names)}'
        for i, line in enumerate(lines):
            text = shorten(line, image.width - 8, font)
            caption.text((4, image.height + i * _LINE_HEIGHT), text, fill=color, font=font)
        drawn.append(np.asarray(canvas))
    return np.stack(drawn) if drawn else np.zeros([0, 1, 1, 3], np.uint8)
