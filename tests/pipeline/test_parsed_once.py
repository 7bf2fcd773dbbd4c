"""Records kept in memory are parsed once if the dataset module declares PARSED_ONCE."""

import pathlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.formats import image_records
from estimator_trainer.common.pipeline import input, size
from estimator_trainer.common.pipeline.bad_records import check_records
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.example_seed import example_seed
from estimator_trainer.common.records import records, shards
from tests.pipeline.pipelines import ModeKeys, assert_same, batches, make_params, of_files

COUNT = 1500  # More than fit into one tensor at a time.
SPEC = {'number': tf.io.FixedLenFeature([2], tf.float32), 'label': tf.io.FixedLenFeature([], tf.int64)}


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    path = str(tmp_path_factory.mktemp('records'))
    values = np.random.RandomState(0).normal(size=[COUNT, 2]).astype(np.float32)
    records.write(path, {'train': [{'number': value, 'label': i} for i, value in enumerate(values)]})
    return path


def make_module(function, is_parsed_once=True, change=lambda x: x):
    """Returns a dataset module, and the numbers of records at each call of its parser."""
    sizes = []

    def count(value):
        sizes.append(value.size // 2)
        return value

    def parse(mode, params, record):
        read = tf.io.parse_example if function == 'parse_batch' else tf.io.parse_single_example
        example = read(record, SPEC)
        number = tf.ensure_shape(tf.numpy_function(count, [example['number']], tf.float32), example['number'].shape)
        return {'x': change(tf.exp(number) if function == 'parse' else number / 3)}, {'y': example['label']}

    module = of_files(**{function: parse})
    module.PARSED_ONCE = is_parsed_once
    return module, sizes


@pytest.mark.parametrize('function, shuffle_buffer', [('parse', 300), ('parse_batch', 2000)])
def test_each_record_is_parsed_once_and_the_batches_are_the_same(directory, function, shuffle_buffer):
    options = {'data_dir': directory, 'batch_size': 200, 'shuffle_buffer': shuffle_buffer, 'num_epochs': 3}
    once, sizes = make_module(function)
    found = batches(once, 20, **options)
    assert sum(sizes) == COUNT
    each_time, sizes = make_module(function, is_parsed_once=False)
    assert_same(batches(each_time, 20, **options), found)
    assert sum(sizes) >= 20 * 200
    assert_same(batches(once, 5, start=12, **options), found[12:17])


def test_pictures_stay_bytes_until_their_batch(tmp_path):
    pixels = np.random.RandomState(0).randint(0, 256, [30, 2, 2, 1]).astype(np.uint8)
    records.write(str(tmp_path), {'train': image_records.Examples(pixels, np.arange(30, dtype=np.uint8))})
    fields = ('parse_batch', 'image_features')
    module = of_files(**{name: getattr(image_records, name) for name in fields})
    options = {'data_dir': str(tmp_path), 'num_epochs': 3, 'image_size': 2, 'num_channels': 1, 'num_classes': 30}
    each_time = batches(module, 16, **options)
    module.PARSED_ONCE = True
    assert_same(batches(module, 16, **options), each_time)
    source = DataSource(module, str(tmp_path), make_params(**options))
    with tf.Graph().as_default():
        files = shards.find(source.read('train'), 30)
        assert input.parsed_size(source, files, 1) == 4 + 4  # Pixels, and an int32.
    for features, labels in each_time:
        np.testing.assert_array_equal(features['image'], pixels[labels['label']] / np.float32(255))


def test_pictures_that_stay_bytes_are_converted_once(tmp_path):
    pixels = np.arange(40, dtype=np.uint8).reshape([10, 2, 2, 1])
    records.write(str(tmp_path), {'train': image_records.Examples(pixels, np.arange(10, dtype=np.uint8))})

    def image_features(params, images):
        return {'image': 255 - images}

    def parse_batch(mode, params, serialized):
        features, labels = image_records.parse_batch(mode, params, serialized)
        return image_features(params, features['image']), labels

    module = of_files(parse_batch=parse_batch, image_features=image_features)
    options = {'data_dir': str(tmp_path), 'image_size': 2, 'num_channels': 1, 'num_classes': 10}
    for features, labels in batches(module, 2, **options):
        np.testing.assert_array_equal(features['image'], 255 - pixels[labels['label']])


def test_records_are_parsed_as_they_are_needed_if_keeping_them_parsed_does_not_pay(directory):
    for change, params in (
        (lambda x: tf.tile(x, [1, 100]), {}),  # Larger than the records.
        (lambda x: tf.numpy_function(lambda value: value, [x], tf.float32), {}),  # Of unknown shape.
        (lambda x: tf.as_string(x[:, 0]), {}),
        (lambda x: x, {'cache': False}),
        (lambda x: x, {'train_steps': 150}),  # Each is needed once.
        (lambda x: x, {'num_epochs': 1}),
    ):
        module, sizes = make_module('parse_batch', change=change)
        batches(module, 2, data_dir=directory, **{'batch_size': 10, 'shuffle_buffer': 2000, **params})
        assert 20 <= sum(sizes) < COUNT / 2, params


def test_records_are_kept_if_they_are_small_when_parsed_and_the_tasks_do_not_each_parse_all_of_an_epoch(directory, monkeypatch):
    monkeypatch.setattr(size, 'CACHE_BYTES', sum(path.stat().st_size for path in pathlib.Path(directory).glob('*.tfrecord')))
    params = make_params(shuffle_buffer=2000, num_epochs=3)
    sources = [DataSource(make_module('parse', is_parsed_once)[0], directory, params) for is_parsed_once in (False, True)]
    assert [size.fits_cache(source, COUNT) for source in sources] == [False, True]
    with tf.Graph().as_default():
        files = shards.find(sources[1].read('train'), COUNT)
    sizes = [input.parsed_size(sources[1], files, num_tasks) for num_tasks in (1, 2, 3, 4)]
    assert sizes == [16, 16, 0, 0]  # Two float32, and an int64.


def test_a_parser_that_does_not_give_one_example_for_each_record_or_draws_for_each_is_refused(directory):
    module = of_files(parse_batch=lambda mode, params, records: (tf.io.parse_example(records[::2], SPEC), {}))
    module.PARSED_ONCE = True
    with pytest.raises(tf.errors.OpError) as error:
        batches(module, 1, data_dir=directory, shuffle_buffer=2000)
    with pytest.raises(RunError, match='^--dataset=numbers: .*must return one example per record'):
        check_records(DataSource(module, directory, make_params()), [(ModeKeys.TRAIN, 'train')], error.value)
    module, _ = make_module('parse_batch', change=lambda x: x + tf.random.stateless_uniform([], example_seed()))
    with pytest.raises(UsageError, match='not with PARSED_ONCE'):
        batches(module, 1, data_dir=directory)
