"""MNIST: 60,000 training and 10,000 test images of handwritten digits, 28x28, white on black, in 10 classes.

The four IDX files are in datasets/raw/mnist; the README.md there gives their source.
(Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-based learning applied to document recognition, 1998.)
"""

import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.formats import image_records, published
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

RAW_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'raw', 'mnist')

# SHA-256 of the uncompressed files.
_SHA256 = {
    'train-images-idx3-ubyte': 'ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db',
    'train-labels-idx1-ubyte': '65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5',
    't10k-images-idx3-ubyte': '0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7',
    't10k-labels-idx1-ubyte': 'ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2',
}


# {'image': float32 [batch, 28, 28, 1] in [0, 1]}, {'label': int32 [batch]}.
parse_batch, image_features = image_records.parse_batch, image_records.image_features
PARSED_ONCE = True
feature_columns = image_records.feature_columns
raw_specs, from_raw = image_records.raw_specs, image_records.from_raw  # Of pictures of any size.


def get_params() -> dict[str, Any]:
    return {'image_size': 28, 'num_channels': 1, 'num_classes': 10, 'shuffle_buffer': 60000}


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the IDX files to TFRecord files, once."""
    image_records.check_params('mnist', params, get_params())
    directory = _directory(data_dir)
    if not records.is_written(directory):
        records.write(directory, {'train': _examples('train'), 'eval': _examples('t10k')})


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples: 'image', 784 bytes in row-major order, and 'label', int64."""
    del params
    return records.read(_directory(data_dir), split)


def _directory(data_dir):
    return os.path.join(data_dir, 'mnist')


def _examples(prefix):
    return image_records.Examples(read_idx(f'{prefix}-images-idx3-ubyte'), read_idx(f'{prefix}-labels-idx1-ubyte'))


def read_idx(name: str) -> np.ndarray:
    """Returns the array of one of the four files; raises RunError if it is missing or differs from the original."""
    path = os.path.join(RAW_DIR, f'{name}.gz')
    fix, original = 'restore it from the repository', 'the file that this project ships'
    return published.to_array(published.read(path, _SHA256[name], fix, original))
