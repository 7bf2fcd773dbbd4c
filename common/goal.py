"""What an evaluation is judged by: one metric, which should be as small or as large as possible."""

import typing

from common.errors import UsageError


class Goal(typing.NamedTuple):
    metric: str
    is_max: bool

    def is_better(self, value, other, min_delta=0.0):
        """Whether a value is better than another by more than min_delta; NaN is never better, and anything is than NaN."""
        gain = value - other if self.is_max else other - value
        return gain > min_delta or (value == value and other != other)

    def best(self, values):
        """Returns the best of a list of float, None where there is none but NaN."""
        numbers = [value for value in values if value == value]
        return (max if self.is_max else min)(numbers, default=None)


def parse_goal(text):
    """Returns the Goal of a text such as 'loss:min' or 'accuracy:max'.

    Raises:
      UsageError: it is none.
    """
    metric, _, direction = text.rpartition(':')
    if not metric or direction not in ('min', 'max'):
        raise UsageError(f'--best_metric={text} is not of the form METRIC:min or METRIC:max, such as accuracy:max')
    return Goal(metric, direction == 'max')


def evaluations_since_best(values, goal, min_delta):
    """Returns how many evaluations, at the end of a list of them, brought nothing better by more than min_delta."""
    best, since = None, 0
    for value in values:
        if best is None or goal.is_better(value, best, min_delta):
            best, since = value, 0
        else:
            since += 1
    return since
