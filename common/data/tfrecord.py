"""What a TFRecord file consists of, and where it is damaged.

A record is its length (8 bytes, little-endian), a CRC of the length (4), the data, and a CRC of the data (4).
(tensorflow/core/lib/io/record_writer.h)
"""

import contextlib
import dataclasses
import hashlib
import itertools
import struct
import typing
import zlib

import tensorflow.compat.v1 as tf

_BLOCK = 1 << 20
_HEADER = 12
_AROUND = 16  # What a record has beside its data.


@dataclasses.dataclass(frozen=True)
class Scan:
    """A file, read once from end to end.

    offsets are the bytes at which its records begin, by the lengths of those before. is_sound says whether the last one
    ends with the file; else it is longer than the rest. crc32 has an entry for each block of 2^20 bytes.
    """

    offsets: typing.Sequence[int]
    is_sound: bool
    bytes: int
    sha256: str
    crc32: typing.Sequence[int]

    @property
    def count(self):
        """How many records lie within the file."""
        return len(self.offsets) - (not self.is_sound)


def scan(path):
    """Returns the Scan of a file, local or remote; raises tf.errors.OpError if it cannot be read."""
    offsets, crc32, sha256 = [], [], hashlib.sha256()
    end = size = 0
    rest = b''
    with tf.io.gfile.GFile(path, 'rb') as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            crc32.append(zlib.crc32(block))
            data = rest + block
            begin = size - len(rest)
            size += len(block)
            while end + _HEADER <= size:
                offsets.append(end)
                end += _AROUND + struct.unpack_from('<Q', data, end - begin)[0]
            rest = data[end - begin :] if end < size else b''  # The beginning of a header.
    if end < size:
        offsets.append(end)  # Less than a header.
    return Scan(offsets, end == size, size, sha256.hexdigest(), crc32)


def read(path, count):
    """Yields the first records of a file, bytes; raises tf.errors.DataLossError at one whose checksum is wrong.

    Args:
      path: str.
      count: int, at most the records that `scan` has found to lie within the file: a length that reaches beyond it ends
        the process in TensorFlow's reader.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        record = tf.data.make_one_shot_iterator(tf.data.TFRecordDataset(path).take(count)).get_next()
        for _ in range(count):
            yield session.run(record)


def find_damage(path, found, written=None):
    """Says what is wrong with a file, in words that follow its path.

    Args:
      path: str.
      found: Scan of it.
      written: dict of 'count', 'bytes', 'sha256' and, if known, 'crc32' of its Scan when it was written; None where nobody
        knows them.

    Returns:
      str, which names the byte at which the first record that is damaged begins, if there is one; None if all is well.

    Raises:
      tf.errors.OpError: it cannot be read.
    """
    if (
        written
        and found.is_sound
        and (found.count, found.bytes, found.sha256) == (written['count'], written['bytes'], written['sha256'])
    ):
        return None
    good = 0
    with contextlib.suppress(tf.errors.DataLossError):
        for _ in read(path, found.count):
            good += 1
    if good < found.count:
        return f'the record at byte {found.offsets[good]} is corrupt: its checksum is wrong'
    if not found.is_sound:
        return f'the record at byte {found.offsets[-1]} is corrupt: it is longer than the rest of the file'
    if not written:
        return None
    place = _differing_block(found.crc32, written.get('crc32', ()))
    if good != written['count']:
        return f'{written["count"]} records were written, but the file has {good}{place}'
    return f'is not what was written{place or ": its SHA-256 differs"}'


def _differing_block(now, then):
    for i, (a, b) in enumerate(itertools.zip_longest(now, then)):
        if a != b and then:
            return f': it differs between byte {i * _BLOCK} and byte {(i + 1) * _BLOCK}'
    return ''
