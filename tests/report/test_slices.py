"""Slices are the values and ranges of columns; only what chance would not explain is marked."""

import math

import numpy as np
import pytest

from estimator_trainer.common.report.predicted import Predicted
from estimator_trainer.common.report.ranks import rank_sum, to_ranks
from estimator_trainer.common.report.rows import column
from estimator_trainer.common.report.slices import find, fisher, split, wilson


def classes(is_wrong):
    zeros = np.zeros(len(is_wrong), int)
    return Predicted(len(zeros), np.arange(len(zeros)), zeros, np.array(is_wrong, int), None, None, 0.0, '', [])


def numbers(errors):
    zeros = np.zeros(len(errors))
    return Predicted(len(zeros), np.arange(len(zeros)), zeros, None, np.array(errors, float), None, 0.0, '', [])


@pytest.mark.parametrize(
    'values, expected',
    [
        ([b'a'] * 30 + [b'b'] * 25 + [b'c'] * 19 + [b''] * 20, {'a': 30, 'b': 25, 'missing': 20}),
        ([1, 0] * 30 + [None] * 19, {'0': 30, '1': 30}),
        ([*range(100), math.nan], {'0 to 24': 25, '25 to 49': 25, '50 to 74': 25, '75 to 99': 25}),
        ([0] * 60 + [*range(1, 41)], {'0': 60, '16 to 40': 25}),  # One of 15 is too small.
        ([b'x' * i for i in range(1, 200)], {}),  # Ids: each occurs once, and has one word.
        (
            [b' '.join([b'w'] * (i % 40 + 1) + [b'%d' % i]) for i in range(80)],
            {'2 to 11 words': 20, '12 to 21 words': 20, '22 to 31 words': 20, '32 to 41 words': 20},
        ),
        ([b'same'] * 50, {}),
        ([None] * 50, {}),
        ([], {}),
    ],
)
def test_the_slices_of_a_column(values, expected):
    assert {text: int(mask.sum()) for text, mask in split(column('x', values))} == expected


def test_a_slice_with_more_mistakes_than_chance_explains_is_the_first():
    city = [b'Oslo'] * 100 + [b'<b>Rome'] * 100 + [b'Bern'] * 20
    is_wrong = [i % 10 == 0 for i in range(100)] + [i % 2 == 0 for i in range(100)] + [True] * 11 + [False] * 9
    found = find([column('city', city)], classes(is_wrong), np.arange(220))
    assert [(one.value, one.verdict, one.examples) for one in found.rows] == [
        ('<b>Rome', 'worse', 100),
        ('Bern', '', 20),  # With 45 % correct, but few examples.
        ('Oslo', 'better', 100),
    ]
    assert (found.rows[0].metrics, found.whole[0]) == (('50.0 %', '40.4 to 59.6 %'), '67.7 %')
    assert found.text == (
        '3 slices of at least 20 examples were looked at; 1 is worse than chance would explain. The worst: city: <b>Rome.'
    )


def test_chance_alone_marks_a_slice_in_less_than_one_of_twenty_reports():
    random, marked = np.random.default_rng(0), {'classes': 0, 'numbers': 0}
    for _ in range(200):
        columns = [column(name, random.integers(0, 8, 300).tolist()) for name in 'abcde']
        for kind, found in (('classes', classes(random.random(300) < 0.05)), ('numbers', numbers(random.standard_cauchy(300)))):
            marked[kind] += any(one.verdict for one in find(columns, found, np.arange(300)).rows)
    assert max(marked.values()) <= 16, marked  # 10 are expected at most, with a standard deviation of 3.


def test_large_errors_are_marked_by_their_ranks_and_shown_by_their_mean():
    random = np.random.default_rng(1)
    errors = np.concatenate([random.normal(0, 1, 100), random.normal(0, 5, 100)])
    found = find([column('town', [b'A'] * 100 + [b'B'] * 100)], numbers(errors), np.arange(200))
    assert [(one.value, one.verdict) for one in found.rows] == [('B', 'worse'), ('A', 'better')]
    assert float(found.rows[0].metrics[0]) == pytest.approx(np.abs(errors[100:]).mean(), rel=1e-3)
    assert float(found.rows[0].metrics[1]) == pytest.approx(np.sqrt(np.square(errors[100:]).mean()), rel=1e-3)


def test_many_slices_are_bounded_and_none_is_said():
    columns = [column(f'c{i}', [b'x', b'y'] * 100) for i in range(30)]
    found = find(columns, classes([False] * 200), np.arange(200))
    assert (len(found.rows), found.omitted) == (20, 40)
    assert found.text == '60 slices of at least 20 examples were looked at; none is worse than chance would explain.'
    assert find(columns[:1], numbers([math.inf] * 200), np.arange(200)) is None
    assert find([column('a', [b'only'] * 200)], classes([False] * 200), np.arange(200)) is None


def test_the_statistics_are_those_of_the_textbooks():
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # R. G. Newcombe, 1998, method 3.
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=1e-4)
    assert wilson(20, 20) == pytest.approx((0.8389, 1), abs=1e-4)
    assert fisher(8, 4, 4, 4) == pytest.approx(2 / 70)  # R. A. Fisher's cups of tea: one of 70 ways, on either side.
    assert fisher(8, 4, 4, 2) == 1
    assert to_ranks(np.array([5.0, 1, 5, 3])).tolist() == [3.5, 1, 3.5, 2]
    z = (18 - 10.5) / math.sqrt(35 / 5 * (1 - 5 / 20))  # The variance of 1, ..., 20 is 35.
    assert rank_sum(np.arange(1.0, 21), np.arange(20) >= 15) == pytest.approx(math.erfc(z / math.sqrt(2)))
    assert rank_sum(np.ones(20), np.arange(20) < 5) == 1
