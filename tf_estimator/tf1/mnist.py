"""tensorflow.examples.tutorials.mnist.input_data: MNIST as NumPy arrays, from its four files."""

import collections
import gzip
import hashlib
import math
import os
import struct
import urllib.request

import numpy as np
import tensorflow.compat.v1 as tf

DEFAULT_SOURCE_URL = SOURCE_URL = 'https://storage.googleapis.com/cvdf-datasets/mnist/'
# {file: SHA-256 of its uncompressed content}
_FILES = {
    'train-images-idx3-ubyte.gz': 'ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db',
    'train-labels-idx1-ubyte.gz': '65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5',
    't10k-images-idx3-ubyte.gz': '0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7',
    't10k-labels-idx1-ubyte.gz': 'ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2',
}
Datasets = collections.namedtuple('Datasets', ['train', 'validation', 'test'])


class DataSet:
    """Examples in batches.

    Attributes:
      images: float32 [examples, 784] in [0, 1], or uint8; [examples, 28, 28, 1] unless they are reshaped.
      labels: uint8 [examples], or float64 [examples, 10].
    """

    def __init__(self, images, labels, fake_data=False, one_hot=False, dtype=tf.float32, reshape=True, seed=None):
        if fake_data:
            raise ValueError('fake_data is not supported')
        dtype = tf.as_dtype(dtype).base_dtype
        if dtype not in (tf.uint8, tf.float32):
            raise TypeError(f'Invalid image dtype {dtype!r}, expected uint8 or float32')
        images = images.reshape(len(images), math.prod(images.shape[1:])) if reshape else images
        self.images = images.astype(np.float32) * np.float32(1 / 255) if dtype == tf.float32 else images
        self.labels, self.num_examples = labels, len(images)
        self.epochs_completed, self._index = 0, 0
        seeds = tf.get_seed(seed)
        self._random = np.random.RandomState(seeds[0] if seed is None else seeds[1])

    def next_batch(self, batch_size, fake_data=False, shuffle=True):
        """Returns the next images and labels; each epoch has another order, and a batch may go on into the next epoch."""
        if shuffle and not self.epochs_completed and not self._index:
            self._shuffle()
        parts, wanted = [(self.images[:0], self.labels[:0])], batch_size if self.num_examples else 0
        while wanted:
            end = min(self._index + wanted, self.num_examples)
            parts.append((self.images[self._index : end], self.labels[self._index : end]))
            wanted -= end - self._index
            self._index = end
            if wanted:
                self.epochs_completed, self._index = self.epochs_completed + 1, 0
                if shuffle:
                    self._shuffle()
        return tuple(np.concatenate(arrays) for arrays in zip(*parts))

    def _shuffle(self):
        order = self._random.permutation(self.num_examples)
        self.images, self.labels = self.images[order], self.labels[order]


def dense_to_one_hot(labels_dense, num_classes):
    return np.eye(num_classes)[labels_dense]


def read_data_sets(
    train_dir,
    fake_data=False,
    one_hot=False,
    dtype=tf.float32,
    reshape=True,
    validation_size=5000,
    seed=None,
    source_url=DEFAULT_SOURCE_URL,
):
    """Returns the Datasets in a folder; files that it lacks are downloaded and compared with their published checksums."""
    arrays = [_read(maybe_download(name, train_dir, source_url + name)) for name in _FILES]
    if not 0 <= validation_size <= len(arrays[0]):
        raise ValueError(f'Validation size should be between 0 and {len(arrays[0])}. Received: {validation_size}.')
    images, labels, test_images, test_labels = arrays
    if one_hot:
        labels, test_labels = (dense_to_one_hot(values, 10) for values in (labels, test_labels))
    splits = (
        (images[validation_size:], labels[validation_size:]),
        (images[:validation_size], labels[:validation_size]),
        (test_images, test_labels),
    )
    return Datasets(*(DataSet(*split, dtype=dtype, reshape=reshape, seed=seed) for split in splits))


def load_mnist(train_dir='MNIST-data'):
    return read_data_sets(train_dir)


def load_dataset(name):
    """Returns the Datasets of the name mnist; there are no others."""
    if name != 'mnist':
        raise ValueError(f'Name of dataset is not found: {name}; there is mnist')
    return load_mnist()


def maybe_download(filename, work_directory, source_url):
    """Returns the path of a file in a folder, which is downloaded if it is not there."""
    path = os.path.join(work_directory, filename)
    if os.path.exists(path):
        return path
    os.makedirs(work_directory, exist_ok=True)
    with urllib.request.urlopen(source_url, timeout=60) as response:
        content = response.read()
    if filename in _FILES and hashlib.sha256(gzip.decompress(content)).hexdigest() != _FILES[filename]:
        raise OSError(f'{source_url}: is not the published file')
    part = f'{path}.{os.getpid()}.part'
    with open(part, 'wb') as file:
        file.write(content)
    os.replace(part, path)
    return path


def _read(path):
    """Returns the array in an IDX file: images uint8 [number, height, width, 1], or labels uint8 [number]."""
    with gzip.open(path) as file:
        magic, count = struct.unpack('>ii', file.read(8))
        if magic not in (2051, 2049):
            raise ValueError(f'Invalid magic number {magic} in MNIST file: {path}')
        shape = [count, *struct.unpack('>ii', file.read(8)), 1] if magic == 2051 else [count]
        return np.frombuffer(file.read(), np.uint8).reshape(shape)
