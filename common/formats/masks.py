"""Masks: PNG files with the number of a class for each pixel of a picture."""

from collections.abc import Mapping, Sequence
import io
from typing import Any

import numpy as np
from PIL import Image
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.formats import images
from estimator_trainer.common.targets import IGNORED

_MODES = ('1', 'L', 'P', 'I', 'I;16', 'I;16B')
_BLURRED = ('AVIF', 'HEIF', 'JPEG', 'MPO', 'WEBP')  # As these are compressed, at least by default.
_CURE = 'save it as a gray or palette PNG, with the number of a class for each pixel'


def read_mask(path: str, height: int, width: int) -> np.ndarray:
    """Returns the numbers of a mask, uint8 [height, width]; of a palette, they are its indices.

    Args:
      height, width: of its picture, upright.

    Raises:
      ImageError: it is no such mask; the message gives the reason, to follow the file's path.
    """
    content = images.read(path)
    mask = images.decode(content)
    if mask.format != 'PNG':
        blurred = ', which may blur numbers: export masks as PNG files, rather than convert them'
        raise images.ImageError(f'is a {mask.format} file' + (blurred if mask.format in _BLURRED else f': {_CURE}'))
    depth, is_gray = content[24], content[25] == 0
    mask = images.upright(mask)
    if depth == 8:
        mask = _without_copies(mask)
    if mask.mode not in _MODES:
        raise images.ImageError(f'has colors or transparency ({mask.mode}), not numbers of classes: {_CURE}')
    if mask.size != (width, height):
        found = 'x'.join(map(str, mask.size))
        cure = 'turn it like the picture' if mask.size == (height, width) else 'resize it, without blending'
        raise images.ImageError(f'has {found} pixels, but its picture, upright, has {width}x{height}: {cure}')
    numbers = np.asarray(mask).astype(np.int64)
    if is_gray and depth in (2, 4):  # Pillow stretches these to 255.
        numbers //= 255 // (2**depth - 1)
    if numbers.max() > IGNORED:
        raise images.ImageError(f'has the number {numbers.max()}, but classes are below {IGNORED}: {_CURE}')
    return numbers.astype(np.uint8)


def _without_copies(mask: Image.Image) -> Image.Image:
    """Returns a mask in gray if its colors are equal and it is opaque, otherwise as it is."""
    if mask.mode not in ('LA', 'RGB', 'RGBA'):
        return mask
    pixels = np.asarray(mask.convert('RGBA'))
    is_gray = (pixels[..., :3] == pixels[..., :1]).all() and (pixels[..., 3] == 255).all()
    return mask.getchannel(0) if is_gray else mask


def to_record(mask: np.ndarray) -> dict[str, Any]:
    """Returns the items of a mask in a record: 'mask', a gray PNG file, and 'mask_pixels', how many have each number."""
    return {'mask': images.to_png(Image.fromarray(mask)), 'mask_pixels': np.bincount(mask.ravel(), minlength=IGNORED + 1)}


def upright_size(picture: Mapping[str, Any]) -> tuple[int, int]:
    """Returns (height, width) of a picture of `picture_files.read_picture`, upright."""
    size = picture['height'], picture['width']
    return size if picture['orientation'] < 5 else size[::-1]


def to_square(content: tf.Tensor, size: int, values: Sequence[int]) -> tf.Tensor:
    """Returns a mask of a record as classes, int32 [size, size]; takes the nearest pixel.

    Args:
      values: the numbers of the classes in masks, in their order; others are IGNORED.
    """
    table = np.full(IGNORED + 1, IGNORED, np.int32)
    table[list(values)] = np.arange(len(values))
    mask = tf2.image.resize(tf.io.decode_png(content, 1), [size, size], 'nearest')
    return tf.gather(tf.constant(table), tf.cast(mask[..., 0], tf.int32))


def to_file(classes: np.ndarray, height: int, width: int, values: Sequence[int], palette: np.ndarray) -> bytes:
    """Returns classes, int [rows, columns], as a palette PNG of a size and with the numbers of `to_square`.

    Args:
      palette: the colors of the classes, uint8 [at least their number, 3].
    """
    colors = np.zeros([IGNORED + 1, 3], np.uint8)
    colors[list(values)] = palette[: len(values)]
    mask = Image.fromarray(np.asarray(values, np.uint8)[classes]).resize((width, height), Image.Resampling.NEAREST)
    mask.putpalette(colors.tobytes())
    content = io.BytesIO()
    mask.save(content, 'PNG', optimize=True)
    return content.getvalue()
