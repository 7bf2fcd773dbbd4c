"""The shares of the tasks of a cluster: together they are each batch of one process, whatever way the data is read."""

import types

import pytest
import tensorflow.compat.v1 as tf

from common.data import input_pipeline, records, tfrecord
from common.data.example_seed import example_seed
from common.data.share import WHOLE, Share
from common.data.source import DataSource
from hparams.build import HParams
from hparams.defaults import DEFAULTS

pytestmark = pytest.mark.slow

COUNT = 50
TRAIN = tf.estimator.ModeKeys.TRAIN
BATCH = 6


def from_files(directory):
    return records.read(directory, 'train')


def from_memory(directory):
    return tf.data.Dataset.from_tensor_slices({'id': tf.range(COUNT, dtype=tf.int64)})


def mapped(directory):
    """A dataset of files that is no longer known as such."""
    return from_files(directory).map(lambda record: record)


def of_unknown_size(directory):
    return from_memory(directory).repeat(20).filter(lambda record: record['id'] < COUNT)


def shuffled_by_module(directory):
    return from_memory(directory).shuffle(9, seed=3, reshuffle_each_iteration=False)


def infinite(directory):
    return from_memory(directory).repeat()


def ids_of(record, parse_example):
    return (
        record['id'] if isinstance(record, dict) else parse_example(record, {'id': tf.io.FixedLenFeature([], tf.int64)})['id']
    )


def parse(mode, params, record):
    number = ids_of(record, tf.io.parse_single_example)
    noise = tf.random.stateless_uniform([], example_seed())
    return {'x': tf.fill([number * 7 % 5 + 1], number)}, {'id': number, 'noise': noise}


def parse_fixed(mode, params, record):
    number = ids_of(record, tf.io.parse_single_example)
    return {'x': number}, {'id': number, 'noise': tf.random.stateless_uniform([], example_seed())}


def parse_batch(mode, params, serialized):
    numbers = ids_of(serialized, tf.io.parse_example)
    return {'x': numbers}, {'id': numbers}


def noisy_batch(mode, params, serialized):
    numbers = ids_of(serialized, tf.io.parse_example)
    return {'x': numbers}, {'noise': tf.random.stateless_uniform(tf.shape(numbers), example_seed())}


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    """Three TFRecord files, with an index that has an entry for two or three records."""
    path = str(tmp_path_factory.mktemp('data'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfrecord, 'INDEXED_BYTES', 150)
        records.write(path, {'train': [{'id': i, 'padding': bytes(i % 5)} for i in range(COUNT)]}, num_shards=3)
    return path


def labels_of(directory, read, shares, steps, start, count=COUNT, cache=False, is_part=False, parser=parse_batch, **changes):
    """Returns the labels of some batches from a step on, as lists, for each share."""
    name = 'parse_batch' if parser in (parse_batch, noisy_batch) else 'parse'
    module = types.SimpleNamespace(read=lambda split, data_dir, params: read(data_dir), **{name: parser})
    params = HParams(
        {**DEFAULTS, 'dataset': 'd', 'seed': 1, 'batch_size': BATCH, 'cache': cache, 'shuffle_buffer': 20, **changes}
    )
    with tf.Graph().as_default(), tf.Session() as session:
        source = DataSource(module, directory, params)
        iterators = []
        for share in shares:
            tf.set_random_seed(1 + share.index)  # As the tasks of a cluster do.
            batches = input_pipeline.make_input_fn(source, TRAIN, 'train', count, cache, is_part, share)()
            iterators.append(tf.data.make_initializable_iterator(batches))
        elements = [iterator.get_next() for iterator in iterators]
        session.run(tf.assign(tf.train.get_or_create_global_step(), start))
        session.run([iterator.initializer for iterator in iterators])
        batches = [session.run(elements) for _ in range(steps)]
    for i, share in enumerate(shares):
        assert all(batch[i][0]['x'].shape[0] == BATCH // share.batch_parts for batch in batches)
    return [[{key: values.tolist() for key, values in batch[i][1].items()} for batch in batches] for i in range(len(shares))]


@pytest.mark.parametrize(
    'read, changes',
    [
        (from_memory, {'cache': True, 'shuffle_buffer': 100}),
        (from_memory, {'cache': True, 'shuffle_buffer': 100, 'parser': parse_fixed}),
        (from_memory, {'cache': False, 'parser': parse}),
        (from_files, {'cache': True}),
        (from_files, {'cache': False}),
        (from_files, {'cache': True, 'shuffle_buffer': 100}),
        (from_files, {'cache': False, 'shuffle_buffer': 100, 'parser': parse}),
        (from_files, {'cache': False, 'shuffle_buffer': 7, 'parser': parse}),
        (from_files, {'cache': True, 'shuffle_buffer': 7, 'parser': parse}),
        (from_files, {'cache': False, 'count': 20, 'is_part': True}),
        (from_files, {'cache': False, 'parser': parse, 'group_by_length': True}),
        (mapped, {'cache': False}),
        (shuffled_by_module, {'cache': True, 'shuffle_buffer': 100}),
        (mapped, {'cache': False, 'parser': parse}),
        (mapped, {'cache': False, 'parser': parse, 'group_by_length': True}),
        (of_unknown_size, {'count': tf.data.experimental.UNKNOWN_CARDINALITY}),
        (infinite, {'count': tf.data.experimental.INFINITE_CARDINALITY}),
    ],
    ids=lambda value: value.__name__ if callable(value) else '-'.join(value),
)
def test_the_shares_are_together_the_batches_of_one_process(directory, read, changes):
    steps, start = 12, 5  # An epoch has 8 1/3 batches.
    whole, *halves = labels_of(directory, read, [WHOLE, Share(0, 2), Share(1, 2)], steps, 0, **changes)
    thirds = labels_of(directory, read, [Share(i, 3) for i in range(3)], steps - start, start, **changes)
    assert len({number for labels in whole for number in labels['id']}) > 15
    for shares, expected in ((halves, whole), (thirds, whole[start:])):
        for i, found in enumerate(shares):
            # Random numbers, too: those of parse() belong to the example's position in the training.
            assert found == [{key: values[i :: len(shares)] for key, values in labels.items()} for labels in expected]


@pytest.mark.parametrize(
    'read, changes',
    [
        (from_memory, {'cache': True, 'shuffle_buffer': 100}),
        (from_files, {'cache': True}),
        (from_files, {'cache': False}),
        (from_files, {'cache': False, 'shuffle_buffer': 100, 'parser': parse}),
        (mapped, {'cache': False, 'parser': parse}),
        (infinite, {'count': tf.data.experimental.INFINITE_CARDINALITY}),
    ],
    ids=lambda value: value.__name__ if callable(value) else '-'.join(value),
)
def test_shares_of_whole_batches_take_turns_with_the_examples(directory, read, changes):
    shares = [Share(i, 2, has_whole_batches=True) for i in range(2)]
    whole, *halves = labels_of(directory, read, [WHOLE, *shares], 12, 0, **changes)
    for i, found in enumerate(halves):
        for j, labels in enumerate(found[:6]):
            expected = {key: [*whole[2 * j][key], *whole[2 * j + 1][key]][i::2] for key in labels}
            assert labels == expected


def test_random_numbers_of_parse_batch_differ_between_the_shares(directory):
    found = labels_of(directory, from_files, [Share(0, 2), Share(1, 2)], 3, 0, parser=noisy_batch)
    assert len({number for share in found for labels in share for number in labels['noise']}) == 3 * BATCH
