"""Tests for compressed TFRecord files."""

import gzip
import os
import re
import zlib

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.records import compressed, tfrecord
from tests.shared import failed
from tests.tfrecords import header, record

RECORDS = record(b'a') + record(b'') + record(bytes(3000))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(compressed, '_BLOCK', 1000)


@pytest.mark.parametrize(
    'content, kind',
    [
        (gzip.compress(RECORDS, mtime=0), 'GZIP'),
        (zlib.compress(RECORDS), 'ZLIB'),
        (zlib.compress(RECORDS, 9), 'ZLIB'),
        (RECORDS, None),
        (b'', None),
        (header(0x9C78) + bytes(99), None),  # The lengths begin like the marks.
        (header(0x088B1F) + bytes(99), None),
        (gzip.compress(b'any other content', mtime=0), None),
    ],
)
def test_compression_is_recognized_by_what_is_in_a_file(content, kind, tmp_path):
    (tmp_path / 'a').write_bytes(content)
    assert compressed.compression_of(str(tmp_path / 'a')) == kind


@pytest.mark.parametrize('compression', ['GZIP', 'ZLIB'])
def test_files_of_tensorflow_are_decompressed(compression, tmp_path):
    path, target = str(tmp_path / 'a.gz'), str(tmp_path / 'a')
    with tf.io.TFRecordWriter(path, compression) as writer:
        for data in (b'a', b'', bytes(3000)):
            writer.write(data)
    assert compressed.decompress(path, target) == tfrecord.scan(target)
    with compressed.plain(path) as copy, open(copy, 'rb') as file:
        assert file.read() == RECORDS
    assert not os.path.exists(copy)
    with compressed.plain(target) as same:
        assert same == target


def test_members_are_joined_and_padding_is_left(tmp_path):
    (tmp_path / 'a.gz').write_bytes(gzip.compress(RECORDS[:29]) + gzip.compress(RECORDS[29:]) + bytes(512))
    compressed.decompress(str(tmp_path / 'a.gz'), str(tmp_path / 'a'))
    assert (tmp_path / 'a').read_bytes() == RECORDS


@pytest.mark.parametrize(
    'content, message',
    [
        (gzip.compress(RECORDS, mtime=0)[:-9], 'its compressed content ends early: restore it'),
        (gzip.compress(RECORDS, mtime=0) + b'more', 'its compressed content is corrupt: Error -3 .*: restore it'),
        (zlib.compress(RECORDS)[:-2] + b'no', 'its compressed content is corrupt: Error -3 .*: restore it'),
        (zlib.compress(RECORDS[:-1]), 'once decompressed, the record at byte 33 is corrupt: its length is wrong: restore it'),
    ],
)
def test_damage_is_named_and_leaves_no_file(content, message, tmp_path):
    path = tmp_path / 'a.gz'
    path.write_bytes(content)
    assert re.fullmatch(f'{path}: {message}', failed(compressed.decompress, str(path), str(tmp_path / 'a')))
    assert os.listdir(tmp_path) == ['a.gz']
