"""Profiles a column: numbers or categories, statistics and vocabulary."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from common.formats.delimited import MISSING, is_almost_number, to_number
from common.formats.vocabulary import ValueCounts

NUMERIC, CATEGORICAL = 'numeric', 'categorical'
_MIN_DISTINCT_ROWS = 10
_FLOAT32_TINY = 1e-37  # Smaller numbers may count as 0.


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
        return np.where(std > np.maximum(1e-6 * np.abs(self._mean), _FLOAT32_TINY), std, 1.0).tolist()


def standardize(values: tf.Tensor, mean: Any, std: Any) -> tf.Tensor:
    """Returns numbers minus the mean, divided by the standard deviation, as float32; 0 for those that are not finite.

    Args:
      values: of any shape and numeric type; NaN is missing.
      mean: a float, or a nested list that broadcasts.
      std: like mean.
    """
    values, mean, std = tf.cast(values, tf.float32), tf.constant(mean, tf.float32), tf.constant(std, tf.float32)
    standardized = (values / 2 - mean / 2) / std * 2  # A difference of two numbers may exceed float32.
    return tf.where(tf.math.is_finite(values), standardized, tf.zeros_like(values))


class ColumnProfile:
    """What is known about a column from the cells seen so far.

    Args:
      max_distinct: of its values that are counted.
      kind: if it is given, NUMERIC or CATEGORICAL.

    Attributes:
      values: counts of the distinct cells that are not missing.
      moments: of its numbers; only if is_numeric, or is_mostly_numeric, of all.
      is_integer: whether each cell that is not missing is an integer.
      first_text: (line, cell) of the first cell that is neither missing nor a number; None if the kind is given.
      num_missing: how many are missing.
    """

    def __init__(self, max_distinct: int, kind: str | None = None):
        self.values = ValueCounts(max_distinct)
        self.moments = Moments()
        self.is_integer = self._is_parsed = kind != CATEGORICAL
        self.first_text: tuple[int, str] | None = None
        self._is_given = kind is not None
        self._num_texts = 0  # Without those that almost are numbers.
        self.num_missing = 0

    def update(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Adds cells, and the lines that they are in."""
        present = [cell for cell in cells if cell not in MISSING]
        self.num_missing += len(cells) - len(present)
        self.values.update(present)
        if not self._is_parsed:
            return
        found = [to_number(cell) for cell in present]
        numbers = [number for number in found if number is not None]
        if len(numbers) < len(found) and not self._is_given:  # If it is given, rows without a number are reported later.
            self.is_integer = False
            self._add_texts([cell for cell, number in zip(present, found) if number is None], cells, lines)
        self.is_integer = self.is_integer and all(number.is_integer() for number in numbers)
        self.moments.update(numbers)

    def _add_texts(self, texts, cells, lines):
        self.first_text = self.first_text or (lines[cells.index(texts[0])], texts[0])
        self._num_texts += sum(not is_almost_number(text) for text in texts)
        self._is_parsed = self._num_texts <= self.values.total / 2  # There will hardly be nine numbers for each of these texts.

    @property
    def is_numeric(self) -> bool:
        """Whether each cell that is not missing is a number."""
        return self._is_parsed and self.first_text is None

    @property
    def is_mostly_numeric(self) -> bool:
        """Whether some cells are not numbers, but nine in ten are, or almost are."""
        return self._is_parsed and self.first_text is not None and self._num_texts <= self.values.total / 10

    @property
    def identifies(self) -> bool:
        """Whether each row has its own value, as an id has."""
        return self.values.are_distinct and not self.num_missing and self.values.total >= _MIN_DISTINCT_ROWS
