"""Means and standard deviations, and standardization by them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

_ROUNDING = 1e-12  # Of a mean: a smaller spread is that of equal numbers.
_FLOAT32_TINY = 1e-37  # Smaller numbers may count as 0.


class Moments:
    """The mean and standard deviation of a stream of numbers or vectors, merged over its parts.

    Non-finite numbers are ignored, and counted by `missing`.

    (T. Chan, G. Golub, R. LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979.)
    """

    def __init__(self) -> None:
        self._count: Any = 0
        self._mean: Any = 0.0
        self._squares: Any = 0.0
        self.missing = 0

    def update(self, values: Sequence[float] | np.ndarray) -> None:
        """Adds numbers, or arrays of one shape along the first axis."""
        if not len(values):
            return
        array = np.asarray(values, np.float64)
        is_finite = np.isfinite(array)
        added = is_finite.sum(axis=0)
        self.missing += array.size - int(added.sum())
        count = np.maximum(self._count + added, 1)
        mean = np.where(is_finite, array, 0).sum(axis=0) / np.maximum(added, 1)
        delta = mean - self._mean
        deviations = np.where(is_finite, array - mean, 0)
        self._squares = self._squares + np.square(deviations).sum(axis=0) + delta * delta * self._count * added / count
        self._mean = self._mean + delta * added / count
        self._count = self._count + added

    @property
    def count(self) -> int:
        """The number of values; for vectors, in the component with the most."""
        return int(np.max(self._count))

    @property
    def mean(self) -> Any:
        """A float, or a nested list."""
        return np.asarray(self._mean).tolist()

    def describe(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the metadata of these numbers, regardless of the hyper-parameters."""
        return {'mean': self.mean, 'std': self.std}

    @property
    def is_exact_in_float32(self) -> bool:
        """Whether rounding to float32 changes the numbers by less than a hundredth of their standard deviation."""
        spread, size = self._spread(), np.abs(self._mean)
        return bool(np.all((spread <= _ROUNDING * size) | (size * 2.0**-24 < spread / 100)))

    @property
    def is_constant(self) -> bool:
        """Whether no two numbers in the same place differ; also if there are none."""
        return bool(np.all(self._spread() <= _ROUNDING * np.abs(self._mean)))

    def _spread(self):
        return np.sqrt(self._squares / np.maximum(self._count, 1))

    @property
    def std(self) -> Any:
        """A float, or a nested list; 1 where it is too small to distinguish the values in float32."""
        std = self._spread()
        return np.where(std > np.maximum(1e-6 * np.abs(self._mean), _FLOAT32_TINY), std, 1.0).tolist()


def standardize(values: tf.Tensor, mean: Any, std: Any) -> tf.Tensor:
    """Returns numbers minus the mean, divided by the standard deviation, as float32; 0 for non-finite ones.

    Args:
      values: of any shape and numeric type; NaN is missing.
      mean: a float, or a nested list that broadcasts.
      std: like mean.
    """
    values, mean, std = tf.cast(values, tf.float32), tf.constant(mean, tf.float32), tf.constant(std, tf.float32)
    standardized = (values / 2 - mean / 2) / std * 2  # A difference of two numbers may exceed float32.
    return tf.where(tf.math.is_finite(values), standardized, tf.zeros_like(values))


def without(marks: Sequence[float], values: tf.Tensor) -> tf.Tensor:
    """Returns numbers, float32 of any shape, with NaN in place of those that mark missing ones, such as -999."""
    for mark in marks:
        values = tf.where(tf.equal(values, np.float32(mark)), tf.fill(tf.shape(values), np.float32(np.nan)), values)
    return values
