"""Pictures for TensorBoard with their labels and predictions written below."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from common.ops.pictures import enlarge, picture_summary, to_pictures

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
    # By the module's name, so that tests can count the calls.
    picture_summary(name, lambda *arrays: draw(*arrays), [images, labels, predictions], images.shape[0] or 100)


def draw(images, labels, predictions):
    """The same in NumPy; returns uint8 [batch, height, width, 3], enlarged where the images are small."""
    font = ImageFont.load_default(16)
    drawn = []
    for picture, label, prediction in zip(to_pictures(images), labels, predictions):
        picture = enlarge(picture, _MIN_SIDE)
        canvas = Image.new('RGB', (picture.width, picture.height + 2 * _LINE_HEIGHT), 'white')
        canvas.paste(picture)
        caption = ImageDraw.Draw(canvas)
        colour = _RIGHT if label == prediction else _WRONG
        caption.text((4, picture.height), f'label {label}', fill=colour, font=font)
        caption.text((4, picture.height + _LINE_HEIGHT), f'predicted {prediction}', fill=colour, font=font)
        drawn.append(np.asarray(canvas))
    return np.stack(drawn)
