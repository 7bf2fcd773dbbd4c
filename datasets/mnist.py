"""MNIST: 60,000 training and 10,000 test images of handwritten digits, 28x28, white on black, in 10 classes.

The four IDX files are in datasets/raw/mnist; the README.md there gives their source.
(Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-based learning applied to document recognition, 1998.)
"""

import gzip
import hashlib
import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from common.data import records
from common.errors import RunError, UsageError
from hparams.build import HParams

RAW_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'raw', 'mnist')

# SHA-256 of the uncompressed files.
_SHA256 = {
    'train-images-idx3-ubyte': 'ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db',
    'train-labels-idx1-ubyte': '65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5',
    't10k-images-idx3-ubyte': '0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7',
    't10k-labels-idx1-ubyte': 'ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2',
}


def get_params() -> dict[str, Any]:
    return {'image_size': 28, 'num_channels': 1, 'num_classes': 10, 'shuffle_buffer': 60000}


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the IDX files to TFRecord, once."""
    if (params['image_size'], params['num_channels']) != (28, 1) or params['num_classes'] < 10:
        raise UsageError('--dataset=mnist has image_size=28, num_channels=1 and num_classes=10: they cannot be changed')
    directory = _directory(data_dir)
    if records.is_written(directory):
        return
    records.write(directory, {'train': _examples('train'), 'eval': _examples('t10k')})


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples: 'image', 784 bytes in row-major order, and 'label', int64."""
    del params
    return records.read(_directory(data_dir), split)


def parse_batch(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns {'image': float32 [batch, 28, 28, 1] in [0, 1]}, {'label': int32 [batch]}; no labels in PREDICT."""
    spec = {'image': tf.io.FixedLenFeature([], tf.string)}
    if mode != tf.estimator.ModeKeys.PREDICT:
        spec['label'] = tf.io.FixedLenFeature([], tf.int64)
    example = tf.io.parse_example(serialized, spec)
    size = tf.strings.length(example['image'])
    with tf.control_dependencies([tf.debugging.assert_equal(size, 28 * 28, message='Key: image. Must have 784 bytes')]):
        images = tf.reshape(tf.io.decode_raw(example['image'], tf.uint8), [-1, 28, 28, 1])
    features = image_features(params, images)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return features, None
    label = tf.cast(example['label'], tf.int32)
    classes = params.num_classes
    is_known = tf.reduce_all((label >= 0) & (label < classes))
    with tf.control_dependencies([tf.debugging.Assert(is_known, [f'Key: label. Must be from 0 to {classes - 1}'])]):
        return features, {'label': tf.identity(label)}


def image_features(params: HParams, images: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the features of raw images, uint8 [batch, 28, 28, 1]."""
    del params
    return {'image': tf.cast(images, tf.float32) / 255}


def _directory(data_dir):
    return os.path.join(data_dir, 'mnist')


def _examples(prefix):
    """Returns the examples of a split for `records.write`."""
    images = read_idx(f'{prefix}-images-idx3-ubyte')
    labels = read_idx(f'{prefix}-labels-idx1-ubyte')
    return [{'image': image.tobytes(), 'label': label} for image, label in zip(images, labels)]


def read_idx(name: str) -> np.ndarray:
    """Returns the array of an IDX file: two zero bytes, the type (8 is uint8), the rank, big-endian dimensions, the data.

    Raises:
      RunError: the file is missing, or its SHA-256 differs from that of the original.
    """
    path = os.path.join(RAW_DIR, f'{name}.gz')
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            content = gzip.decompress(file.read())
    except (tf.errors.OpError, OSError, EOFError) as error:
        raise RunError(f'{path}: cannot be read: {error}; restore it from the repository') from None
    if hashlib.sha256(content).hexdigest() != _SHA256[name]:
        raise RunError(f'{path}: is not the file that this project ships (SHA-256 differs): restore it from the repository')
    rank = content[3]
    shape = np.frombuffer(content, '>u4', count=rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)
