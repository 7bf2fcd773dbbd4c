"""Records of labeled images of one size: the raw bytes of the pixels, and a class."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.formats import encoded
from estimator_trainer.common.graphs import plain
from estimator_trainer.hparams.build import HParams


class Examples(Sequence):
    """A split's examples for `records.write`: 'image', the bytes in row-major order, and 'label'.

    Args:
      images: uint8 [size, height, width, channels] or [size, height, width].
      labels: uint8 [size].
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray):
        self._images = images
        self._labels = labels

    def __len__(self):
        return len(self._labels)

    def __getitem__(self, i):
        return {'image': self._images[i].tobytes(), 'label': self._labels[i]}


def check_params(dataset: str, params: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raises UsageError if a hyper-parameter differs from the dataset's own value in `given`; num_classes may be larger.

    Args:
      dataset: its name.
      params: the hyper-parameters.
      given: the dataset's image_size, num_channels and num_classes.
    """
    size, channels, classes = given['image_size'], given['num_channels'], given['num_classes']
    if (params['image_size'], params['num_channels']) != (size, channels) or params['num_classes'] < classes:
        raise UsageError(
            f'--dataset={dataset} has image_size={size}, num_channels={channels} and num_classes={classes}: '
            'they cannot be changed'
        )


def feature_columns(params: HParams) -> list[Any]:
    """Returns the tf.feature_column of the pixels, for canned Estimators."""
    return [tf.feature_column.numeric_column('image', [params.image_size, params.image_size, params.num_channels])]


@plain
def parse_batch(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns the raw images for `image_features`, and the labels.

    They are {'image': uint8 [batch, image_size, image_size, num_channels]}, and {'label': int32 [batch]}, in PREDICT None.

    Args:
      mode: a tf.estimator.ModeKeys.
      params: hyper-parameters, among them image_size, num_channels and num_classes.
      serialized: serialized `Examples`, string [batch].
    """
    spec = {'image': tf.io.FixedLenFeature([], tf.string)}
    if mode != tf.estimator.ModeKeys.PREDICT:
        spec['label'] = tf.io.FixedLenFeature([], tf.int64)
    example = tf.io.parse_example(serialized, spec)
    size = tf.strings.length(example['image'])
    shape = [params.image_size, params.image_size, params.num_channels]
    wanted = int(np.prod(shape))
    with tf.control_dependencies([tf.debugging.assert_equal(size, wanted, message=f'Key: image. Must have {wanted} bytes')]):
        images = tf.reshape(tf.io.decode_raw(example['image'], tf.uint8), [-1, *shape])
    features = {'image': images}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return features, None
    label = tf.cast(example['label'], tf.int32)
    classes = params.num_classes
    is_known = tf.reduce_all((label >= 0) & (label < classes))
    with tf.control_dependencies([tf.debugging.Assert(is_known, [f'Key: label. Must be from 0 to {classes - 1}'])]):
        return features, {'label': tf.identity(label)}


@plain
def image_features(params: HParams, images: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns {'image': float32 in [0, 1]} for images, uint8 [batch, image_size, image_size, num_channels]."""
    del params
    return {'image': tf.cast(images, tf.float32) / 255}


def raw_specs(params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns {'image': string [batch]}, the contents of image files of any size."""
    del params
    return {'image': tf.TensorSpec([None], tf.string, encoded.PICTURE)}


@plain
def from_raw(params: HParams, raw: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the features of image files, squashed to squares: as of the pixels by `images.to_pixels`, within rounding."""
    size = [params.image_size, params.image_size]

    def to_pixels(content):
        image = tf2.image.resize(encoded.decode(content, params.num_channels), size, antialias=True)
        return tf.cast(tf.round(encoded.turn(image, encoded.orientation(content))), tf.uint8)

    signature = tf.TensorSpec([*size, params.num_channels], tf.uint8)
    return image_features(params, tf.map_fn(to_pixels, raw['image'], fn_output_signature=signature))
