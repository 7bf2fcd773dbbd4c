"""Small raw files in the format of datasets that do not ship, which the dataset modules then take for the published ones."""

import gzip
import hashlib
import io
import struct
import tarfile

import numpy as np

from datasets import cifar10, fashion_mnist

TRAIN, EVAL = 30, 20  # Images of each split.


def write_fashion_mnist(directory, monkeypatch, is_gzipped=True):
    """Writes four IDX files; returns {split: (uint8 [size, 28, 28], uint8 [size])}."""
    random = np.random.RandomState(0)
    directory.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for split, prefix, size in (('train', 'train', TRAIN), ('eval', 't10k', EVAL)):
        arrays[split] = random.randint(0, 256, [size, 28, 28], np.uint8), (np.arange(size) * 3 % 10).astype(np.uint8)
        for kind, array in zip(('images-idx3', 'labels-idx1'), arrays[split]):
            name = f'{prefix}-{kind}-ubyte'
            content = struct.pack(f'>4B{array.ndim}I', 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
            monkeypatch.setitem(fashion_mnist.SHA256, name, hashlib.sha256(content).hexdigest())
            if is_gzipped:
                name, content = f'{name}.gz', gzip.compress(content)
                monkeypatch.setitem(fashion_mnist.GZIPPED_SHA256, name[:-3], hashlib.sha256(content).hexdigest())
            (directory / name).write_bytes(content)
    return arrays


def write_cifar10(directory, monkeypatch, is_archive=True):
    """Writes the archive, or the files in it; returns {split: (uint8 [size, 32, 32, 3], uint8 [size])}."""
    random = np.random.RandomState(0)
    images = random.randint(0, 256, [6 * 10, 3, 32, 32], np.uint8)
    labels = (np.arange(6 * 10) * 3 % 10).astype(np.uint8)
    files = {}
    for i, name in enumerate(cifar10.SHA256):
        mine = slice(10 * i, 10 * i + 10)
        files[name] = np.concatenate([labels[mine, None], images[mine].reshape(10, 3072)], axis=1).tobytes()
        monkeypatch.setitem(cifar10.SHA256, name, hashlib.sha256(files[name]).hexdigest())
    monkeypatch.setattr(cifar10, 'FILE_BYTES', 10 * 3073)
    if is_archive:
        write_archive(directory, monkeypatch, {f'cifar-10-batches-bin/{name}': content for name, content in files.items()})
    else:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_bytes(content)
    images = images.transpose(0, 2, 3, 1)
    return {'train': (images[:50], labels[:50]), 'eval': (images[50:], labels[50:])}


def write_archive(directory, monkeypatch, files):
    """Writes files, {name: content}, as cifar-10-binary.tar.gz; a content that is a str makes a symbolic link to it.

    The link claims the size of a file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / 'cifar-10-binary.tar.gz'
    with tarfile.open(path, 'w:gz') as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname, member.size = tarfile.SYMTYPE, content, cifar10.FILE_BYTES
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    monkeypatch.setattr(cifar10, 'ARCHIVE_SHA256', hashlib.sha256(path.read_bytes()).hexdigest())
    return path
