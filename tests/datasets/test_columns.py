"""What is counted in columns and features, and the ops that make numbers and ids of them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.formats.columns import CATEGORICAL, NUMERIC, ColumnProfile, Moments, standardize
from common.formats.vocabulary import ValueCounts, class_ids, column_ids, sorted_classes


def moments(*blocks):
    found = Moments()
    for block in blocks:
        found.update(block)
    return found


def test_moments_are_those_of_all_finite_numbers():
    values = np.random.RandomState(0).normal(5, 3, [100, 2])
    values[7, 0], values[3, 1], values[8, 1] = np.nan, np.inf, -np.inf
    finite = [column[np.isfinite(column)] for column in values.T]
    found = moments(values[:0], values[:30], values[30:31], values[31:])
    assert found.count == 99
    assert found.mean == pytest.approx([column.mean() for column in finite])
    assert found.std == pytest.approx([column.std() for column in finite])
    assert (moments().count, moments().mean, moments().std) == (0, 0.0, 1.0)


@pytest.mark.parametrize(
    'values, std',
    [
        ([1, 3, 5, 7], 5**0.5),
        ([5, 5, 5], 1),
        ([1e6 - 0.9, 1e6 + 0.9], 1),  # Float32 has 24 bits.
        ([-1e6 - 2, -1e6 + 2], 2),
        ([9e-38, -9e-38], 1),
        ([2e-37, -2e-37], 2e-37),
    ],
)
def test_a_deviation_too_small_for_float32_counts_as_1(values, std):
    assert moments(values).std == pytest.approx(std)


@pytest.mark.parametrize('values, is_exact', [([1.7e9] * 2, True), ([1.7e9, 1.70002e9], False), ([1.7e9, 1.700021e9], True)])
def test_numbers_that_float32_cannot_tell_apart_are_recognized(values, is_exact):
    assert moments(values).is_exact_in_float32 == is_exact


@pytest.mark.parametrize(
    'values, mean, std, expected',
    [
        ([[1, np.nan], [np.inf, 5]], [3, 4.5], [4, 0.5], [[-0.5, 0], [0, 1]]),
        ([3.4e38, -3.4e38], 1.7e38, 3.4e38 * 0.75**0.5, [3**-0.5, -(3**0.5)]),  # Their difference is no float32.
        (np.array([1, 5]), 3, 2, [-1, 1]),
    ],
)
def test_numbers_are_standardized_and_missing_ones_0(session, values, mean, std, expected):
    found = session.run(standardize(tf.constant(values), mean, std))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def profile(cells, kind=None):
    found = ColumnProfile(100, kind)
    for begin in range(0, len(cells), 10):
        block = cells[begin : begin + 10]
        found.update(block, range(2 + begin, 2 + begin + len(block)))
    return found


@pytest.mark.parametrize(
    'cells, is_numeric, is_mostly_numeric, is_integer, first_text, num_missing',
    [
        (['1', '', '2.0', '?', 'NA'], True, False, True, None, 3),
        (['1', '2.5'], True, False, False, None, 0),
        (['1', '', *'1234567', '1', 'x'], False, True, False, (12, 'x'), 1),  # One in ten.
        (['1', '', *'1234567', 'x'], False, False, False, (11, 'x'), 1),
        (['1,5', 'inf', '1e99', '7'], False, True, False, (2, '1,5'), 0),  # These almost are numbers.
        ([*'xyzuv', 'NA', *'1234', *'1234567890' * 9], False, False, False, (2, 'x'), 1),  # Too many texts at first.
        (['x', 'z', '1', '2', *'123456' * 10, '1.5'], False, True, False, (2, 'x'), 0),
    ],
)
def test_a_column_is_numeric_if_its_cells_are(cells, is_numeric, is_mostly_numeric, is_integer, first_text, num_missing):
    found = profile(cells)
    assert (found.is_numeric, found.is_mostly_numeric, found.is_integer) == (is_numeric, is_mostly_numeric, is_integer)
    assert (found.first_text, found.num_missing) == (first_text, num_missing)
    assert found.values.total == len(cells) - num_missing


def test_a_kind_that_is_given_is_not_questioned():
    found = profile(['1', 'x', '3'], NUMERIC)
    assert found.is_numeric and found.first_text is None and found.moments.mean == 2
    found = profile(['1', '3'], CATEGORICAL)
    assert not found.is_numeric and not found.is_integer and not found.is_mostly_numeric and not found.moments.count


@pytest.mark.parametrize(
    'cells, identifies', [('abcdefghij', True), ('abcdefghi', False), ('abcdefghia', False), (['', *'abcdefghij'], False)]
)
def test_ten_different_values_identify_their_rows(cells, identifies):
    assert profile(list(cells)).identifies == identifies


def test_values_are_counted_in_bounded_memory():
    counts = ValueCounts(3)
    counts.update(['b', 'a', 'b', 'c'])
    assert (len(counts), counts.total, counts.is_exact, counts.are_distinct) == (3, 4, True, False)
    assert counts.most_common(1, 10) == ['b', 'a', 'c'] and counts.most_common(2, 10) == ['b']
    assert counts.most_common(1, 2) == ['b', 'a'] and sorted(counts.values()) == ['a', 'b', 'c']
    counts.update(['d'])
    assert (list(counts.values()), counts.total, counts.is_exact) == (['b'], 5, False)  # The rarest are forgotten.
    counts.update('aaccddee')
    assert list(counts.values()) == []


def test_more_values_than_are_counted_are_distinct_if_the_first_were():
    counts = ValueCounts(3)
    counts.update('abc')
    counts.update('def')
    counts.update('aa')
    assert counts.are_distinct and not counts.is_exact


@pytest.mark.parametrize('vocabularies, expected', [([['b', 'a'], ['a']], [[2, 0], [1, 1], [0, 0]]), ([[], []], [[0, 0]] * 3)])
def test_categories_are_ids_in_the_vocabulary_of_their_column(session, vocabularies, expected):
    ids = column_ids(tf.constant([['a', 'b'], ['b', 'a'], ['', 'c']]), vocabularies)
    session.run(tf.tables_initializer())
    found = session.run(ids)
    assert found.dtype == np.int32 and found.tolist() == expected


def test_classes_are_their_places_and_unknown_ones_are_named(session):
    values = tf.placeholder(tf.string, [None])
    found, many = class_ids(values, ['b', 'a'], 'kind'), class_ids(values, 'abcdef', 'kind')
    session.run(tf.tables_initializer())
    ids = session.run(found, {values: ['a', 'b', 'a']})
    assert ids.dtype == np.int32 and ids.tolist() == [1, 0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match='Key: kind. Must be one of the classes: b, a[^,]'):
        session.run(found, {values: ['b', 'c']})
    with pytest.raises(tf.errors.InvalidArgumentError, match='Must be one of the classes: a, b, c, d, e, ...'):
        session.run(many, {values: ['g']})


@pytest.mark.parametrize(
    'values, expected',
    [(['10', '2', '1.5'], ['1.5', '2', '10']), (['1', '01'], ['01', '1']), (['10', '2', 'x'], ['10', '2', 'x'])],
)
def test_classes_are_in_the_order_of_numbers_or_of_the_alphabet(values, expected):
    assert sorted_classes(iter(values)) == expected
