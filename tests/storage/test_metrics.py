"""When an evaluation is better, and for how long none was."""

import math

import pytest

from common.errors import UsageError
from common.storage.metrics import Objective, evaluations_since_best, parse_objective

LOSS, ACCURACY = Objective('loss', False), Objective('accuracy', True)


def test_a_goal_is_a_metric_and_a_direction():
    assert parse_objective('loss:min') == LOSS
    assert parse_objective('accuracy:max') == ACCURACY
    assert parse_objective('a:b:max') == Objective('a:b', True)


@pytest.mark.parametrize('text', ['', 'loss', 'loss:', ':min', 'loss:least', 'loss:min '])
def test_what_is_no_goal_is_refused(text):
    with pytest.raises(UsageError, match='is not of the form METRIC:min or METRIC:max'):
        parse_objective(text)


@pytest.mark.parametrize(
    'goal, value, other, min_delta, expected',
    [
        (LOSS, 1.0, 2.0, 0.0, True),
        (LOSS, 2.0, 1.0, 0.0, False),
        (LOSS, 1.0, 1.0, 0.0, False),
        (LOSS, 1.0, 1.5, 0.5, False),
        (LOSS, 0.9, 1.5, 0.5, True),
        (ACCURACY, 2.0, 1.0, 0.0, True),
        (ACCURACY, 1.0, 2.0, 0.0, False),
        (ACCURACY, 1.5, 1.0, 0.5, False),
        (LOSS, math.nan, 1.0, 0.0, False),
        (LOSS, 1.0, math.nan, 0.0, True),
        (ACCURACY, 1.0, math.nan, 5.0, True),
        (ACCURACY, math.nan, math.nan, 0.0, False),
    ],
)
def test_a_metric_is_better_by_its_goal_and_the_least_gain(goal, value, other, min_delta, expected):
    assert goal.is_better(value, other, min_delta) == expected


@pytest.mark.parametrize(
    'goal, values, min_delta, expected',
    [
        (LOSS, [], 0.0, 0),
        (LOSS, [3.0], 0.0, 0),
        (LOSS, [3.0, 2.0, 1.0], 0.0, 0),
        (LOSS, [3.0, 1.0, 2.0, 1.0], 0.0, 2),
        (ACCURACY, [1.0, 3.0, 2.0], 0.0, 1),
        (LOSS, [3.0, 2.9, 2.8, 2.4], 0.5, 0),
        (LOSS, [3.0, 2.9, 2.8, 2.6], 0.5, 3),
        (LOSS, [math.nan, math.nan, 1.0, math.nan], 0.0, 1),
    ],
)
def test_evaluations_since_the_best_are_counted(goal, values, min_delta, expected):
    assert evaluations_since_best(values, goal, min_delta) == expected


def test_the_best_of_metrics_is_no_nan():
    assert LOSS.best([math.nan, 3.0, 1.0, 2.0, math.nan]) == 1.0
    assert ACCURACY.best([math.nan, 3.0, 1.0]) == 3.0
    assert LOSS.best([math.nan]) is None and ACCURACY.best([]) is None
