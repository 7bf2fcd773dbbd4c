"""CIFAR-10: 50,000 training and 10,000 test photographs, 32x32 in color, in 10 classes.

The archive cifar-10-binary.tar.gz, or its extracted files, is read from `raw_dir` or DATA_DIR/raw/cifar10, else downloaded. It
states no licence; its author asks to cite the report. The pickled version for Python is not supported.
(A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009.)
"""

import os
import tarfile
from typing import Any
import zlib

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import sha256_of
from estimator_trainer.common.formats import image_records, published
from estimator_trainer.common.formats.download import download
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

CLASS_NAMES = ['airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck']

URL = 'https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz'
_FIX = f'replace it with that of {URL}'
_ARCHIVE = 'cifar-10-binary.tar.gz'
_FOLDER = 'cifar-10-batches-bin'  # In the archive.
_PICKLED = ('cifar-10-python.tar.gz', 'cifar-10-batches-py')
_IMAGE_BYTES = 32 * 32 * 3
FILE_BYTES = 10000 * (1 + _IMAGE_BYTES)

# SHA-256 of the archive, from TensorFlow Datasets (url_checksums/cifar10.txt), and of the files in it, from the gem
# torchvision for Ruby (lib/torchvision/datasets/cifar10.rb), which has the same SHA-256 of the archive.
ARCHIVE_SHA256 = 'c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd'
SHA256 = {
    'data_batch_1.bin': 'cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5',
    'data_batch_2.bin': 'a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed',
    'data_batch_3.bin': 'bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67',
    'data_batch_4.bin': '014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48',
    'data_batch_5.bin': '755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add',
    'test_batch.bin': '8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b',
}

# {'image': float32 [batch, 32, 32, 3] in [0, 1]}, {'label': int32 [batch]}.
parse_batch, image_features = image_records.parse_batch, image_records.image_features
PARSED_ONCE = True
feature_columns = image_records.feature_columns
raw_specs, from_raw = image_records.raw_specs, image_records.from_raw  # Of pictures of any size.


def get_params() -> dict[str, Any]:
    return {
        'image_size': 32,
        'num_channels': 3,
        'num_classes': 10,
        'shuffle_buffer': 50000,
        'raw_dir': '',  # The directory of cifar-10-binary.tar.gz or of its extracted files.
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the archive to TFRecord files, once."""
    image_records.check_params('cifar10', params, get_params())
    directory = _directory(data_dir)
    if records.is_written(directory):
        return
    *train, test = _read_files(os.path.join(data_dir, 'raw', 'cifar10'), params['raw_dir'])
    records.write(directory, {'train': _examples(train), 'eval': _examples([test])})


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns the number and the names of the classes."""
    del data_dir, params
    return {'num_classes': len(CLASS_NAMES), 'class_names': CLASS_NAMES}


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples: 'image', 3072 bytes [height, width, channels], and 'label', int64."""
    del params
    return records.read(_directory(data_dir), split)


def _directory(data_dir):
    return os.path.join(data_dir, 'cifar10')


def _examples(contents):
    """Returns the examples in files of 3073 bytes each: the label, then a red, a green and a blue plane."""
    rows = np.frombuffer(b''.join(contents), np.uint8).reshape(-1, 1 + _IMAGE_BYTES)
    return image_records.Examples(rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0])


def _read_files(downloads, raw_dir):
    """Returns the contents of the six files; downloads the archive if necessary."""
    directory = raw_dir or downloads
    archive = os.path.join(directory, _ARCHIVE)
    if tf.io.gfile.exists(archive):
        return _read_archive(archive)
    for folder in (directory, os.path.join(directory, _FOLDER)):
        if tf.io.gfile.exists(os.path.join(folder, 'test_batch.bin')):
            return [published.read(os.path.join(folder, name), sha256, _FIX) for name, sha256 in SHA256.items()]
    for name in _PICKLED:
        if tf.io.gfile.exists(os.path.join(directory, name)):
            raise RunError(
                f'{os.path.join(directory, name)}: is not read, because it is pickled, and unpickling can run any code: {_FIX}'
            )
    if raw_dir:
        raise UsageError(f'--hparams=raw_dir={raw_dir}: has neither {_ARCHIVE} nor the files {", ".join(SHA256)}')
    download(URL, archive, ARCHIVE_SHA256)
    return _read_archive(archive)


def _read_archive(path):
    """Returns the contents of the six files in the archive, read in memory without extraction."""
    contents = {}
    try:
        if sha256_of(path) != ARCHIVE_SHA256:
            raise RunError(f'{path}: is not the file that was published (SHA-256 differs): {_FIX}')
        with tf.io.gfile.GFile(path, 'rb') as file, tarfile.open(fileobj=file, mode='r|gz') as archive:
            for member in archive:
                folder, name = os.path.split(member.name)
                is_expected = folder == _FOLDER and name in SHA256 and member.isreg() and member.size == FILE_BYTES
                stream = archive.extractfile(member) if is_expected else None
                if stream:
                    contents[name] = stream.read()
    except (tf.errors.OpError, OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise RunError(f'{path}: cannot be read: {error}; {_FIX}') from None
    for name in SHA256:
        if name not in contents:
            raise RunError(f'{path}: has no file {_FOLDER}/{name} of {FILE_BYTES} bytes: {_FIX}')
    return [contents[name] for name in SHA256]
