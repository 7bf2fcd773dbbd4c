"""What the cells of a column are: numbers or categories, their statistics and their vocabulary."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from common.formats.delimited import MISSING, to_number
from common.formats.vocabulary import ValueCounts

NUMERIC, CATEGORICAL = 'numeric', 'categorical'
_MIN_DISTINCT_ROWS = 10


class Moments:
    """The mean and standard deviation of a stream of numbers or vectors, combined from those of its parts.

    Numbers that are not finite do not count.

    (T. Chan, G. Golub, R. LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979.)
    """

    def __init__(self) -> None:
        self._count: Any = 0
        self._mean: Any = 0.0
        self._squares: Any = 0.0

    def update(self, values: Sequence[float] | np.ndarray) -> None:
        """Adds numbers, or arrays of one shape along the first axis."""
        if not len(values):
            return
        array = np.asarray(values, np.float64)
        is_finite = np.isfinite(array)
        added = is_finite.sum(axis=0)
        count = np.maximum(self._count + added, 1)
        mean = np.where(is_finite, array, 0).sum(axis=0) / np.maximum(added, 1)
        delta = mean - self._mean
        deviations = np.where(is_finite, array - mean, 0)
        self._squares = self._squares + np.square(deviations).sum(axis=0) + delta * delta * self._count * added / count
        self._mean = self._mean + delta * added / count
        self._count = self._count + added

    @property
    def count(self) -> int:
        """How many numbers there were; of vectors, in the component that has the most."""
        return int(np.max(self._count))

    @property
    def mean(self) -> Any:
        """A float, or a nested list."""
        return np.asarray(self._mean).tolist()

    @property
    def is_exact_in_float32(self) -> bool:
        """Whether rounding to float32 changes the numbers by less than a hundredth of their standard deviation."""
        spread = np.sqrt(self._squares / np.maximum(self._count, 1))
        return bool(np.all((spread == 0) | (np.abs(self._mean) * 2.0**-24 < spread / 100)))

    @property
    def std(self) -> Any:
        """A float, or a nested list; 1 where it is too small for the values, stored as float32, to differ."""
        std = np.sqrt(self._squares / np.maximum(self._count, 1))
        return np.where(std > 1e-6 * np.abs(self._mean), std, 1.0).tolist()


class ColumnProfile:
    """What is known about a column from the cells seen so far.

    Args:
      max_distinct: of its values that are counted.
      kind: if it is given, NUMERIC or CATEGORICAL.

    Attributes:
      values: counts of the distinct cells that are not missing.
      moments: of its numbers, if is_numeric.
      is_numeric: whether each cell that is not missing is a number.
      is_integer: whether each is an integer.
      num_missing: how many are missing.
    """

    def __init__(self, max_distinct: int, kind: str | None = None):
        self.values = ValueCounts(max_distinct)
        self.moments = Moments()
        self.is_numeric = self.is_integer = kind != CATEGORICAL
        self._is_given = kind == NUMERIC
        self.num_missing = 0

    def update(self, cells: Sequence[str]) -> None:
        present = [cell for cell in cells if cell not in MISSING]
        self.num_missing += len(cells) - len(present)
        self.values.update(present)
        if not self.is_numeric:
            return
        numbers = [to_number(cell) for cell in present]
        if self._is_given:  # Rows without a number are reported later.
            numbers = [number for number in numbers if number is not None]
        if None in numbers:
            self.is_numeric = self.is_integer = False
            return
        self.is_integer = self.is_integer and all(number.is_integer() for number in numbers)  # type: ignore[union-attr]
        self.moments.update(numbers)  # type: ignore[arg-type]

    @property
    def identifies(self) -> bool:
        """Whether each row has its own value, as an id has."""
        return self.values.are_distinct and not self.num_missing and self.values.total >= _MIN_DISTINCT_ROWS
