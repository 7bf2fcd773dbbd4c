"""Location of damage in TFRecord files."""

import hashlib
import zlib

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.records import tfrecord
from tests.tfrecords import header, record

DATA = [b'first', b'', b'x' * 1000, b'last']
RECORDS = [record(data) for data in DATA]
OFFSETS = [0, 21, 37, 1053]  # A record has 16 bytes beside its data.
WHOLE, SIZE = b''.join(RECORDS), 1073
MEGABYTE = 1 << 20


def description(content, count):
    """Returns a file's entry in a manifest."""
    crc32 = [zlib.crc32(content[i : i + MEGABYTE]) for i in range(0, len(content), MEGABYTE)]
    return {'count': count, 'bytes': len(content), 'sha256': hashlib.sha256(content).hexdigest(), 'crc32': crc32}


WRITTEN = description(WHOLE, 4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'file'


def find_damage(path, content, written=None):
    path.write_bytes(content)
    return tfrecord.find_damage(str(path), tfrecord.scan(str(path)), written)


def write(path, *records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for data in records:
            writer.write(data)
    return path.read_bytes()


def changed(position, content):
    return WHOLE[:position] + content + WHOLE[position + len(content) :]


def test_a_scan_finds_where_the_records_begin(path):
    assert write(path, *DATA) == WHOLE
    scan = tfrecord.scan(str(path))
    assert (scan.offsets, scan.count, scan.is_sound, scan.bytes) == (OFFSETS, 4, True, SIZE)
    assert (scan.sha256, scan.crc32) == (WRITTEN['sha256'], WRITTEN['crc32'])
    assert list(tfrecord.read(str(path), 4)) == DATA
    for written in (None, WRITTEN, {**WRITTEN, 'index': {'every': 2, 'offsets': [0, 37]}}):
        assert find_damage(path, WHOLE, written) is None
    assert find_damage(path, WHOLE, {**WRITTEN, 'count': 5}) == '5 records were written, but the file has 4'
    wrong = {'every': 2, 'offsets': [0, 38]}
    assert find_damage(path, WHOLE, {**WRITTEN, 'index': wrong}) == 'its index in the manifest is wrong'
    # Records and headers may lie across the blocks in which a file is read.
    for first in (MEGABYTE - 40, MEGABYTE - 12, MEGABYTE - 11, MEGABYTE - 1, MEGABYTE):  # Where the second header begins.
        path.write_bytes(header(first - 16) + bytes(first - 12) + RECORDS[0])
        assert tfrecord.scan(str(path)).offsets == [0, first]
    lengths = np.random.RandomState(0).randint(0, 3000, 2500)
    write(path, *map(bytes, lengths.tolist()))
    scan = tfrecord.scan(str(path))
    assert (scan.offsets, scan.is_sound, len(scan.crc32)) == ([0, *np.cumsum(lengths + 16)[:-1]], True, 4)


def test_an_index_has_an_entry_for_each_64_KB_and_no_more_than_512():
    rows = ((0, 0, 1), (1000, 1 << 16, 1000), (1000, (3 << 16) - 1, 500), (1001, 2 << 16, 501), (9999, 10**9, 20))
    for count, size, every in rows:
        index = tfrecord.make_index(range(0, 31 * count, 31), size)
        assert index == {'every': every, 'offsets': list(range(0, 31 * count, 31 * every))}


def test_damage_is_reported_with_its_location(path):
    longer, wrong = 'is corrupt: its length is wrong', 'is corrupt: its checksum is wrong'
    for content, damage in (
        (WHOLE[:30], f'the record at byte 21 {longer}'),  # Within a header.
        (WHOLE + b'more', f'the record at byte 1073 {longer}'),
        (WHOLE + bytes(100), f'the record at byte 1073 {longer}'),
        (changed(37, header(2**62)), f'the record at byte 37 {longer}'),
        (changed(37, b'\xff' * 8), f'the record at byte 37 {longer}'),
        (changed(21, header(900)), f'the record at byte 21 {wrong}'),
        (changed(500, b'y'), f'the record at byte 37 {wrong}'),
        (changed(1050, b'y'), f'the record at byte 37 {wrong}'),  # In the checksum itself.
        (b'', '4 records were written, but the file has 0'),
        (WHOLE + RECORDS[0], '4 records were written, but the file has 5'),
        (changed(37, record(b'z' * 1000)), 'is not what was written'),
    ):
        is_corrupt = damage.startswith('the record')  # Without knowing what was written, the checksums decide.
        place = '' if is_corrupt else ': it differs between byte 0 and byte 1048576'
        assert find_damage(path, content, WRITTEN) == damage + place, content
        assert find_damage(path, content) == (damage if is_corrupt else None), content
    zeros = bytes(MEGABYTE)
    written = description(write(path, zeros, zeros, zeros), 3)
    other = write(path, zeros, b'1' + zeros[1:], zeros)
    assert find_damage(path, other, written) == 'is not what was written: it differs between byte 1048576 and byte 2097152'
    message = '3 records were written, but the file has 2: it differs between byte 2097152 and byte 3145728'
    assert find_damage(path, write(path, zeros, zeros), written) == message
    del written['crc32']
    assert find_damage(path, other, written) == 'is not what was written: its SHA-256 differs'
