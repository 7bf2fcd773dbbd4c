"""Many pictures as one for TensorBoard."""

import math

import numpy as np
from PIL import Image

from common.ops.pictures import picture_summary, to_pictures

_GAP = 2


def image_grid(name, images, columns=None):
    """Adds an image summary: all pictures of a batch side by side, row after row, as one.

    The picture is drawn only at the steps that save summaries.

    Args:
      name: str; the tag in TensorBoard is NAME/image.
      images: [batch, height, width, 1 or 3], uint8, or float in [0, 1].
      columns: int; by default about as many as rows.
    """
    picture_summary(name, lambda images: draw(images, columns), [images])


def draw(images, columns=None, gap=_GAP):
    """The same in NumPy; returns uint8 [1, height, width, 3], with white lines of `gap` pixels between the pictures."""
    batch, height, width = images.shape[:3]
    columns = columns or max(1, math.ceil(math.sqrt(batch)))
    rows = max(1, math.ceil(batch / columns))
    grid = Image.new('RGB', (columns * (width + gap) - gap, rows * (height + gap) - gap), 'white')
    for i, picture in enumerate(to_pictures(images)):
        row, column = divmod(i, columns)
        grid.paste(picture, (column * (width + gap), row * (height + gap)))
    return np.asarray(grid)[None]
