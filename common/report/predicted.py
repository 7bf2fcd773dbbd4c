"""The predictions of a split as arrays: what the figures about a classifier, or about a regression, are drawn from."""

from collections.abc import Iterable, Iterator, Sequence
import dataclasses
import heapq
import itertools
import math
from typing import Any

import numpy as np

from estimator_trainer.common.inference.outcome import Outcome, outcome
from estimator_trainer.common.inference.prediction import Prediction

_MAX_PROBABILITIES = 50_000_000  # 200 MB.


@dataclasses.dataclass(frozen=True)
class Predicted:
    """The labels and outcomes of n examples, those of a split that have a label.

    Attributes:
      count: the number of all examples of the split.
      places: int [n], their positions there, ascending.
      labels: int [n] for a classifier, float [n] for a regression.
      classes: int [n], or None for a regression.
      values: float [n], or None for a classifier.
      probabilities: float32 [n, classes], or None if unknown or too many.
      loss: the mean of `Outcome.loss`.
      loss_name: what that is.
      worst: the predictions that are wrong with the largest losses, the largest first.
    """

    count: int
    places: np.ndarray
    labels: np.ndarray
    classes: np.ndarray | None
    values: np.ndarray | None
    probabilities: np.ndarray | None
    loss: float
    loss_name: str
    worst: list[Prediction]


class Worst:
    """The predictions with the largest losses, at most `count`; of equal ones the first."""

    def __init__(self, count: int):
        self._count, self._added = count, 0
        self._heap: list[tuple[float, int, Prediction]] = []

    def add(self, loss: float, prediction: Prediction) -> None:
        """Adds a prediction; NaN is the largest loss."""
        self._added += 1
        item = (math.inf if math.isnan(loss) else loss, -self._added, prediction)
        (heapq.heappush if len(self._heap) < self._count else heapq.heappushpop)(self._heap, item)

    def ordered(self) -> list[tuple[float, Prediction]]:
        """Returns (loss, prediction), the largest first."""
        return [(loss, prediction) for loss, _, prediction in sorted(self._heap, key=lambda item: item[:2], reverse=True)]


def collect(predictions: Iterable[Prediction], num_worst: int) -> Predicted | None:
    """Returns the predictions that have a label they can be compared with; None if there are none."""
    rows, probabilities, count, size = [], [], 0, 0
    worst = Worst(num_worst)
    for prediction in predictions:
        found, label = outcome(prediction.values), prediction.label
        if is_comparable(found, label):
            loss, result = found.loss(label), found.class_id if found.value is None else found.value
            rows.append((count, label, result, loss))
            if result != label:
                worst.add(loss, prediction)
            if found.probabilities is not None and size <= _MAX_PROBABILITIES:
                probabilities.append(np.asarray(found.probabilities, np.float32))
                size += len(found.probabilities)
        count += 1
    if not rows:
        return None
    places, labels, results, losses = map(np.array, zip(*rows))
    ordered = [prediction for _, prediction in worst.ordered()]
    if results.dtype.kind == 'f':
        shared: tuple[Any, ...] = (float(losses.mean()), 'mean absolute error', ordered)
        return Predicted(count, places, labels.astype(float), None, results, None, *shared)
    stacked = _stack(probabilities, labels)
    name = 'share of mistakes' if stacked is None and not probabilities else 'log loss'
    return Predicted(count, places, labels.astype(int), results, None, stacked, float(losses.mean()), name, ordered)


def is_comparable(found: Outcome, label: Any) -> bool:
    """Whether a label is of the kind of an outcome."""
    if label is None or np.ndim(label):
        return False
    kind = np.asarray(label).dtype.kind
    if found.class_id is not None:
        return kind in 'iub' and label >= 0 and found.class_id >= 0
    return kind in 'iufb' and found.value is not None


def _stack(probabilities, labels):
    """Returns the probabilities as an array if each example has those of the same classes, the labels among them; or None."""
    if len(probabilities) != len(labels) or len({len(row) for row in probabilities}) != 1:
        return None
    found = np.stack(probabilities)
    is_known = labels.min() >= 0 and labels.max() < found.shape[1]
    return found if is_known and np.isfinite(found).all() else None


def name_of(number: int, class_names: Sequence[str] | None) -> str:
    """Returns the name of a class, or its number if that is unknown."""
    return class_names[number] if class_names and number < len(class_names) else str(number)


def chosen(items: Iterable[Any], places: Sequence[int]) -> Iterator[Any]:
    """Yields the items at ascending places."""
    found, last = iter(items), -1
    for place in places:
        yield next(itertools.islice(found, place - last - 1, None))
        last = place
