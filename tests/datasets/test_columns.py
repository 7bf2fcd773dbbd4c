"""What is counted in columns and features, and the ops that make numbers and ids of them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.formats.columns import CATEGORICAL, NUMERIC, ColumnProfile, Moments, standardize
from common.formats.vocabulary import ValueCounts, class_ids, column_ids, sorted_classes


def test_numbers_that_float32_cannot_tell_apart_are_recognized():
    for values, std, is_exact in (
        ([1, 3, 5, 7], 5**0.5, True),
        ([5, 5, 5], 1, True),
        ([1e6 - 0.9, 1e6 + 0.9], 1, False),  # Float32 has 24 bits.
        ([-1e6 - 2, -1e6 + 2], 2, False),
        ([1.7e9 - 1.01e4, 1.7e9 + 1.01e4], 1.01e4, False),  # 1.7e9 / 2**24 is 101.3.
        ([1.7e9 - 1.02e4, 1.7e9 + 1.02e4], 1.02e4, True),
        ([9e-38, -9e-38], 1, True),
        ([2e-37, -2e-37], 2e-37, True),
    ):
        moments = Moments()
        moments.update(values)
        assert moments.std == pytest.approx(std) and moments.is_exact_in_float32 == is_exact


def test_numbers_whose_difference_is_no_float32_are_standardized(session):
    mean, std = 1.7e38, 3.4e38 * 0.75**0.5  # Of the numbers 3.4e38, three times, and -3.4e38.
    found = session.run(standardize(tf.constant([3.4e38, -3.4e38]), mean, std))
    np.testing.assert_allclose(found, [3**-0.5, -(3**0.5)], rtol=1e-6)


def profile(cells, kind=None):
    found = ColumnProfile(100, kind)
    for begin in range(0, len(cells), 10):
        block = cells[begin : begin + 10]
        found.update(block, range(2 + begin, 2 + begin + len(block)))
    return found


def test_a_column_is_numeric_if_its_cells_are():
    numbers, mostly, neither = (True, False), (False, True), (False, False)
    for cells, kind, expected, is_integer, first_text, mean in (
        (['1', '', '2.0', '?', 'NA'], None, numbers, True, None, 1.5),
        (['1', '2.5'], None, numbers, False, None, 1.75),
        (['1', '', *'1234567', '1', 'x'], None, mostly, False, (12, 'x'), 30 / 9),  # One in ten.
        (['1', '', *'1234567', 'x'], None, neither, False, (11, 'x'), 29 / 8),
        (['1,5', 'inf', '1e99', '7'], None, mostly, False, (2, '1,5'), 7),  # These almost are numbers.
        ([*'xyzuv', 'NA', *'1234', *'1234567890' * 9], None, neither, False, (2, 'x'), 2.5),  # Too many texts at first.
        (['x', 'z', '1', '2', *'123456' * 10, '1.5'], None, mostly, False, (2, 'x'), 214.5 / 63),
        (['1', 'x', '3'], NUMERIC, numbers, True, None, 2),  # A kind that is given is not questioned.
        (['1', '3'], CATEGORICAL, neither, False, None, 0),
    ):
        found = profile(cells, kind)
        assert (found.is_numeric, found.is_mostly_numeric) == expected, cells
        assert (found.is_integer, found.first_text, found.moments.mean) == (is_integer, first_text, pytest.approx(mean))
        assert found.num_missing == len(cells) - found.values.total == sum(cell in ('', '?', 'NA') for cell in cells)


def test_ten_different_values_identify_their_rows():
    assert profile([*'abcdefghij']).identifies
    assert not any(profile(cells).identifies for cells in ([*'abcdefghi'], [*'abcdefghia'], ['', *'abcdefghij']))


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
    many = ValueCounts(3)
    for block in ('abc', 'def', 'aa'):
        many.update(block)
    assert many.are_distinct and not many.is_exact  # The first ones were.


def test_a_column_without_known_categories_is_all_unknown(session):
    ids = column_ids(tf.constant([['a', 'b'], ['', 'c']]), [[], []])
    session.run(tf.tables_initializer())
    assert session.run(ids).tolist() == [[0, 0], [0, 0]]


def test_classes_are_their_places_and_unknown_ones_are_named(session):
    values = tf.placeholder(tf.string, [None])
    found, many = class_ids(values, ['b', 'a'], 'kind'), class_ids(values, 'abcdef', 'kind')
    session.run(tf.tables_initializer())
    assert found.dtype == tf.int32 and session.run(found, {values: ['a', 'b', 'a']}).tolist() == [1, 0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match='Key: kind. Must be one of the classes: b, a[^,]'):
        session.run(found, {values: ['b', 'c']})
    with pytest.raises(tf.errors.InvalidArgumentError, match='Must be one of the classes: a, b, c, d, e, ...'):
        session.run(many, {values: ['g']})


def test_classes_are_in_the_order_of_numbers_or_of_the_alphabet():
    for expected in (['1.5', '2', '10'], ['01', '1'], ['10', '2', 'x']):
        assert sorted_classes(reversed(expected)) == expected
