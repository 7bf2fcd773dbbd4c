"""Pictures for TensorBoard with their labels and predictions written below."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from common.ops.pictures import RIGHT, WRONG, enlarge, picture_summary, to_pictures

_MIN_SIDE = 112
_LINE_HEIGHT = 20


def labeled_images(name, images, labels, predictions):
    """Adds an image summary: every picture with its label and prediction below, in red where they differ.

    Each picture has a tag of its own, so pass a few. They are drawn only at the steps that save summaries.

    Args:
      name: str; the tags in TensorBoard are NAME/image/0 and so on.
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
        colour = RIGHT if label == prediction else WRONG
        caption.text((4, picture.height), f'label {label}', fill=colour, font=font)
        caption.text((4, picture.height + _LINE_HEIGHT), f'predicted {prediction}', fill=colour, font=font)
        drawn.append(np.asarray(canvas))
    return np.stack(drawn) if drawn else np.zeros([0, 1, 1, 3], np.uint8)
