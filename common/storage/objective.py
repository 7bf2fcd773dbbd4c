"""The objective: the metric for comparing checkpoints, trials and runs. Does not import TensorFlow."""

from collections.abc import Iterable
import typing

from estimator_trainer.common.errors import UsageError


class Objective(typing.NamedTuple):
    """A metric to minimize, or to maximize if is_max."""

    metric: str
    is_max: bool

    def is_better(self, value: float, other: float, min_delta: float = 0.0) -> bool:
        """Whether a value is better than another by more than min_delta. Any number is better than NaN; NaN never is."""
        gain = value - other if self.is_max else other - value
        return gain > min_delta or (value == value and other != other)

    def best(self, values: Iterable[float]) -> float | None:
        """Returns the best value, ignoring NaN; None if there is none."""
        numbers = [value for value in values if value == value]
        return (max if self.is_max else min)(numbers, default=None)


def parse_objective(text: str | None) -> Objective:
    """Parses text such as 'accuracy:max'; None is 'loss:min'.

    Raises:
      UsageError: the text is not of this form.
    """
    metric, _, direction = ('loss:min' if text is None else text).rpartition(':')
    if not metric or direction not in ('min', 'max'):
        raise UsageError(f'--best_metric={text} is not of the form METRIC:min or METRIC:max, such as accuracy:max')
    return Objective(metric, direction == 'max')
