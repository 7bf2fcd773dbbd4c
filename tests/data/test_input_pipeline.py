"""How the records of a dataset module become batches: their order, in training and evaluation, and how they are parsed."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import input_pipeline
from common.data.source import DataSource
from tests.data.pipelines import INFINITE, UNKNOWN, ModeKeys, batches, ids, make_params, numbers

ORDERS = pytest.mark.parametrize(
    'changes',
    [{}, {'cache': False}, {'shuffle_buffer': 5}, {'cache': False, 'shuffle_buffer': 5}],
    ids=['gathered', 'streamed', 'kept', 'streamed with a small buffer'],
)


@ORDERS
def test_each_epoch_and_each_seed_has_an_order_of_its_own(changes):
    orders = []
    for seed in (1, 2, 1):
        flat = np.concatenate(ids(numbers(10), 8, seed=seed, **changes))  # Batches of 4 run over the ends of epochs.
        orders += [tuple(flat[i : i + 10]) for i in (0, 10, 20)]
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert orders[:3] == orders[6:]
    assert len({tuple(range(10)), *orders}) == 7


@ORDERS
def test_a_training_that_resumes_sees_what_it_would_have_seen(changes):
    whole = ids(numbers(10), 12, **changes)
    for start in (1, 5, 7):
        assert ids(numbers(10), 12 - start, start=start, **changes) == whole[start:]


def test_the_buffer_bounds_how_far_an_example_moves_ahead():
    first = np.concatenate(ids(numbers(100), 25, shuffle_buffer=5))
    assert all(value <= position + 4 for position, value in enumerate(first))


def test_a_dataset_that_does_not_know_its_size_is_shuffled_all_the_same():
    flat = np.concatenate(ids(numbers(UNKNOWN), 5))
    assert sorted(flat[:10]) == sorted(flat[10:]) == list(range(10)) != list(flat[:10])


def test_a_stream_without_a_known_end_is_shuffled_as_the_beginning_of_a_long_one():
    # A training that ends within the first epoch sees the same examples, wherever the epoch ends.
    long = ids(numbers(10000), 20, shuffle_buffer=50)
    assert ids(numbers(10000), 20, count=UNKNOWN, shuffle_buffer=50) == long
    assert ids(numbers(10000), 9, start=11, count=UNKNOWN, shuffle_buffer=50) == long[11:]


def test_an_endless_dataset_is_not_shuffled_and_resumes_where_it_stopped():
    assert np.concatenate(ids(numbers(INFINITE), 10, start=10)).tolist() == list(range(40, 80))


def test_evaluation_passes_once_in_order_and_keeps_the_rest_and_prediction_gets_features_alone():
    assert ids(numbers(10), mode=ModeKeys.EVAL) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [features['x'].tolist() for features in batches(numbers(5), mode=ModeKeys.PREDICT)] == [[0, 1, 2, 3], [4]]


@pytest.mark.parametrize('cache', [True, False])
@pytest.mark.parametrize('function', ['parse', 'parse_batch'])
def test_training_batches_have_a_static_size(function, cache):
    module = numbers(10, **{function: lambda mode, params, record: ({'x': record}, {'y': -record})})
    source = DataSource(module, '', make_params(cache=cache))
    with tf.Graph().as_default():
        dataset = input_pipeline.make_input_fn(source, ModeKeys.TRAIN, 'train', 10, cache)()
        assert dataset.element_spec[0]['x'].shape == [4]


def test_parse_batch_is_called_with_whole_batches():
    def parse_batch(mode, params, records):
        assert records.shape.rank == 1
        return {'x': records * 10}, {'y': records}

    assert ids(numbers(6, parse_batch=parse_batch), mode=ModeKeys.EVAL) == [[0, 10, 20, 30], [40, 50]]


@pytest.mark.parametrize('record', [lambda i: (i, 2 * i), lambda i: {'a': i, 'b': 2 * i}], ids=['tuple', 'dict'])
def test_records_may_be_tuples_or_dicts(record):
    def parse(mode, params, record):
        x, y = record if isinstance(record, tuple) else (record['a'], record['b'])
        return {'x': x}, {'y': y}

    module = types.SimpleNamespace(read=lambda *_: tf.data.Dataset.range(4).map(record), parse=parse)
    ((features, labels),) = batches(module, mode=ModeKeys.EVAL)
    assert list(features['x']) == [0, 1, 2, 3] and list(labels['y']) == [0, 2, 4, 6]
