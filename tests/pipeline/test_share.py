"""The shares of a cluster's tasks: together they equal each batch of one process, however the data is read."""

import itertools
import types

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline.example_seed import example_seed
from estimator_trainer.common.pipeline.share import WHOLE, Share
from estimator_trainer.common.records import records, tfrecord
from tests.pipeline.pipelines import INFINITE, UNKNOWN, batches

COUNT, BATCH = 50, 6


def files(directory):
    return records.read(directory, 'train')


def memory(directory):
    return tf.data.Dataset.from_tensor_slices({'id': tf.range(COUNT, dtype=tf.int64)})


READS = {
    'files': files,
    'memory': memory,
    'mapped': lambda directory: files(directory).map(lambda record: record),  # No longer known as files.
    'of unknown size': lambda directory: memory(directory).repeat(20).filter(lambda record: record['id'] < COUNT),
    'infinite': lambda directory: memory(directory).repeat(),
}


def ids_of(record, parse_example):
    if isinstance(record, dict):
        return record['id']
    return parse_example(record, {'id': tf.io.FixedLenFeature([], tf.int64)})['id']


def parse(mode, params, record):
    number = ids_of(record, tf.io.parse_single_example)
    noise = tf.random.stateless_uniform([], example_seed())
    return {'x': tf.fill([number * 7 % 5 + 1], number)}, {'id': number, 'noise': noise}


def parse_batch(mode, params, serialized):
    numbers = ids_of(serialized, tf.io.parse_example)
    return {'x': numbers, 'noise': tf.random.stateless_uniform(tf.shape(numbers), example_seed())}, {'id': numbers}


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    """Three TFRecord files, with an index that has an entry for two or three records."""
    path = str(tmp_path_factory.mktemp('data'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfrecord, 'INDEXED_BYTES', 150)
        records.write(path, {'train': [{'id': i, 'padding': bytes(i % 5)} for i in range(COUNT)]}, num_shards=3)
    return path


def train(directory, read, share, steps, start=0, parser=parse_batch, cache=False, **options):
    read_records = READS[read]
    module = types.SimpleNamespace(read=lambda split, data_dir, params: read_records(data_dir), **{parser.__name__: parser})
    options = {'count': COUNT, 'shuffle_buffer': 20, 'data_dir': directory, 'cache': cache, **options}
    found = batches(module, steps, start=start, share=share, batch_size=BATCH, **options)
    assert all(len(features['x']) == share.size(BATCH) for features, _ in found)
    return found


def labels_of(*args, **options):
    return [{key: values.tolist() for key, values in labels.items()} for _, labels in train(*args, **options)]


ROWS = [  # Ways of reading records, and the options.
    ('memory', {'cache': True, 'shuffle_buffer': 100}),
    ('files', {'shuffle_buffer': 100, 'parser': parse}),
    ('infinite', {'count': INFINITE}),
    ('memory', {'cache': True, 'shuffle_buffer': 100, 'parser': parse}),
    ('memory', {'parser': parse, 'group_by_length': True}),
    ('files', {'cache': True}),
    ('files', {'cache': True, 'shuffle_buffer': 100}),
    ('files', {'shuffle_buffer': 7, 'parser': parse}),
    ('files', {'count': 20, 'is_part': True}),
    ('mapped', {'parser': parse}),
    ('of unknown size', {'count': UNKNOWN}),
]


@pytest.mark.parametrize('read, options', ROWS[1:])
def test_each_share_is_its_slice_of_the_batches_of_one_process(directory, read, options):
    steps, start = 12, 5  # An epoch has 8 1/3 batches.
    whole = labels_of(directory, read, WHOLE, steps, **options)
    assert len({number for labels in whole for number in labels['id']}) > 15
    for i, count in ((0, 2), (2, 3), (1, 4), (2, 4)):
        found = labels_of(directory, read, Share(i, count), steps - start, start, **options)
        # Random numbers, too: those of parse() belong to the example's position in training.
        assert found == [{key: values[i::count] for key, values in labels.items()} for labels in whole[start:]]


@pytest.mark.parametrize('read, options', ROWS[:3])
def test_shares_of_whole_batches_take_turns_with_the_examples(directory, read, options):
    whole = labels_of(directory, read, WHOLE, 12, **options)
    for i in range(2):
        found = labels_of(directory, read, Share(i, 2, has_whole_batches=True), 6, **options)
        for labels, first, second in zip(found, whole[::2], whole[1::2], strict=True):
            assert labels == {key: [*first[key], *second[key]][i::2] for key in labels}


def test_random_numbers_of_parse_batch_differ_between_the_shares(directory):
    found = itertools.chain(*(train(directory, 'memory', Share(i, 2), 3) for i in range(2)))
    assert len({number for features, _ in found for number in features['noise']}) == 3 * BATCH
