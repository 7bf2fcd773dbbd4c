"""Image files as a model's input."""

from collections.abc import Callable, Iterable

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

from common.data import images
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
    arrays = [_read_image(path, params) for path in paths]

    def input_fn():
        spec = tf.TensorSpec([params.image_size, params.image_size, params.num_channels], tf.uint8)
        batches = tf.data.Dataset.from_generator(lambda: arrays, output_signature=spec).batch(params.eval_batch_size)
        return batches.map(lambda batch: source.module.image_features(params, batch))

    return input_fn


def _read_image(path, params):
    try:
        image = images.normalize(images.decode(images.read(path)), params.num_channels)
    except images.ImageError as error:
        raise UsageError(f'--input: {path} {error}') from None
    image = image.resize((params.image_size, params.image_size), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(params.image_size, params.image_size, params.num_channels)
