"""TFRecord files compressed as a whole, with GZIP or ZLIB: recognized by their first bytes, whatever their names."""

from collections.abc import Iterator
import contextlib
import os
import tempfile
from typing import Any
import zlib

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, first_line
from estimator_trainer.common.files import atomic_path, check_readable
from estimator_trainer.common.records import tfrecord

GZIP, ZLIB = 'GZIP', 'ZLIB'
SUFFIXES = ('.gz', '.gzip', '.zlib', '.zz')
_BLOCK = 1 << 20
_EITHER = 32 + zlib.MAX_WBITS  # The header tells which.


def compression_of(path: str) -> str | None:
    """Returns GZIP, ZLIB or None; raises tf.errors.OpError if the file cannot be read.

    The length of an uncompressed record may begin with the same bytes, but what follows cannot be decompressed then.
    """
    check_readable(path)
    with tf.io.gfile.GFile(path, 'rb') as file:
        head = file.read(_BLOCK)
    is_gzip, is_zlib = head[:3] == b'\x1f\x8b\x08', head[:1] == b'\x78' and int.from_bytes(head[:2], 'big') % 31 == 0
    if not is_gzip and not is_zlib:
        return None
    try:
        content = zlib.decompressobj(_EITHER).decompress(head, 8)
    except zlib.error:
        return None
    return (GZIP if is_gzip else ZLIB) if not any(content[4:]) else None  # No record has 4 GiB.


def decompress(path: str, target: str) -> tfrecord.Scan:
    """Writes the content of a compressed file, atomically, once its records have been verified; returns its Scan.

    Raises:
      RunError: it is incomplete or corrupt.
      OSError, tf.errors.OpError: a file cannot be read or written.
    """
    with atomic_path(target) as part:
        with tf.io.gfile.GFile(path, 'rb') as source, tf.io.gfile.GFile(part, 'wb') as file:
            for block in _content(path, source):
                file.write(block)
        found, defect = tfrecord.scan_intact(part)
        if defect:
            raise RunError(f'{path}: once decompressed, {defect}: restore it')
    return found


def _content(path, source):
    """Yields the content of all members of a compressed file in blocks."""
    member: Any = None
    data = b''
    try:
        while data or (data := source.read(_BLOCK)):
            if member is None:
                data = data.lstrip(b'\0')  # Some pad the end.
                member = zlib.decompressobj(_EITHER) if data else None
                continue
            yield member.decompress(data, _BLOCK)
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, None
        if member is not None:
            yield member.flush()
    except zlib.error as error:
        raise RunError(f'{path}: its compressed content is corrupt: {error}: restore it') from None
    if member is not None and not member.eof:
        raise RunError(f'{path}: its compressed content ends early: restore it')


@contextlib.contextmanager
def plain(path: str) -> Iterator[str]:
    """Yields the path of a file, or that of a decompressed copy, which is deleted in the end; see `decompress`."""
    if not compression_of(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as directory:
        copy = os.path.join(directory, os.path.basename(path))
        try:
            decompress(path, copy)
        except (OSError, tf.errors.OpError) as error:
            raise RunError(f'{path}: cannot be decompressed in {directory}: {first_line(error)}') from None
        yield copy


def without_suffix(name: str) -> str:
    """Returns the name of a file without that of its compression, such as .gz."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in SUFFIXES else name
