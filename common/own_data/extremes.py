"""Statistics of numbers, and those of them that may mark missing ones."""

import collections

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.own_data.moments import Moments

# Often missing: -99, 9999 and the like; 0001-01-01 and 9999-12-31, in days.
_SENTINELS = (*(sign * (10**digits - 1) for sign in (-1, 1) for digits in range(2, 7)), -719162, 2932896)
_FAR = 2  # Ranges of all other numbers.
_NEARLY_EQUAL = 0.01  # Standard deviations that a range must exceed to be learned from.
_MOST_OTHERS = 0.75  # Of the rows.


class Numbers:
    """Statistics of a column's numbers: their moments, smallest, largest, whether all are integers, sentinels and outliers."""

    def __init__(self) -> None:
        self.moments = Moments()
        self.is_integer = True
        self._bounds = np.array([np.inf, -np.inf])  # Of numbers other than sentinels.
        self._ends = np.zeros(0)  # The two smallest and the two largest distinct ones, in order.
        self._sentinels: collections.Counter[float] = collections.Counter()
        self._pending: list[np.ndarray] = []
        self._group = -1

    def update(self, values: np.ndarray, groups: np.ndarray) -> None:
        """Adds numbers, float64 [n], without NaN, and the groups of rows that they belong to, int [n], which never decrease.

        Moments are merged group by group, so that they do not depend on how a file is read.
        """
        if not len(values):
            return
        self.is_integer = bool(self.is_integer and (values == np.trunc(values)).all())
        low, high = values.min(), values.max()
        inner = values.min(where=values > low, initial=high), values.max(where=values < high, initial=low)
        ends = np.unique([*self._ends, low, *inner, high]) + 0.0  # -0 becomes 0.
        self._ends = np.unique([*ends[:2], *ends[-2:]])
        self._add_sentinels(values, low, high)
        starts = np.flatnonzero(np.diff(groups, prepend=self._group))
        for begin, end in zip([0, *starts], [*starts, len(values)]):
            if begin in starts:
                self._flush()
            self._pending.append(values[begin:end])
        self._group = int(groups[-1])

    def add_sentinels(self, values: np.ndarray) -> None:
        """Adds numbers, float [n], without NaN, to the sentinels alone."""
        if len(values):
            self._add_sentinels(values, values.min(), values.max())

    def _add_sentinels(self, values, low, high):
        if low in _SENTINELS or high in _SENTINELS:
            for end in {low, high}.intersection(_SENTINELS):
                self._sentinels[end] += int((values == end).sum())
            others = values[~np.isin(values, _SENTINELS)]
            low, high = (others.min(), others.max()) if len(others) else (np.inf, -np.inf)
        self._bounds = np.array([min(self._bounds[0], low), max(self._bounds[1], high)])

    @property
    def min(self) -> float:
        """The smallest number; infinity if there is none."""
        return self._ends[0] if len(self._ends) else np.inf

    @property
    def max(self) -> float:
        """The largest number; minus infinity if there is none."""
        return self._ends[-1] if len(self._ends) else -np.inf

    @property
    def sentinels(self) -> list[float]:
        """Numbers such as -999 that occur repeatedly, far from all others."""
        first, last = self._bounds
        reach = _FAR * (last - first)
        return [end for end, count in self._sentinels.items() if count > 1 and max(first - end, end - last) > reach > 0]

    @property
    def outliers(self) -> list[float]:
        """The smallest or the largest number, or both, beside which most others are nearly equal once they are standardized."""
        least = _NEARLY_EQUAL * self.finish().std
        for begin, end in ((1, 0), (0, 1), (1, 1)):
            others = self._ends[begin : len(self._ends) - end]
            far = sorted({*self._ends.tolist()} - {*others.tolist()})
            if len(others) and 0 < np.ptp(others) < least and all(self._is_far(each, others) for each in far):
                return far
        return []

    @property
    def extremes(self) -> dict[float, str]:
        """{number: why it may mark missing ones} of the outliers and sentinels."""
        apart = 'next to it, a model can hardly tell them apart'
        return dict.fromkeys(self.outliers, apart) | dict.fromkeys(self.sentinels, 'occurs repeatedly')

    def _is_far(self, value, others):
        gap = max(others[0] - value, value - others[-1])
        return gap > _FAR * np.ptp(others) and abs(value - self.moments.mean) > _MOST_OTHERS * gap

    def _flush(self):
        if self._pending:
            self.moments.update(np.concatenate(self._pending))
            self._pending = []

    def finish(self) -> Moments:
        """Returns the moments of all numbers."""
        self._flush()
        return self.moments


def warn_of_extreme(place: str, shown: str, reason: str, cure: str) -> None:
    """Warns of one of the `Numbers.extremes`."""
    tf.logging.warning('%s: %s is far from all others, and %s: %s if it is missing.', place, shown, reason, cure)
