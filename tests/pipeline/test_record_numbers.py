"""The numbers of the records of training steps, compared with the batches that the pipeline feeds."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline import input
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.record_numbers import record_numbers
from estimator_trainer.common.pipeline.share import WHOLE, Share
from estimator_trainer.common.pipeline.size import count_examples
from estimator_trainer.common.records import records, tfrecord
from tests.pipeline.pipelines import INFINITE, UNKNOWN, make_params, numbers, of_files

COUNT = 50
CLASSES = np.arange(COUNT) // 5 % 7 % 3
STEPS = 27  # Of 4: more than two epochs.


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    path = str(tmp_path_factory.mktemp('data'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfrecord, 'INDEXED_BYTES', 150)  # Blocks of two or three records.
        records.write(path, {'train': [{'id': i, 'padding': bytes(i % 5)} for i in range(COUNT)]}, num_shards=3)
    return path


def both(module, first=0, last=STEPS, directory='', is_kept=True, share=WHOLE, count=None, batch_start=(0, 0), **changes):
    """Returns what the pipeline feeds of each batch, its feature x, and the numbers computed for the same steps."""
    source = DataSource(module, directory, make_params(**changes).with_batch_start(batch_start))
    count, is_part = count or count_examples(source, 'train'), count is not None
    labels = CLASSES[:count] if source.params.oversample else None
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = input.make_input_fn(source, tf.estimator.ModeKeys.TRAIN, 'train', count, is_kept, is_part, share, labels)()
        iterator = tf.data.make_initializable_iterator(dataset)
        features, _ = iterator.get_next()
        session.run(tf.assign(tf.train.get_or_create_global_step(), first))
        session.run(iterator.initializer)
        fed = [session.run(features['x']).tolist() for _ in range(first, last)]
    found = record_numbers(source, first, last, count, is_kept, share, labels)
    return fed, [batch for some in found for batch in some.tolist()]


def parse_one(mode, params, record):
    return {'x': tf.io.parse_single_example(record, {'id': tf.io.FixedLenFeature([], tf.int64)})['id']}, {}


@pytest.mark.parametrize(
    'changes',
    [
        {},
        {'is_kept': False},
        {'shuffle_buffer': 7},
        {'shuffle_buffer': 7, 'is_kept': False},
        {'shuffle_buffer': 7, 'batch_size': 9, 'last': 120},  # More steps than are computed at a time.
        {'shuffle_buffer': 7, 'batch_size': 60, 'first': 2, 'last': 5},  # More than an epoch.
        {'shuffle_buffer': 7, 'first': 11, 'seed': 5},
        {'shuffle_buffer': 7, 'first': 11, 'batch_start': (10, 35)},
        {'shuffle_buffer': 20, 'oversample': True},
        {'oversample': True, 'first': 5},
        {'shuffle_buffer': 7, 'folds': 3, 'fold': 2},
        {'count': 30, 'shuffle_buffer': 7},  # As by --overfit_batches.
        *({'shuffle_buffer': 7, 'batch_size': size, 'share': Share(i, 3)} for size in (6, 7) for i in range(3)),
        {'batch_size': 7, 'first': 4, 'share': Share(1, 3), 'shuffle_buffer': 99},
        {'share': Share(1, 2, has_whole_batches=True)},
    ],
    ids=str,
)
def test_records_of_files_have_the_numbers_that_the_pipeline_feeds(directory, changes):
    fed, found = both(of_files(), directory=directory, **changes)
    if changes.get('folds'):
        kept = [number for number in range(COUNT) if number % 3 != 1]
        found = [[kept[number] for number in batch] for batch in found]
    assert found == fed


@pytest.mark.parametrize('is_kept', [True, False])
@pytest.mark.parametrize('kind', ['parse', 'parse_batch'])
def test_records_parsed_once_or_one_by_one_have_the_numbers_that_the_pipeline_feeds(directory, kind, is_kept):
    module = of_files(parse=parse_one) if kind == 'parse' else of_files()
    module.PARSED_ONCE = True
    fed, found = both(module, directory=directory, shuffle_buffer=7, is_kept=is_kept)
    assert found == fed


@pytest.mark.parametrize('count', [COUNT, UNKNOWN, INFINITE])
@pytest.mark.parametrize(
    'changes', [{}, {'is_kept': False}, {'shuffle_buffer': 7}, {'first': 5, 'share': Share(1, 3)}], ids=str
)
def test_records_of_other_sources_have_the_numbers_that_the_pipeline_feeds(count, changes):
    last = {UNKNOWN: 12, INFINITE: STEPS}.get(count, STEPS)
    for functions in ({}, {'parse_batch': lambda mode, params, record: ({'x': record}, {})}):
        fed, found = both(numbers(count, **functions), last=last, **changes)
        assert found == fed


def test_records_of_a_set_larger_than_what_training_counts_have_the_numbers_that_the_pipeline_feeds():
    fed, found = both(numbers(20), last=4, count=UNKNOWN, shuffle_buffer=5)
    assert found == fed == both(numbers(20), last=4, shuffle_buffer=5)[0]


@pytest.mark.parametrize('changes', [{'first': 0, 'last': 60}, {'first': 55, 'last': 58, 'share': Share(1, 3)}], ids=str)
@pytest.mark.parametrize('is_of_files', [True, False])
def test_records_grouped_by_length_have_the_numbers_that_the_pipeline_feeds(directory, changes, is_of_files):
    def lengthened(number):
        return {'x': tf.fill([1 + number * 7 % 11], number)}, {}

    if is_of_files:
        module = of_files(parse=lambda mode, params, record: lengthened(parse_one(mode, params, record)[0]['x']))
    else:
        module = numbers(COUNT, parse=lambda mode, params, record: lengthened(record))
    fed, found = both(module, directory=directory, group_by_length=True, shuffle_buffer=7, **changes)
    assert found == [[example[0] for example in batch] for batch in fed]
    assert found != both(module, directory=directory, shuffle_buffer=7, **changes)[1]
