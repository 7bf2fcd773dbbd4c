"""TFRecord files and their manifest."""

import concurrent.futures
import hashlib
import json
import os
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common import records
from common.errors import RunError


class Lazy:
    """A sequence that makes its items as they are asked for."""

    def __init__(self, count, example_at):
        self._count, self._example_at = count, example_at

    def __len__(self):
        return self._count

    def __getitem__(self, i):
        return self._example_at(i)


def values(dataset):
    with tf.Graph().as_default(), tf.Session() as session:
        element = tf.data.make_one_shot_iterator(dataset()).get_next()
        found = []
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


def read_ids(directory, split='train'):
    examples = [tf.train.Example.FromString(record) for record in values(lambda: records.read(directory, split))]
    return [example.features.feature['id'].int64_list.value[0] for example in examples]


def write(directory, count=10, **others):
    records.write(directory, {'train': [{'id': i} for i in range(count)], **others})


def test_encode_gives_what_parse_example_reads(session):
    array = np.array([[1.5, 2], [3, 4]])
    serialized = records.encode({'bytes': b'\0\xff', 'text': 'ä', 'int': -3, 'float': 0.5, 'flag': True,
                                 'array': array, 'ints': np.uint8([1, 255]), 'empty': np.zeros([0])})
    parsed = session.run(tf.io.parse_single_example(serialized, {
        'bytes': tf.io.FixedLenFeature([], tf.string), 'text': tf.io.FixedLenFeature([], tf.string),
        'int': tf.io.FixedLenFeature([], tf.int64), 'float': tf.io.FixedLenFeature([], tf.float32),
        'flag': tf.io.FixedLenFeature([], tf.int64), 'array': tf.io.FixedLenFeature([2, 2], tf.float32),
        'ints': tf.io.FixedLenFeature([2], tf.int64), 'empty': tf.io.FixedLenFeature([0], tf.float32)}))
    assert (parsed['bytes'], parsed['text'].decode(), parsed['int'], parsed['float'], parsed['flag']) == (
        b'\0\xff', 'ä', -3, 0.5, 1)
    np.testing.assert_array_equal(parsed['array'], array)
    assert list(parsed['ints']) == [1, 255]
    assert parsed['empty'].size == 0


def test_encode_refuses_what_an_example_cannot_hold():
    with pytest.raises(TypeError, match='when: cannot store complex'):
        records.encode({'when': 1j})


@pytest.mark.parametrize('count', [0, 1, 4, 10, 11])
def test_read_gives_what_was_written_in_order(tmp_path, count):
    write(str(tmp_path), count)
    assert read_ids(str(tmp_path)) == list(range(count))
    assert records.read(str(tmp_path), 'train').cardinality() == count


def test_files_are_named_and_described_by_the_manifest(tmp_path):
    write(str(tmp_path), 10, eval=[{'id': 100}, {'id': 101}, {'id': 102}])
    manifest = json.loads((tmp_path / 'manifest.json').read_text())['splits']
    assert manifest['train']['count'] == 10 and manifest['eval']['count'] == 3
    assert [file['name'] for file in manifest['train']['files']] == [
        f'train-0000{i}-of-00004.tfrecord' for i in range(4)]
    assert [file['count'] for file in manifest['train']['files']] == [3, 3, 2, 2]
    for split in manifest.values():
        for file in split['files']:
            content = (tmp_path / file['name']).read_bytes()
            assert file['bytes'] == len(content)
            assert file['sha256'] == hashlib.sha256(content).hexdigest()
    assert len(list(tmp_path.iterdir())) == 9
    assert read_ids(str(tmp_path), 'eval') == [100, 101, 102]


def test_shards_are_written_at_the_same_time(tmp_path):
    both = threading.Barrier(2, timeout=30)

    def example_at(i):
        both.wait()  # Would time out if one shard waited for the other.
        return {'id': i}

    records.write(str(tmp_path), {'train': Lazy(2, example_at)}, num_shards=2)
    assert read_ids(str(tmp_path)) == [0, 1]


def test_a_writer_that_fails_is_heard_and_leaves_nothing_that_counts(tmp_path):
    def example_at(i):
        if i == 7:
            raise ValueError('example 7 is bad')
        return {'id': i}

    with pytest.raises(ValueError, match='example 7 is bad'):
        records.write(str(tmp_path), {'train': Lazy(10, example_at)})
    assert not records.is_written(str(tmp_path))
    assert not list(tmp_path.glob('*.part'))
    write(str(tmp_path))
    assert records.is_written(str(tmp_path))
    assert read_ids(str(tmp_path)) == list(range(10))


def test_an_error_does_not_wait_for_the_other_writers(tmp_path):
    def example_at(i):
        if i == 1:
            raise KeyboardInterrupt
        time.sleep(0.01)
        return {'id': i}

    started = time.time()
    with pytest.raises(KeyboardInterrupt):
        records.write(str(tmp_path), {'train': Lazy(100000, example_at)})
    assert time.time() - started < 30  # Without the stop, 250 seconds.


def test_two_writers_at_once_leave_the_data_whole(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: write(str(tmp_path), 1000), range(4)))
    assert read_ids(str(tmp_path)) == list(range(1000))
    assert len(list(tmp_path.iterdir())) == 5


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(RunError, match=f'{tmp_path}/file/mnist: cannot be written.*--data_dir'):
        write(str(tmp_path / 'file' / 'mnist'))


def damage_missing(path):
    os.remove(path)


def damage_short(path):
    os.truncate(path, os.path.getsize(path) - 1)


@pytest.mark.parametrize('damage, found', [(damage_missing, 'missing'), (damage_short, r'\d+')])
def test_a_file_that_is_not_as_written_is_named(tmp_path, damage, found):
    write(str(tmp_path))
    damage(tmp_path / 'train-00002-of-00004.tfrecord')
    with pytest.raises(RunError, match=rf'train-00002-of-00004.tfrecord: \d+ bytes were written, now it is {found}: delete'):
        records.read(str(tmp_path), 'train')


@pytest.mark.parametrize('manifest', ['', '{', '[]', '{}', '{"splits": {"train": 1}}', '{"splits": {}}'])
def test_a_manifest_that_says_nothing_is_named(tmp_path, manifest):
    (tmp_path / 'manifest.json').write_text(manifest)
    with pytest.raises(RunError, match='manifest.json: .*delete'):
        records.read(str(tmp_path), 'train')
