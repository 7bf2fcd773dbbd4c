"""A batch of images as a grid for TensorBoard."""

import math

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

from common.ops.images import image_summary, to_pil_images

_GAP = 2


def image_grid(name: str, images: tf.Tensor, columns: int | None = None) -> None:
    """Adds an image summary: all images of a batch in a grid, row by row.

    The grid is drawn only at steps that save summaries.

    Args:
      name: the tag in TensorBoard is NAME/image.
      images: [batch, height, width, 1 or 3], uint8, or float in [0, 1].
      columns: by default about as many as rows.
    """
    image_summary(name, lambda images: draw_grid(images, columns), [images])


def draw_grid(images: np.ndarray, columns: int | None = None, gap: int = _GAP) -> np.ndarray:
    """The same in NumPy; returns uint8 [1, height, width, 3], with white lines of `gap` pixels between the images."""
    batch, height, width = images.shape[:3]
    columns = columns or max(1, math.ceil(math.sqrt(batch)))
    rows = max(1, math.ceil(batch / columns))
    grid = Image.new('RGB', (columns * (width + gap) - gap, rows * (height + gap) - gap), 'white')
    for i, image in enumerate(to_pil_images(images)):
        row, column = divmod(i, columns)
        grid.paste(image, (column * (width + gap), row * (height + gap)))
    return np.asarray(grid)[None]
