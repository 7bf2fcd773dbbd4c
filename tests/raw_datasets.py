"""Small raw files in the format of downloaded datasets, accepted by the dataset modules in place of the published ones."""

import gzip
import hashlib
import io
import struct
import tarfile

import numpy as np

from estimator_trainer.datasets import cifar10, fashion_mnist

LABELS = np.arange(60, dtype=np.uint8) * 3 % 10


def write_fashion_mnist(directory, monkeypatch, is_gzipped=True):
    """Writes four IDX files; returns {split: (uint8 [size, 28, 28], uint8 [size])}."""
    directory.mkdir(parents=True, exist_ok=True)
    images = np.random.RandomState(0).randint(0, 256, [50, 28, 28], np.uint8)
    found = {'train': (images[:30], LABELS[:30]), 'eval': (images[30:], LABELS[30:50])}
    for prefix, arrays in zip(('train', 't10k'), found.values()):
        for kind, array in zip(('images-idx3', 'labels-idx1'), arrays):
            name = f'{prefix}-{kind}-ubyte'
            content = struct.pack(f'>4B{array.ndim}I', 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
            monkeypatch.setitem(fashion_mnist.SHA256, name, hashlib.sha256(content).hexdigest())
            content = gzip.compress(content) if is_gzipped else content
            monkeypatch.setitem(fashion_mnist.GZIPPED_SHA256, name, hashlib.sha256(content).hexdigest())
            (directory / (f'{name}.gz' if is_gzipped else name)).write_bytes(content)
    return found


def write_cifar10(directory, monkeypatch, is_archive=True):
    """Writes the archive, or the files in it; returns {split: (uint8 [size, 32, 32, 3], uint8 [size])}."""
    directory.mkdir(parents=True, exist_ok=True)
    images = np.random.RandomState(0).randint(0, 256, [60, 3, 32, 32], np.uint8)
    rows = np.concatenate([LABELS[:, None], images.reshape(60, 3072)], axis=1)
    files = {name: rows[10 * i : 10 * i + 10].tobytes() for i, name in enumerate(cifar10.SHA256)}
    monkeypatch.setattr(cifar10, 'FILE_BYTES', 10 * 3073)
    for name, content in files.items():
        monkeypatch.setitem(cifar10.SHA256, name, hashlib.sha256(content).hexdigest())
        if not is_archive:
            (directory / name).write_bytes(content)
    if is_archive:
        write_archive(directory, monkeypatch, {f'cifar-10-batches-bin/{name}': content for name, content in files.items()})
    images = images.transpose(0, 2, 3, 1)
    return {'train': (images[:50], LABELS[:50]), 'eval': (images[50:], LABELS[50:])}


def write_archive(directory, monkeypatch, files):
    """Writes files, {name: content}, as cifar-10-binary.tar.gz; a str makes a symbolic link to it, with the size of a file."""
    path = directory / 'cifar-10-binary.tar.gz'
    with tarfile.open(path, 'w:gz') as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = cifar10.FILE_BYTES if isinstance(content, str) else len(content)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            archive.addfile(member, io.BytesIO(content) if member.isreg() else None)
    monkeypatch.setattr(cifar10, 'ARCHIVE_SHA256', hashlib.sha256(path.read_bytes()).hexdigest())
    return path
