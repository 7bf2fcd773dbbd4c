"""Examples of different lengths: padded, and batched with others of similar length."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from tests.data.test_input_pipeline import ModeKeys, batches

COUNT = 70


def length_of(i):
    return i * 37 % 23 + 1


def texts(**functions):
    """A dataset module of 70 examples: number i is repeated `length_of(i)` times, in 23 lengths."""

    def parse(mode, params, record):
        length = record * 37 % 23 + 1
        word, grid = tf.fill([length, 2], 'a'), tf.ones([length, 2 * length])
        return {'x': tf.fill([length], record + 1), 'word': word, 'grid': grid}, {'y': record}

    functions = functions or {'parse': parse}
    return types.SimpleNamespace(read=lambda *_: tf.data.Dataset.range(COUNT), **functions)


def numbers(found):
    return [labels['y'].tolist() for _, labels in found]


def test_a_batch_is_padded_with_zeros_or_empty_strings_to_its_longest_example():
    (features, labels), *_ = batches(texts(), None, ModeKeys.EVAL)
    assert labels['y'].tolist() == [0, 1, 2, 3]
    lengths = [length_of(i) for i in range(4)]
    assert features['x'].shape == (4, max(lengths))
    for i in range(4):
        assert features['x'][i].tolist() == [i + 1] * lengths[i] + [0] * (max(lengths) - lengths[i])
        assert (features['word'][i] == b'a').sum() == 2 * lengths[i]
        assert set(features['word'][i, lengths[i] :].ravel()) <= {b''}


@pytest.mark.parametrize('cache', [True, False])
def test_training_pads_too(cache):
    for features, labels in batches(texts(), 5, cache=cache):
        assert features['x'].shape == (4, max(length_of(i) for i in labels['y']))


def test_batches_grouped_by_length_hold_similar_lengths():
    def spread(changes):
        found = numbers(batches(texts(), 100, **changes))
        return np.mean([np.ptp([length_of(i) for i in batch]) for batch in found])

    assert spread({'group_by_length': True}) < 1 < 10 < spread({})


def test_batches_grouped_by_length_contain_each_example_once_per_epoch():
    window = 50 * 4  # Whole windows of examples, so the first 7 contain 20 epochs.
    found = np.concatenate(numbers(batches(texts(), 7 * window // 4, group_by_length=True)))
    assert np.bincount(found).tolist() == [20] * COUNT


def test_batches_grouped_by_length_are_not_sorted():
    found = [length_of(batch[0]) for batch in numbers(batches(texts(), 50, group_by_length=True))]
    assert found != sorted(found) and found != sorted(found, reverse=True)


def test_batches_grouped_by_length_are_padded_to_their_longest_example():
    for features, labels in batches(texts(), 5, group_by_length=True):
        lengths = np.array([length_of(i) for i in labels['y']])
        assert features['x'].shape == (4, max(lengths)) and features['grid'].shape == (4, max(lengths), 2 * max(lengths))
        assert (features['x'] > 0).sum(1).tolist() == lengths.tolist()
        assert features['grid'].sum((1, 2)).tolist() == (2 * lengths**2).tolist()
        assert set(features['word'].ravel()) <= {b'a', b''}


@pytest.mark.parametrize('start', [1, 49, 50, 77])
@pytest.mark.parametrize('cache', [True, False])
def test_a_training_grouped_by_length_resumes_with_the_same_batches(start, cache):
    whole = batches(texts(), start + 10, group_by_length=True, cache=cache, shuffle_buffer=20)
    rest = batches(texts(), 10, start=start, group_by_length=True, cache=cache, shuffle_buffer=20)
    for (features, labels), (features_again, labels_again) in zip(whole[start:], rest, strict=True):
        assert labels['y'].tolist() == labels_again['y'].tolist()
        assert features['x'].tolist() == features_again['x'].tolist()


def test_grouping_by_length_needs_variable_lengths_and_single_examples():
    fixed = texts(parse=lambda mode, params, record: ({'x': record}, {'y': record}))
    with pytest.raises(UsageError, match='group_by_length=true: --dataset=numbers has no features of variable length'):
        batches(fixed, 1, group_by_length=True)
    whole = texts(parse_batch=lambda mode, params, records: ({'x': records}, {'y': records}))
    with pytest.raises(UsageError, match='group_by_length=true is for dataset modules with parse'):
        batches(whole, 1, group_by_length=True)
