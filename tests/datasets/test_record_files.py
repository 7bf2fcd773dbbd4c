"""Tests for the names of users' TFRecord files."""

import os

import pytest

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.own_data.examples.record_files import find_record_files
from tests.shared import raised, refused


def touch(directory, *names):
    for name in names:
        (directory / name).write_bytes(b'')
    return str(directory)


@pytest.mark.parametrize(
    'name, split',
    [
        ('train.tfrecord', 'train'),
        ('eval.tfrecords', 'eval'),
        ('train.tfrec', 'train'),
        ('train.tfr', 'train'),
        ('train.record', 'train'),
        ('TRAIN.TFRECORD', 'train'),
        ('Train.TFRecord', 'train'),
        ('train-00000-of-00001', 'train'),
        ('train-00000-of-00001.tfrecord', 'train'),
        ('train-00000.tfrecord', 'train'),
        ('train.tfrecord-00000-of-00001', 'train'),
        ('train.record-0-of-1', 'train'),
        ('mnist-test.tfrecord', 'test'),
        ('own.fold3.tfrecord', 'fold3'),
        ('train_1.tfrecord', 'train_1'),
        ('train.tfrecord.gz', 'train'),
        ('train-00000-of-00001.ZLIB', 'train'),
    ],
)
def test_the_split_is_in_the_name_of_a_file(name, split, tmp_path):
    assert find_record_files(touch(tmp_path, name)) == {split: [str(tmp_path / name)]}


def test_files_of_a_split_are_in_the_order_of_their_names_and_others_are_left(tmp_path):
    names = ['train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord']
    others = ['.train.tfrecord', 'README.md', 'train-00000-of-00002.parquet', 'train.tfrecord.idx', 'train', 'train-1']
    found = find_record_files(touch(tmp_path, *names, *others))
    assert found == {'train': [str(tmp_path / name) for name in names]}


def test_without_files_the_folders_are_splits(tmp_path):
    folders = ('Train', ['0.tfrec', '1.tfrec']), ('eval', ['a-0-of-1']), ('docs', ['README']), ('train', ['2.tfrec'])
    for folder, names in folders:
        (tmp_path / folder).mkdir()
        touch(tmp_path / folder, *names)
    found = {split: [os.path.basename(path) for path in paths] for split, paths in find_record_files(str(tmp_path)).items()}
    assert found == {'train': ['0.tfrec', '1.tfrec', '2.tfrec'], 'eval': ['a-0-of-1']}
    touch(tmp_path, 'test.tfrecord')
    assert [*find_record_files(str(tmp_path))] == ['test']


@pytest.mark.parametrize(
    'names, error, message',
    [
        (['train-00000-of-00003', 'train-00002-of-00003'], RunError, 'train-00001-of-00003: is missing, but others of the 3'),
        (['a-train.tfrecord-00001-of-00002'], RunError, 'a-train.tfrecord-00000-of-00002: is missing, but others of the 2'),
        (['train-1-of-3.tfrecord', 'train-3-of-3.tfrecord'], RunError, 'train-2-of-3.tfrecord: is missing, but others of'),
        (
            ['train.tfrecord', 'train.tfrecord.gz'],
            UsageError,
            'train.tfrecord: train.tfrecord.gz seems to be a compressed copy',
        ),
        (['a.csv', 'b'], UsageError, 'is no file named train.tfrecord, or train-00000-of-00001; there are: a.csv, b'),
        ([f'{i:02}' for i in range(20)], UsageError, 'there are: 00, 01, 02, 03, 04, 05, 06, 07, 08, 09, ...'),
        ([], UsageError, 'there are: no files'),
    ],
)
def test_missing_and_doubled_files_are_named(names, error, message, tmp_path):
    assert message in raised(error, find_record_files, touch(tmp_path, *names))


def test_the_path_must_be_a_directory(tmp_path):
    directory = touch(tmp_path, 'train.tfrecord')
    assert refused(find_record_files, os.path.join(directory, 'no')).endswith('/no: there is no such directory')
    assert refused(find_record_files, os.path.join(directory, 'train.tfrecord')).endswith('is a file: give its directory')
