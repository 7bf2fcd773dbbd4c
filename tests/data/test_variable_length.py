"""Examples of different lengths: padded, and batched with others of similar length."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from tests.data.pipelines import ModeKeys, assert_same, batches, passes

COUNT = 70


def length_of(i):
    return i * 37 % 23 + 1


def texts(**functions):
    """A dataset module of 70 examples: number i is repeated `length_of(i)` times, in 23 lengths."""

    def parse(mode, params, record):
        length = length_of(record)
        word, grid = tf.fill([length, 2], 'a'), tf.ones([length, 2 * length])
        return {'x': tf.fill([length], record + 1), 'word': word, 'grid': grid}, {'y': record}

    return types.SimpleNamespace(read=lambda *_: tf.data.Dataset.range(COUNT), **(functions or {'parse': parse}))


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


def test_a_training_grouped_by_length_resumes_with_the_same_batches():
    changes = {'group_by_length': True, 'shuffle_buffer': 20}
    whole = batches(texts(), 85, **changes)
    for found, start in zip(passes(texts(), [(77, 8), (50, 35), (49, 36)], **changes), (77, 50, 49)):
        assert_same(found, whole[start:])


def parse_fixed(mode, params, record):
    return {'x': record}, {'y': record}


@pytest.mark.parametrize(
    'function, message',
    [('parse', '--dataset=numbers has no features of variable length'), ('parse_batch', 'is for dataset modules with parse')],
)
def test_grouping_by_length_needs_variable_lengths_and_single_examples(function, message):
    with pytest.raises(UsageError, match=f'^group_by_length=true:? {message}'):
        batches(texts(**{function: parse_fixed}), 1, group_by_length=True)
