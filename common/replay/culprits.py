"""The examples of a step by which its loss or gradients are not finite: others take their places, until it is finite."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

_TRIES = 10  # Examples of which each may make a finite step.


class Culprits(NamedTuple):
    """The examples by which a step is not finite.

    Attributes:
      found: their numbers in the batch, in order.
      others: int [batch], the examples of the batch without them: the number of another one takes the place of each.
      good: this number.
      are_all: whether the step is finite without them; otherwise time ran out.
    """

    found: list[int]
    others: np.ndarray
    good: int
    are_all: bool

    def alone(self, number: int) -> np.ndarray:
        """Returns the examples of the batch with one of the culprits, int [batch]."""
        return np.where(np.arange(len(self.others)) == number, number, self.others)


def find(
    size: int, is_finite: Callable[[np.ndarray], bool], candidates: Iterable[int], is_late: Callable[[], bool] = lambda: False
) -> Culprits | None:
    """Finds them by halves: with k of n, in about 2 k log2(n) steps.

    Args:
      size: of the batch.
      is_finite: whether the step is, of a batch with these examples, int [size], in its places.
      candidates: numbers of examples, first those that are likely to be good.
      is_late: whether time ran out.

    Returns:
      None if none are found: no example makes a finite step in all places, each half is finite, or time ran out.
    """
    tried = [*candidates][:_TRIES]
    good = next((number for number in tried if is_finite(np.full(size, number))), None)
    if good is None:
        return None
    places = np.arange(size)

    def search(part: Sequence[int]) -> list[int]:
        if is_late() or is_finite(np.where(np.isin(places, part), places, good)):
            return []
        half = len(part) // 2
        return [*part] if len(part) == 1 else search(part[:half]) + search(part[half:])

    found = search(range(size))
    others = np.where(np.isin(places, found), good, places)
    return Culprits(found, others, good, is_finite(others)) if found else None
