"""From the records of a dataset module to batches: order, parsing, random numbers, lengths."""

import types

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.pipeline import input, order
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.example_seed import example_seed
from tests.pipeline.pipelines import INFINITE, UNKNOWN, ModeKeys, assert_same, batches, ids, make_params, numbers, passes

CHANGES = [{}, {'cache': False}, {'shuffle_buffer': 5}, {'cache': False, 'shuffle_buffer': 5}]


@pytest.mark.parametrize('changes', CHANGES, ids=str)
def test_each_epoch_and_seed_has_its_own_order_in_which_a_run_resumes(changes):
    orders = []
    for seed in (1, 2):
        whole = ids(numbers(10), 12, seed=seed, **changes)  # Batches of 4 run over the ends of epochs.
        flat = np.concatenate(whole)
        orders += [tuple(flat[i : i + 10]) for i in (0, 10, 20)]
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len({tuple(range(10)), *orders}) == 7
    for start in (1, 5, 7):
        assert ids(numbers(10), 12 - start, start=start, seed=2, **changes) == whole[start:]


@pytest.mark.parametrize('assert_cardinality', [lambda records: records, tf.data.experimental.assert_cardinality(10)])
def test_arrays_are_not_read_element_by_element_with_the_same_result(monkeypatch, assert_cardinality):
    x, y = np.arange(10), np.arange(20.0).reshape(10, 2)

    def parse(mode, params, record):
        return {'x': record['x']}, {'y': record['y']}

    def module(records):
        return types.SimpleNamespace(read=lambda *_: records().apply(assert_cardinality), parse=parse, parse_batch=parse)

    def slices():
        return tf.data.Dataset.from_tensor_slices({'y': y, 'x': x})

    expected = batches(module(lambda: slices().map(lambda record: record)), 6)
    part = batches(module(slices), 6, count=8, is_part=True)
    monkeypatch.setattr(order, '_in_one', None)
    found = batches(module(slices), 6)
    assert_same(found, expected)
    for features, labels in found:
        assert labels['y'].tolist() == y[features['x']].tolist()
    assert {*np.concatenate([features['x'] for features, _ in part])} == {*range(8)}


def test_an_example_moves_ahead_by_the_buffer_at_most_and_not_at_all_if_the_data_is_endless():
    first = np.concatenate(ids(numbers(100), 25, shuffle_buffer=5))
    assert all(value <= position + 4 for position, value in enumerate(first))
    flat = np.concatenate(ids(numbers(UNKNOWN), 5))
    assert sorted(flat[:10]) == sorted(flat[10:]) == list(range(10)) != list(flat[:10])
    # A run that ends within the first epoch sees the same examples, wherever the epoch ends.
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
            dataset = input.make_input_fn(source, ModeKeys.TRAIN, 'train', 5, cache)()
            assert dataset.element_spec[0]['x'].shape == [4]


def parse(mode, params, record):
    first, second = (tf.random.stateless_uniform([], example_seed()) for _ in range(2))
    image = tf2.image.stateless_random_flip_left_right(tf.reshape(tf.range(6), [1, 6, 1]), example_seed())
    branch = tf.cond(record < 4, lambda: tf.random.stateless_uniform([], example_seed()), lambda: -1.0)
    return {'x': record, 'first': first, 'second': second, 'flipped': image[0, 0, 0], 'branch': branch}, {}


def parse_batch(mode, params, records):
    return {'x': records, 'first': tf.random.stateless_uniform(tf.shape(records), example_seed())}, {}


def draw(steps, function=parse, **options):
    """Returns {feature: values} of batches of 4 of the numbers 0 to 7."""
    found = batches(numbers(8, **{function.__name__: function}), steps, **options)
    return {name: np.concatenate([features[name] for features, _ in found]).tolist() for name in found[0][0]}


@pytest.mark.parametrize('function', [parse, parse_batch])
@pytest.mark.parametrize('cache', [True, False])
def test_every_example_draws_new_numbers_per_epoch_and_a_resumed_run_the_same(function, cache):
    whole = draw(9, function, cache=cache)
    assert len(set(whole['first'])) == 36
    assert draw(6, function, start=3, cache=cache) == {name: values[12:] for name, values in whole.items()}


