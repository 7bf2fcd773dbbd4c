"""Image files as a model's input."""

from collections.abc import Callable, Iterable
import io

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
import tensorflow.compat.v1 as tf

from common.data.source import DataSource
from common.errors import UsageError


def make_image_input_fn(source: DataSource, paths: Iterable[str]) -> Callable[[], tf.data.Dataset]:
    """Creates an input_fn of image files, converted to grayscale or color and resized as the dataset declares.

    Raises:
      UsageError: the dataset has no images, or a file is not an image.
    """
    params = source.params
    if not source.has_images():
        raise UsageError(f'--input: --dataset={params.dataset} has no images')
    images = [_read_image(path, params) for path in paths]

    def input_fn():
        spec = tf.TensorSpec([params.image_size, params.image_size, params.num_channels], tf.uint8)
        batches = tf.data.Dataset.from_generator(lambda: images, output_signature=spec).batch(params.eval_batch_size)
        return batches.map(lambda batch: source.module.image_features(params, batch))

    return input_fn


def _upright(image):
    """Rotates an image by its EXIF orientation, if it is present and not corrupt."""
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # Pillow raises errors of many types if EXIF data is corrupt.
        return image


def _flatten(image):
    """Returns an 8-bit image without transparency: 16 bits are scaled down, and transparent pixels are blended with white."""
    if image.mode.startswith('I;16'):
        return Image.fromarray(np.uint8(np.asarray(image) >> 8))
    if image.has_transparency_data:
        image = image.convert('RGBA')
        return Image.alpha_composite(Image.new('RGBA', image.size, 'white'), image)
    return image


def _read_image(path, params):
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            image = Image.open(io.BytesIO(file.read()))
        image.load()
        image = _flatten(_upright(image)).convert('L' if params.num_channels == 1 else 'RGB')
    except UnidentifiedImageError:
        raise UsageError(f'--input: {path} is not an image of a kind that Pillow reads') from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, tf.errors.OpError) as error:
        raise UsageError(f'--input: {path} is not an image that can be read: {error}') from None
    image = image.resize((params.image_size, params.image_size), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(params.image_size, params.image_size, params.num_channels)
