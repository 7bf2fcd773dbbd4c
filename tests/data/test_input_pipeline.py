"""The order of the data, and how modules are fed."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import input_pipeline
from common.data.size import count_examples
from common.data.source import DataSource
from common.errors import RunError, UsageError
from hparams.build import HParams
from hparams.defaults import DEFAULTS

ModeKeys = tf.estimator.ModeKeys


def numbers(count, **parse):
    """A dataset module of the numbers 0 to count - 1; `count` may be None, not known, or inf."""

    def read(split, data_dir, params):
        if count == float('inf'):
            return tf.data.Dataset.range(2**40).repeat()
        if count is None:
            return tf.data.Dataset.range(20).filter(lambda i: i < 10)
        return tf.data.Dataset.range(count)

    default = {'parse': lambda mode, params, record: ({'x': record}, {'y': -record})}
    return types.SimpleNamespace(read=read, **(parse or default))


def make_params(**changes):
    return HParams(
        {
            **DEFAULTS,
            'dataset': 'numbers',
            'seed': 1,
            'batch_size': 4,
            'eval_batch_size': 4,
            'shuffle_buffer': 100,
            'cache': True,
            **changes,
        }
    )


def batches(dataset, steps, mode=ModeKeys.TRAIN, start=0, split='train', **changes):
    """Returns the batches, from a fresh graph and process state, as after a restore at global step `start`."""
    params = make_params(**changes)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)  # The order is to follow from params.seed alone.
        count = count_examples(DataSource(dataset, '', params), split)
        iterator = tf.data.make_initializable_iterator(
            input_pipeline.make_input_fn(DataSource(dataset, '', params), mode, split, count, params.cache)()
        )
        element = iterator.get_next()
        session.run([tf.assign(tf.train.get_or_create_global_step(), start), tf.tables_initializer()])
        session.run(iterator.initializer)
        found = []
        while steps is None or len(found) < steps:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                break
        return found


def ids(*args, **kwargs):
    return [list(features['x']) for features, _ in batches(*args, **kwargs)]


def test_each_epoch_has_every_example_once_in_an_order_of_its_own():
    flat = np.concatenate(ids(numbers(12), 9))
    epochs = [list(flat[i : i + 12]) for i in (0, 12, 24)]
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert epochs[0] != list(range(12)) and epochs[0] != epochs[1] != epochs[2]


def test_batches_run_over_the_end_of_an_epoch():
    flat = np.concatenate(ids(numbers(10), 5))
    assert sorted(flat[:10]) == sorted(flat[10:]) == list(range(10))


def test_a_training_that_resumes_sees_what_it_would_have_seen():
    whole = ids(numbers(10), 30)
    for start in (1, 2, 3, 5, 17, 29):
        assert ids(numbers(10), 30 - start, start=start) == whole[start:]


@pytest.mark.parametrize('changes', [{'cache': False}, {'shuffle_buffer': 3}])
def test_that_holds_without_cache_and_with_a_small_buffer(changes):
    whole = ids(numbers(10), 12, **changes)
    assert ids(numbers(10), 5, start=7, **changes) == whole[7:]


def test_the_seed_decides_the_order():
    assert ids(numbers(100), 20) == ids(numbers(100), 20)
    assert ids(numbers(100), 20) != ids(numbers(100), 20, seed=2)


@pytest.mark.parametrize('changes', [{'cache': False}, {'cache': True}, {'cache': False, 'shuffle_buffer': 100}])
def test_a_stream_has_an_order_of_its_own_in_each_epoch_and_with_each_seed(changes):
    orders = []
    for seed in (1, 2, 1):
        flat = np.concatenate(ids(numbers(40), 30, seed=seed, **{'shuffle_buffer': 20, **changes}))
        orders += [list(flat[i : i + 40]) for i in (0, 40, 80)]
    assert all(sorted(order) == list(range(40)) for order in orders)
    assert orders[:3] == orders[6:]
    assert len({tuple(order) for order in orders}) == 6


def test_orders_of_epochs_and_seeds_are_not_alike():
    count = 10000
    flat = np.concatenate(ids(numbers(count), 5, batch_size=count, shuffle_buffer=count))
    orders = [np.argsort(flat[i * count : (i + 1) * count]) for i in range(5)]
    orders.append(np.argsort(ids(numbers(count), 1, batch_size=count, shuffle_buffer=count, seed=2)[0]))
    correlation = np.corrcoef([np.arange(count)] + orders)
    assert np.abs(correlation - np.eye(7)).max() < 0.05  # The standard deviation by chance is 0.01.


def test_the_buffer_bounds_how_far_an_example_moves_ahead():
    first = np.concatenate(ids(numbers(100), 25, shuffle_buffer=5))
    assert all(value <= position + 4 for position, value in enumerate(first))


def test_evaluation_passes_once_in_order_and_keeps_the_rest():
    assert ids(numbers(10), None, ModeKeys.EVAL) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_prediction_gets_features_alone():
    (first,) = batches(numbers(3), None, ModeKeys.PREDICT)
    assert list(first['x']) == [0, 1, 2]


@pytest.mark.parametrize('changes', [{}, {'cache': False}])
@pytest.mark.parametrize('parse', ['parse', 'parse_batch'])
def test_training_batches_have_a_static_size(parse, changes):
    module = numbers(10, **{parse: lambda mode, params, record: ({'x': record}, {'y': -record})})
    dataset = input_pipeline.make_input_fn(DataSource(module, '', make_params(**changes)), ModeKeys.TRAIN, 'train', 10)
    with tf.Graph().as_default():
        assert dataset().element_spec[0]['x'].shape == [4]


def test_parse_batch_is_called_with_whole_batches():
    def parse_batch(mode, params, records):
        assert records.shape.rank == 1
        return {'x': records * 10}, {'y': records}

    assert ids(numbers(6, parse_batch=parse_batch), None, ModeKeys.EVAL) == [[0, 10, 20, 30], [40, 50]]


@pytest.mark.parametrize('record', [lambda i: (i, 2 * i), lambda i: {'a': i, 'b': 2 * i}])
def test_records_may_be_tuples_or_dicts(record):
    def parse(mode, params, record):
        x, y = record if isinstance(record, tuple) else (record['a'], record['b'])
        return {'x': x}, {'y': y}

    dataset = types.SimpleNamespace(read=lambda *_: tf.data.Dataset.range(4).map(record), parse=parse)
    ((features, labels),) = batches(dataset, None, ModeKeys.EVAL)
    assert list(features['x']) == [0, 1, 2, 3] and list(labels['y']) == [0, 2, 4, 6]


def test_a_dataset_that_does_not_know_its_size_is_counted():
    with tf.Graph().as_default():
        assert count_examples(DataSource(numbers(None), '', make_params()), 'train') == 10
    flat = np.concatenate(ids(numbers(None), 5))
    assert sorted(flat[:10]) == list(range(10))


def test_an_endless_dataset_resumes_where_it_stopped():
    whole = np.concatenate(ids(numbers(float('inf')), 20))
    rest = np.concatenate(ids(numbers(float('inf')), 10, start=10))
    assert list(rest) == list(whole[40:]) == list(range(40, 80))


def test_a_split_that_is_not_there_is_reported_from_a_datasets_own_mistake():
    dataset = types.SimpleNamespace(read=lambda split, data_dir, params: {'train': 1}[split])
    with pytest.raises(UsageError, match='--dataset=numbers: unknown split test'):
        count_examples(DataSource(dataset, '', make_params()), 'test')
    dataset = types.SimpleNamespace(read=lambda split, data_dir, params: {}['other'])
    with pytest.raises(KeyError, match='other'):
        count_examples(DataSource(dataset, '', make_params()), 'test')


def test_an_empty_split_is_an_error_that_names_it():
    with pytest.raises(RunError, match='--dataset=numbers: the split eval in here is empty'):
        count_examples(DataSource(numbers(0), 'here', make_params()), 'eval')
