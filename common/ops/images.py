"""Images drawn with Pillow, for TensorBoard and contact sheets."""

from collections.abc import Callable, Sequence
from typing import Any
import unicodedata

import numpy as np
from PIL import Image, ImageFont
import tensorflow.compat.v1 as tf

# RGB colors of correct and wrong predictions in all images.
RIGHT, WRONG = (0, 110, 0), (200, 0, 0)


def image_summary(name: str, draw: Callable[..., np.ndarray], tensors: Sequence[tf.Tensor], max_outputs: int = 1) -> None:
    """Adds an image summary that a Python function draws, only at steps that save summaries.

    Args:
      name: the tag in TensorBoard is NAME/image, or NAME/image/I for several images, regardless of name scopes.
      draw: function of arrays that returns uint8 [images, height, width, 3].
      tensors: `draw` is called with their values.
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
    """Returns the name of a class; its number if the names are unknown; both if the font has not all of the name."""
    if not class_names or not 0 <= number < len(class_names):
        return str(number)
    name = class_names[number]
    return f'{number}: {name}' if '?' in drawable(name.replace('?', '')) else name


def drawable(text: str) -> str:
    """Returns a text in ASCII, all that Pillow's own font has: without accents, and with other characters as question marks."""
    parts = (char for char in unicodedata.normalize('NFKD', text) if not unicodedata.combining(char))
    return ''.join(char if ' ' <= char <= '~' else '?' for char in parts)


def shorten(text: str, width: float, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Returns a text that can be drawn, with as many of its last characters as it takes to fit into `width` pixels cut off.

    An ellipsis stands for them.
    """
    short = text = drawable(text)
    while font.getlength(short) > width and text:
        text = text[:-1]
        short = f'{text}…'
    return short
