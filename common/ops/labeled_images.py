"""Pictures for TensorBoard with their labels and predictions written below."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont
import tensorflow.compat.v1 as tf

_MIN_SIDE = 112
_LINE_HEIGHT = 20
_RIGHT, _WRONG = (0, 110, 0), (200, 0, 0)


def labeled_images(name, images, labels, predictions):
    """Adds an image summary: every picture with its label and prediction below, in red where they differ.

    The pictures are drawn only at the steps that save summaries.

    Args:
      name: str, the tag in TensorBoard.
      images: [batch, height, width, 1 or 3], uint8, or float in [0, 1].
      labels: int [batch].
      predictions: int [batch].
    """
    with tf.name_scope(None):  # The tag is `name` also within a tower.
        drawn = tf.numpy_function(draw, [images, labels, predictions], tf.uint8)
        drawn.set_shape([None, None, None, 3])
        tf.summary.image(name, drawn, max_outputs=images.shape[0] or 100)


def draw(images, labels, predictions):
    """The same in NumPy; returns uint8 [batch, height, width, 3], enlarged where the images are small."""
    if images.dtype != np.uint8:
        images = np.uint8(np.clip(images, 0, 1) * 255 + 0.5)
    height, width, channels = images.shape[1:]
    scale = max(1, -(-_MIN_SIDE // min(height, width)))
    size = (width * scale, height * scale)
    font = ImageFont.load_default(16)
    drawn = np.empty([len(images), size[1] + 2 * _LINE_HEIGHT, size[0], 3], np.uint8)
    for i, (image, label, prediction) in enumerate(zip(images, labels, predictions)):
        picture = Image.fromarray(image[:, :, 0] if channels == 1 else image).convert('RGB')
        canvas = Image.new('RGB', (size[0], size[1] + 2 * _LINE_HEIGHT), 'white')
        canvas.paste(picture.resize(size, Image.Resampling.NEAREST))
        caption = ImageDraw.Draw(canvas)
        colour = _RIGHT if label == prediction else _WRONG
        caption.text((4, size[1]), f'label {label}', fill=colour, font=font)
        caption.text((4, size[1] + _LINE_HEIGHT), f'predicted {prediction}', fill=colour, font=font)
        drawn[i] = np.asarray(canvas)
    return drawn
