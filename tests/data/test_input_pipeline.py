"""How the records of a dataset module become batches: their order, in training and evaluation, and how they are parsed."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import input_pipeline
from common.data.source import DataSource
from tests.data.pipelines import INFINITE, UNKNOWN, ModeKeys, batches, ids, make_params, numbers

CHANGES = [{}, {'cache': False}, {'shuffle_buffer': 5}, {'cache': False, 'shuffle_buffer': 5}]


@pytest.mark.parametrize('changes', CHANGES, ids=str)
def test_each_epoch_and_each_seed_has_an_order_of_its_own_in_which_a_resumed_training_goes_on(changes):
    orders = []
    for seed in (1, 2):
        whole = ids(numbers(10), 12, seed=seed, **changes)  # Batches of 4 run over the ends of epochs.
        flat = np.concatenate(whole)
        orders += [tuple(flat[i : i + 10]) for i in (0, 10, 20)]
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len({tuple(range(10)), *orders}) == 7
    for start in (1, 5, 7):
        assert ids(numbers(10), 12 - start, start=start, seed=2, **changes) == whole[start:]


def test_the_buffer_bounds_how_far_an_example_moves_ahead():
    first = np.concatenate(ids(numbers(100), 25, shuffle_buffer=5))
    assert all(value <= position + 4 for position, value in enumerate(first))


def test_a_dataset_of_unknown_size_is_shuffled_all_the_same_but_an_endless_one_is_not():
    flat = np.concatenate(ids(numbers(UNKNOWN), 5))
    assert sorted(flat[:10]) == sorted(flat[10:]) == list(range(10)) != list(flat[:10])
    # A training that ends within the first epoch sees the same examples, wherever the epoch ends.
    long = ids(numbers(10000), 20, shuffle_buffer=50)
    assert ids(numbers(10000), 20, count=UNKNOWN, shuffle_buffer=50) == long
    assert ids(numbers(10000), 9, start=11, count=UNKNOWN, shuffle_buffer=50) == long[11:]
    assert np.concatenate(ids(numbers(INFINITE), 10, start=10)).tolist() == list(range(40, 80))


@pytest.mark.parametrize('function', ['parse', 'parse_batch'])
def test_evaluation_passes_once_in_order_training_batches_have_a_static_size_and_records_may_be_tuples(function):
    def parse(mode, params, record):
        return {'x': record[0] + record[1]}, {'y': record[1]}

    module = types.SimpleNamespace(read=lambda *_: tf.data.Dataset.range(5).map(lambda i: (i, 2 * i)), **{function: parse})
    assert ids(module, mode=ModeKeys.EVAL) == [[0, 3, 6, 9], [12]]
    assert [features['x'].tolist() for features in batches(module, mode=ModeKeys.PREDICT)] == [[0, 3, 6, 9], [12]]
    for cache in (True, False):
        source = DataSource(module, '', make_params(cache=cache))
        with tf.Graph().as_default():
            dataset = input_pipeline.make_input_fn(source, ModeKeys.TRAIN, 'train', 5, cache)()
            assert dataset.element_spec[0]['x'].shape == [4]
