"""Images drawn with Pillow, for TensorBoard and contact sheets."""

from collections.abc import Callable, Sequence
import math
from typing import Any
import unicodedata

import numpy as np
from PIL import Image, ImageDraw, ImageFont
import tensorflow.compat.v1 as tf

# RGB colors of correct and wrong predictions in all images.
RIGHT, WRONG = (0, 110, 0), (200, 0, 0)
_GAP = 2
_MIN_SIDE = 112
_LINE_HEIGHT = 20


def image_summary(name: str, draw: Callable[..., np.ndarray], tensors: Sequence[tf.Tensor], max_outputs: int = 1) -> None:
    """Adds an image summary drawn by a Python function, only at steps that save summaries.

    Args:
      name: the tag in TensorBoard is NAME/image, or NAME/image/I for several images, regardless of name scopes.
      draw: function from arrays, the values of `tensors`, to uint8 [images, height, width, 3].
      tensors: arguments of `draw`.
      max_outputs: maximum number of images.
    """
    with tf.name_scope(None):
        drawn = tf.numpy_function(draw, tensors, tf.uint8)
        drawn.set_shape([None, None, None, 3])
        tf.summary.image(name, drawn, max_outputs=max_outputs)


def to_pil_images(images: np.ndarray) -> list[Image.Image]:
    """Converts an array [batch, height, width, 1 or 3], uint8, or float in [0, 1], to RGB images of Pillow."""
    pixels: Any = images if images.dtype == np.uint8 else np.uint8(np.clip(images, 0, 1) * 255 + 0.5)
    return [Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).convert('RGB') for image in pixels]


def enlarge(image: Image.Image, smallest_side: int) -> Image.Image:
    """Enlarges an image by an integer factor to at least smallest_side pixels, with nearest-neighbor interpolation."""
    scale = max(1, -(-smallest_side // min(image.size)))
    return image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)


def class_text(number: int, class_names: Sequence[str] | None) -> str:
    """Returns the name of a class; its number if the names are unknown; both if the font lacks a character of the name."""
    if not class_names or not 0 <= number < len(class_names):
        return str(number)
    name = class_names[number]
    return f'{number}: {name}' if '?' in drawable(name.replace('?', '')) else name


def drawable(text: str) -> str:
    """Returns a text in ASCII, as Pillow's own font requires: without accents, with other characters as question marks."""
    parts = (char for char in unicodedata.normalize('NFKD', text) if not unicodedata.combining(char))
    return ''.join(char if ' ' <= char <= '~' else '?' for char in parts)


def shorten(text: str, width: float, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Returns a drawable text, truncated with an ellipsis to fit into `width` pixels."""
    short = text = drawable(text)
    while font.getlength(short) > width and text:
        text = text[:-1]
        short = f'{text}…'
    return short


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
    """Like `image_grid` in NumPy; returns uint8 [1, height, width, 3], with white lines of `gap` pixels between the images."""
    batch, height, width = images.shape[:3]
    columns = columns or max(1, math.ceil(math.sqrt(batch)))
    rows = max(1, math.ceil(batch / columns))
    grid = Image.new('RGB', (columns * (width + gap) - gap, rows * (height + gap) - gap), 'white')
    for i, image in enumerate(to_pil_images(images)):
        row, column = divmod(i, columns)
        grid.paste(image, (column * (width + gap), row * (height + gap)))
    return np.asarray(grid)[None]


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
      class_names: the names of the classes, shown in place of their numbers.
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
    """Like `labeled_images` in NumPy; returns uint8 [batch, height, width, 3]. Small images are enlarged."""
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
