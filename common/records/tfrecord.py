"""The structure of a TFRecord file, and the location of corruption.

A record consists of its length (8 bytes, little-endian), a CRC of the length (4), the data, and a CRC of the data (4).
(tensorflow/core/lib/io/record_writer.h)
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import hashlib
import itertools
import struct
import sys
from typing import Any
import zlib

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import check_readable
from estimator_trainer.common.records.elements import elements

_BLOCK = 1 << 20
_HEADER = 12
_EMPTY = bytes.fromhex('000000000000000029039807')  # The header of an empty record. Zeros, as after a crash, are none.
INDEXED_BYTES = 1 << 16  # Bytes per entry of an index, of which a file of 150 MB has at most _MAX_INDEX.
_MAX_INDEX = 512
_length_at = struct.Struct('<Q').unpack_from
FRAMING = 16  # Bytes of a record in addition to its data.


@dataclasses.dataclass(frozen=True)
class Scan:
    """The result of reading a file once from start to end.

    offsets are the bytes at which its records begin, computed from the preceding lengths. is_sound is whether the last record
    ends at the end of the file, rather than beyond it or in zeros. crc32 has an entry for each block of 2^20 bytes.
    """

    offsets: Sequence[int]
    is_sound: bool
    bytes: int
    sha256: str
    crc32: Sequence[int]

    @property
    def count(self) -> int:
        """The number of complete records."""
        return len(self.offsets) - (not self.is_sound)


def scan(path: str) -> Scan:
    """Returns the Scan of a file, local or remote; raises tf.errors.OpError if it cannot be read."""
    offsets, crc32, sha256 = [], [], hashlib.sha256()
    end = size = 0
    rest = b''
    check_readable(path)
    with tf.io.gfile.GFile(path, 'rb') as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            crc32.append(zlib.crc32(block))
            data = rest + block
            begin = size - len(rest)
            size += len(block)
            while end + _HEADER <= size:
                offsets.append(end)
                length = _length_at(data, end - begin)[0]
                if not length and data[end - begin : end - begin + _HEADER] != _EMPTY:
                    end = sys.maxsize
                else:
                    end += FRAMING + length
            rest = data[end - begin :] if end < size else b''  # The beginning of a header.
    if end < size:
        offsets.append(end)  # Less than a header.
    return Scan(offsets, end == size, size, sha256.hexdigest(), crc32)


def make_index(offsets: Sequence[int], size: int) -> dict[str, Any]:
    """Returns the index of a file: {'every': N, 'offsets': the bytes at which each N-th record begins}.

    Args:
      offsets: the bytes at which its records begin.
      size: its bytes.
    """
    blocks = min(max(size // INDEXED_BYTES, 1), _MAX_INDEX)
    every = max(-(-len(offsets) // blocks), 1)
    return {'every': every, 'offsets': list(offsets[::every])}


def read(path: str, count: int) -> Iterator[bytes]:
    """Yields the first records of a file; raises tf.errors.DataLossError at a record whose checksum is wrong.

    Args:
      count: at most the number of complete records that `scan` found: a length that extends beyond the file crashes
        TensorFlow's reader, and the process with it.
    """
    return elements(lambda: tf.data.TFRecordDataset(path).take(count))


def _is_intact(path: str, found: Scan) -> bool:
    """Whether the checksums of all records are right; much faster than `find_damage`, which locates a wrong one."""
    if not found.is_sound:
        return False
    with tf.Graph().as_default(), tf.Session() as session:
        records = tf.data.TFRecordDataset(path).take(found.count)
        count = records.reduce(np.int64(0), lambda count, _: count + 1)
        try:
            return int(session.run(count)) == found.count
        except tf.errors.DataLossError:
            return False


def scan_intact(path: str) -> tuple[Scan, str | None]:
    """Returns the Scan of a file and, if the checksums of its records are wrong, what `find_damage` says."""
    found = scan(path)
    return found, None if _is_intact(path, found) else find_damage(path, found)


def find_damage(path: str, found: Scan, written: Mapping[str, Any] | None = None) -> str | None:
    """Describes the damage of a file, in words that follow its path in a message.

    Args:
      written: 'count', 'bytes', 'sha256' and, if known, 'crc32' of its Scan when it was written, and the 'index' of its
        offsets; None if unknown.

    Returns:
      Text that names the byte at which the first corrupt record begins, if there is one; None if the file is intact.

    Raises:
      tf.errors.OpError: the file cannot be read.
    """
    if (
        written
        and found.is_sound
        and (found.count, found.bytes, found.sha256) == (written['count'], written['bytes'], written['sha256'])
    ):
        index = written.get('index')
        is_right = not index or list(found.offsets[:: index['every']]) == index['offsets']
        return None if is_right else 'its index in the manifest is wrong'
    good = 0
    with contextlib.suppress(tf.errors.DataLossError):
        for _ in read(path, found.count):
            good += 1
    if good < found.count:
        return f'the record at byte {found.offsets[good]} is corrupt: its checksum is wrong'
    if not found.is_sound:
        return f'the record at byte {found.offsets[-1]} is corrupt: its length is wrong'
    if not written:
        return None
    difference = _first_difference(found.crc32, written.get('crc32', ()))
    if good != written['count']:
        return f'{written["count"]} records were written, but the file has {good}{difference}'
    return f'is not what was written{difference or ": its SHA-256 differs"}'


def _first_difference(now, then):
    for i, (a, b) in enumerate(itertools.zip_longest(now, then)):
        if a != b and then:
            return f': it differs between byte {i * _BLOCK} and byte {(i + 1) * _BLOCK}'
    return ''
