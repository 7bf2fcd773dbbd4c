"""Fashion-MNIST: 60,000 training and 10,000 test images of articles of clothing, 28x28, on black, in 10 classes.

The four IDX files are read from `raw_dir`, DATA_DIR/raw/fashion_mnist or Debian's package dataset-fashion-mnist, else
downloaded. They are under the MIT License, copyright 2017 Zalando SE.
(H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms, 2017.)
"""

import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.formats import image_records, published
from estimator_trainer.common.formats.download import download
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

DEBIAN_DIR = '/usr/share/datasets/fashion-mnist'
CLASS_NAMES = ['T-shirt/top', 'Trouser', 'Pullover', 'Dress', 'Coat', 'Sandal', 'Shirt', 'Sneaker', 'Bag', 'Ankle boot']

# From https://github.com/zalandoresearch/fashion-mnist.
URL = 'http://fashion-mnist.s3-website.eu-central-1.amazonaws.com'

# SHA-256 of the gzipped files, from TensorFlow Datasets (url_checksums/fashion_mnist.txt).
GZIPPED_SHA256 = {
    'train-images-idx3-ubyte': '3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84',
    'train-labels-idx1-ubyte': 'a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845',
    't10k-images-idx3-ubyte': '346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073',
    't10k-labels-idx1-ubyte': '67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5',
}

# SHA-256 of the uncompressed files, from Debian's package. Deflated with the original gzip headers, which hold the file's name
# and time (1504176606 for train, 1504176627 for t10k), they have the SHA-256 above.
SHA256 = {
    'train-images-idx3-ubyte': 'c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888',
    'train-labels-idx1-ubyte': 'bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9',
    't10k-images-idx3-ubyte': '5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b',
    't10k-labels-idx1-ubyte': '0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34',
}

# {'image': float32 [batch, 28, 28, 1] in [0, 1]}, {'label': int32 [batch]}.
parse_batch, image_features = image_records.parse_batch, image_records.image_features
PARSED_ONCE = True
feature_columns = image_records.feature_columns
raw_specs, from_raw = image_records.raw_specs, image_records.from_raw  # Of pictures of any size.


def get_params() -> dict[str, Any]:
    return {
        'image_size': 28,
        'num_channels': 1,
        'num_classes': 10,
        'shuffle_buffer': 60000,
        'raw_dir': '',  # The directory of the IDX files, gzipped or not.
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the IDX files to TFRecord files, once."""
    image_records.check_params('fashion_mnist', params, get_params())
    directory = _directory(data_dir)
    if not records.is_written(directory):
        records.write(directory, {split: _examples(split, data_dir, params) for split in ('train', 'eval')})


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns the number and the names of the classes."""
    del data_dir, params
    return {'num_classes': len(CLASS_NAMES), 'class_names': CLASS_NAMES}


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples: 'image', 784 bytes in row-major order, and 'label', int64."""
    del params
    return records.read(_directory(data_dir), split)


def _directory(data_dir):
    return os.path.join(data_dir, 'fashion_mnist')


def _examples(split, data_dir, params):
    prefix = {'train': 'train', 'eval': 't10k'}[split]
    return image_records.Examples(
        _read_idx(f'{prefix}-images-idx3-ubyte', data_dir, params), _read_idx(f'{prefix}-labels-idx1-ubyte', data_dir, params)
    )


def _read_idx(name, data_dir, params) -> np.ndarray:
    path = _locate(name, os.path.join(data_dir, 'raw', 'fashion_mnist'), params['raw_dir'])
    return published.to_array(published.read(path, SHA256[name], f'replace it with {URL}/{name}.gz'))


def _locate(name, downloads, raw_dir):
    """Returns the path of an IDX file, gzipped or not; downloads it if necessary."""
    for directory in [raw_dir] if raw_dir else [downloads, DEBIAN_DIR]:
        for path in (os.path.join(directory, f'{name}.gz'), os.path.join(directory, name)):
            if tf.io.gfile.exists(path):
                return path
    if raw_dir:
        raise UsageError(f'--hparams=raw_dir={raw_dir}: has neither {name}.gz nor {name}')
    path = os.path.join(downloads, f'{name}.gz')
    download(f'{URL}/{name}.gz', path, GZIPPED_SHA256[name])
    return path
