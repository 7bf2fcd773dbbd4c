"""datasets/tfrecord.py: which files are read, their verification, and what is read from them."""

import gzip
import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import manifest, records
from common.errors import RunError, UsageError
from datasets import tfrecord
from tests.datasets.own_data import Prepared, mixed


def write(path, examples):
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            writer.write(example if isinstance(example, bytes) else records.encode(example))
    return path


def labeled(count):
    return [{'x': float(i), 'label': i % 2} for i in range(count)]


@pytest.fixture
def directory(tmp_path):
    for i in range(2):
        write(tmp_path / 'own' / f'train-0000{i}-of-00002.tfrecord', map(mixed, range(20 * i, 20 * i + 20)))
    write(tmp_path / 'own' / 'eval.tfrecord', map(mixed, range(5)))
    return tmp_path / 'own'


@pytest.fixture
def prepared(tmp_path):
    return lambda *hparams, path=tmp_path / 'own': Prepared(tfrecord, tmp_path / 'data', f'tfrecord_dir={path}', *hparams)


def test_all_files_of_a_split_are_verified_and_read_in_order(directory, prepared):
    found = prepared()
    examples = found.read('train')
    assert [labels['label'] for _, labels in examples] == [i % 3 for i in range(40)]
    assert [round(features['image'][0, 0, 0] * 255) for features, _ in examples] == list(range(40))
    with pytest.raises(UsageError, match='/own: there is no split test: the splits are: eval, train: name one with --eval'):
        found.read('test')
    assert found.source.is_parsed_once() and not found.source.has_images()
    assert len(os.listdir(directory)) == 3  # Nothing is written beside the files.
    path = directory / 'train-00001-of-00002.tfrecord'
    content = path.read_bytes()
    for damaged, message in (
        (content[:40] + b'\xff' + content[41:], 'the record at byte 0 is corrupt: .*: restore it'),
        (gzip.compress(content), 'is compressed with GZIP: decompress it, with gunzip'),
    ):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=f'{path}: .*{message}'):
            prepared()


def test_the_split_is_in_the_file_name(tmp_path, prepared):
    for name in (
        *('train.tfrecord', '.hidden.tfrecord', 'README.md', 'eval-3.tfrecords', 'mnist-test.tfrecord-00000-of-00001'),
        *('own.fold3-1-of-2.tfrecord', 'own.fold3-2-of-2.tfrecord'),  # They may be counted from 1.
    ):
        write(tmp_path / 'own' / name, labeled(4))
    found = prepared().source
    counts = {split: found.read(split).cardinality().numpy() for split in ('train', 'eval', 'test', 'fold3')}
    assert counts == {'train': 4, 'eval': 4, 'test': 4, 'fold3': 8}


def test_files_that_are_missing_or_compressed_are_named(tmp_path, prepared):
    for names, error, message in (
        (['train-00000-of-00003.tfrecord', 'train-00002-of-00003.tfrecord'], RunError, '/own/train-00001-of-00003.tfrecord: '),
        (['own-train.tfrecord-00001-of-00002'], RunError, '/own/own-train.tfrecord-00000-of-00002: is missing, but others of'),
        (['train-1-of-3.tfrecord', 'train-3-of-3.tfrecord'], RunError, '/own/train-2-of-3.tfrecord: is missing, but others of'),
        (['train.tfrecord.gz'], UsageError, '/own/train.tfrecord.gz: is compressed: decompress it'),
        (['a.csv'], UsageError, 'tfrecord_dir=.*/own: there is no file named train.tfrecord, or train-.*.tfrecord'),
        ([], UsageError, 'tfrecord_dir=.*/own: there is no such directory'),
    ):
        shutil.rmtree(tmp_path / 'own', ignore_errors=True)
        for name in names:
            write(tmp_path / 'own' / name, labeled(4))
        with pytest.raises(error, match=message):
            prepared()
    with pytest.raises(UsageError, match='tfrecord_dir=PATH is required'):
        prepared(path='')
    with pytest.raises(UsageError, match='tokens=letters must be words or bytes'):
        prepared('tokens=letters')


def test_files_that_the_framework_wrote_are_verified_by_their_manifest(tmp_path, prepared):
    records.write(str(tmp_path / 'own'), {'train': labeled(8), 'eval': labeled(8)})
    found = prepared()
    assert len(found.read('train')) == 8
    write(tmp_path / 'own' / 'eval-00000-of-00004.tfrecord', labeled(8))
    with pytest.raises(RunError, match='2 records were written, but the file has 8'):
        found.read('eval')


def test_a_record_that_differs_from_the_others_is_named(tmp_path, prepared):
    other = write(tmp_path / 'other' / 'train.tfrecord', [{'label': 0}])
    manifest.check_alone(str(other))
    other.unlink()  # The search goes on to the next file.
    path = write(tmp_path / 'own' / 'train.tfrecord', [*labeled(2), b'no example'])
    with pytest.raises(RunError, match=f'{path}: record 2, at byte .* is not a tf.train.Example'):
        prepared()
    write(path, [*labeled(1000), {'x': [1.0, 2.0], 'label': 0}])  # After the sample.
    with pytest.raises(RunError, match=f'{path}: record 1000, at byte .*Key: x'):
        prepared()


def test_input_is_read_by_the_metadata_alone(directory, tmp_path, prepared):
    found = prepared()
    expected = [features for features, _ in found.read('eval')]
    path = write(tmp_path / 'input.tfrecord', [*map(mixed, range(5)), {'x': 1.0}, b'no example'])
    shutil.rmtree(directory)
    shutil.rmtree(tmp_path / 'data')
    features, errors = found.predict(path)
    wrong = {5: 'has no feature photo, review', 6: 'is not a tf.train.Example'}
    assert errors == {number: f'{path}: record {number}: {text}' for number, text in wrong.items()}
    np.testing.assert_equal(features, expected)