def test_what_is_drawn_follows_from_the_seed_and_from_the_call_which_is_in_the_parser_alone():
    drawn = draw(4)
    assert not {*drawn['first']} & {*draw(4, seed=2)['first']} and not {*drawn['first']} & {*drawn['second']}
    assert {*drawn['flipped']} == {0, 5}
    assert all((value == -1) == (number >= 4) for number, value in zip(drawn['x'], drawn['branch'], strict=True))
    assert not {*drawn['branch']} & {*drawn['first']}
    assert draw(None, mode=ModeKeys.EVAL) == draw(None, mode=ModeKeys.EVAL)
    with tf.Graph().as_default(), pytest.raises(UsageError, match='in parse.. and parse_batch.. only'):
        example_seed()


COUNT = 70


def length_of(i):
    return i * 37 % 23 + 1


def texts():
    """A dataset module of 70 examples: number i is repeated `length_of(i)` times, in 23 lengths."""

    def parse(mode, params, record):
        length = length_of(record)
        word, grid = tf.fill([length, 2], 'a'), tf.ones([length, 2 * length])
        return {'x': tf.fill([length], record + 1), 'word': word, 'grid': grid}, {'y': record}

    return types.SimpleNamespace(read=lambda *_: tf.data.Dataset.range(COUNT), parse=parse)


@pytest.mark.parametrize('options', [{'mode': ModeKeys.EVAL}, {}, {'cache': False}, {'group_by_length': True}], ids=str)
def test_a_batch_is_padded_with_zeros_or_empty_strings_to_its_longest_example(options):
    for features, labels in batches(texts(), 5, **options):
        lengths = [length_of(i) for i in labels['y']]
        longest = max(lengths)
        assert features['x'].shape == (4, longest) and features['grid'].shape == (4, longest, 2 * longest)
        for i, length in enumerate(lengths):
            assert features['x'][i].tolist() == [labels['y'][i] + 1] * length + [0] * (longest - length)
            assert features['word'][i].tolist() == [[b'a', b'a']] * length + [[b'', b'']] * (longest - length)
            assert features['grid'][i].sum() == 2 * length**2


def test_batches_grouped_by_length_are_of_similar_examples_in_any_order_each_once_an_epoch():
    def train(steps, **changes):
        found = [labels['y'] for _, labels in batches(texts(), steps, **changes)]
        return found, np.mean([np.ptp([length_of(i) for i in batch]) for batch in found])

    grouped, spread = train(350, group_by_length=True)  # 7 windows of 50 batches; 20 epochs.
    assert spread < 1 < 10 < train(100)[1]
    assert np.bincount(np.concatenate(grouped)).tolist() == [20] * COUNT
    for window in (grouped[:50], grouped[50:100]):
        lengths = [length_of(batch[0]) for batch in window]
        assert lengths not in (sorted(lengths), sorted(lengths, reverse=True))


def test_a_run_grouped_by_length_resumes_with_the_same_batches():
    changes = {'group_by_length': True, 'shuffle_buffer': 20}
    whole = batches(texts(), 85, **changes)
    for found, start in zip(passes(texts(), [(77, 8), (50, 35), (49, 36)], **changes), (77, 50, 49)):
        assert_same(found, whole[start:])


def test_grouping_by_length_needs_variable_lengths_and_single_examples():
    fixed = numbers(8, parse_batch=lambda mode, params, record: ({'x': record}, {}))
    for module, message in (
        (numbers(8), ': --dataset=numbers has no features of variable length'),
        (fixed, ' is for dataset modules with parse'),
    ):
        with pytest.raises(UsageError, match=f'^group_by_length=true{message}'):
            batches(module, 1, group_by_length=True)


def test_grouping_by_length_takes_the_single_examples_of_a_module_that_parses_batches_too():
    module = texts()
    module.parse_batch = lambda mode, params, records: ({'x': records[:, tf.newaxis]}, {'y': -1 - records})
    (_, ungrouped), (_, grouped) = (batches(module, 1, group_by_length=is_on)[0] for is_on in (False, True))
    assert max(ungrouped['y']) < 0 <= min(grouped['y'])
