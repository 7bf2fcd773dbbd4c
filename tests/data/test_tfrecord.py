"""Where a TFRecord file is damaged."""

import hashlib
import zlib

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import tfrecord
from tests.tfrecords import header, masked_crc, record

DATA = [b'first', b'', b'x' * 1000, b'last']
RECORDS = [record(data) for data in DATA]
OFFSETS = [0, 21, 37, 1053]  # A record has 16 bytes beside its data.
WHOLE = b''.join(RECORDS)
SIZE = 1073
WRITTEN = {'count': 4, 'bytes': SIZE, 'sha256': hashlib.sha256(WHOLE).hexdigest(), 'crc32': [zlib.crc32(WHOLE)]}


def find_damage(path, written=None):
    return tfrecord.find_damage(path, tfrecord.scan(path), written)


def changed(position, content):
    return WHOLE[:position] + content + WHOLE[position + len(content) :]


def test_the_tests_own_records_are_those_that_tensorflow_writes(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / 'file')) as writer:
        for data in DATA:
            writer.write(data)
    assert (tmp_path / 'file').read_bytes() == WHOLE


def test_a_scan_finds_where_the_records_begin(tmp_path):
    (tmp_path / 'file').write_bytes(WHOLE)
    scan = tfrecord.scan(str(tmp_path / 'file'))
    assert (scan.offsets, scan.count, scan.is_sound, scan.bytes) == (OFFSETS, 4, True, SIZE)
    assert (scan.sha256, scan.crc32) == (WRITTEN['sha256'], WRITTEN['crc32'])
    assert list(tfrecord.read(str(tmp_path / 'file'), 4)) == DATA
    assert find_damage(str(tmp_path / 'file'), WRITTEN) is None


def test_records_and_headers_may_lie_across_the_blocks_in_which_a_file_is_read(tmp_path):
    path = str(tmp_path / 'file')
    lengths = np.random.RandomState(0).randint(0, 3000, 2500)
    with tf.io.TFRecordWriter(path) as writer:
        for length in lengths:
            writer.write(bytes(length))
    for first in range((1 << 20) - 40, (1 << 20) + 1):  # The second header begins before, across and after the border.
        (tmp_path / 'two').write_bytes(record(bytes(first - 16)) + RECORDS[0])
        assert tfrecord.scan(str(tmp_path / 'two')).offsets == [0, first]
    scan = tfrecord.scan(path)
    assert scan.offsets == [0, *np.cumsum(lengths + 16)[:-1]]
    assert scan.is_sound and len(scan.crc32) == 4


@pytest.mark.parametrize(
    'content, damage',
    [
        (WHOLE[:1000], 'the record at byte 37 is corrupt: it is longer than the rest of the file'),
        (WHOLE[:30], 'the record at byte 21 is corrupt: it is longer than the rest of the file'),  # Within a header.
        (WHOLE + b'more', 'the record at byte 1073 is corrupt: it is longer than the rest of the file'),
        (changed(37, header(2**62)), 'the record at byte 37 is corrupt: it is longer than the rest of the file'),
        (changed(37, header(2**64 - 1)), 'the record at byte 37 is corrupt: it is longer than the rest of the file'),
        (changed(37, b'\xff' * 8), 'the record at byte 37 is corrupt: it is longer than the rest of the file'),
        (changed(21, header(900)), 'the record at byte 21 is corrupt: its checksum is wrong'),
        (changed(500, b'y'), 'the record at byte 37 is corrupt: its checksum is wrong'),
        (changed(1050, b'y'), 'the record at byte 37 is corrupt: its checksum is wrong'),  # In the checksum itself.
        (changed(30, b'y'), 'the record at byte 21 is corrupt: its checksum is wrong'),
        (b'', '4 records were written, but the file has 0: it differs between byte 0 and byte 1048576'),
        (WHOLE[:1053], '4 records were written, but the file has 3: it differs between byte 0 and byte 1048576'),
        (WHOLE + RECORDS[0], '4 records were written, but the file has 5: it differs between byte 0 and byte 1048576'),
        (changed(37, record(b'z' * 1000)), 'is not what was written: it differs between byte 0 and byte 1048576'),
    ],
)
def test_what_is_damaged_is_said_with_its_place(tmp_path, content, damage):
    (tmp_path / 'file').write_bytes(content)
    assert find_damage(str(tmp_path / 'file'), WRITTEN) == damage


def test_without_knowing_what_was_written_the_checksums_decide(tmp_path):
    (tmp_path / 'file').write_bytes(changed(37, record(b'z' * 1000)))
    assert find_damage(str(tmp_path / 'file')) is None
    (tmp_path / 'file').write_bytes(changed(500, b'y'))
    assert find_damage(str(tmp_path / 'file')) == 'the record at byte 37 is corrupt: its checksum is wrong'


def test_the_block_that_differs_is_reported_in_a_larger_file(tmp_path):
    content = [record(bytes(1 << 20)), record(bytes(1 << 20)), record(bytes(1 << 20))]
    blocks = [b''.join(content)[i << 20 : (i + 1) << 20] for i in range(4)]
    written = {
        'count': 3,
        'bytes': 3 << 20 + 48,
        'sha256': hashlib.sha256(b''.join(content)).hexdigest(),
        'crc32': [zlib.crc32(block) for block in blocks],
    }
    other = b'\1' + bytes((1 << 20) - 1)
    path = tmp_path / 'file'
    path.write_bytes(content[0] + header(1 << 20) + other + masked_crc(other) + content[2])
    assert find_damage(str(path), written) == 'is not what was written: it differs between byte 1048576 and byte 2097152'
    path.write_bytes(content[0] + content[1])
    assert find_damage(str(path), written) == (
        '3 records were written, but the file has 2: it differs between byte 2097152 and byte 3145728'
    )
    path.write_bytes(content[0] + content[1] + record(b'1' + bytes((1 << 20) - 1)))
    del written['crc32']
    assert find_damage(str(path), written) == 'is not what was written: its SHA-256 differs'
