"""The predictions of an exported model, compared with those of its checkpoint."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import dataclasses
import math
import time
from typing import Any

import numpy as np

from estimator_trainer.common.inference.outcome import outcome

MAX_EXAMPLES = 2000
_MAX_SECONDS = 60
# By --quantize: for float32, of the largest magnitude of an output; else of the accuracy, or of the labels' standard deviation.
TOLERANCES = {None: 0.001, 'float16': 0.01, 'int8': 0.03}
_FLIPPED = 0.01  # The share of examples whose class, or other integer, may be another: where two are almost even.

Call = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


@dataclasses.dataclass
class Difference:
    """How an output differs on some examples: of floats, the absolute differences, and the largest magnitude of its values."""

    is_float: bool
    largest: float = 0.0
    total: float = 0.0
    count: int = 0
    scale: float = 0.0
    examples: int = 0
    different: float = 0

    def add(self, before: np.ndarray, after: np.ndarray) -> None:
        """Adds the values [batch, ...] of a batch; raises ValueError if their shapes differ."""
        if before.shape != after.shape:
            raise ValueError(f'has the shape {list(after.shape)}, not {list(before.shape)}')
        found = difference(before, after)
        self.examples += len(before)
        is_other = found.reshape(len(before), -1) != 0
        # Of a mask, the share of its pixels: in many, there is one where two classes are almost even.
        self.different += float((is_other.mean(1) if before.ndim > 2 else is_other.any(1)).sum())
        self.largest = max(self.largest, float(found.max(initial=0)))
        self.total, self.count = self.total + float(found.sum()), self.count + found.size
        self.scale = max(self.scale, magnitude(before))

    @property
    def mean(self) -> float:
        return self.total / max(self.count, 1)


def difference(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Returns the absolute differences of two arrays; 0 where both are NaN, or the same infinity; else infinite there."""
    before, after = np.asarray(before, np.float64), np.asarray(after, np.float64)
    with np.errstate(invalid='ignore'):
        found = np.abs(after - before)
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    return np.where(same, 0, np.where(np.isnan(found), np.inf, found))


def magnitude(values: np.ndarray) -> float:
    """Returns the largest finite magnitude of an array."""
    return float(
        np.abs(np.asarray(values, np.float64), where=np.isfinite(values), out=np.zeros(np.shape(values))).max(initial=0)
    )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The differences of the first examples of a split, by output; and the metric of both, if their labels are known.

    spread is what a lost metric is a share of: 1 for the accuracy, the standard deviation of the labels for the RMSE.
    """

    split: str
    examples: int
    differences: dict[str, Difference]
    metric: str | None = None
    before: float = math.nan
    after: float = math.nan
    spread: float = 1.0

    @property
    def largest(self) -> tuple[str, Difference]:
        """The output with the largest difference in terms of its scale; of floats, if there are some."""
        floats = {name: found for name, found in self.differences.items() if found.is_float} or self.differences
        return max(floats.items(), key=lambda item: item[1].largest / max(item[1].scale, 1e-30))

    def to_json(self) -> dict[str, Any]:
        name, found = self.largest
        facts = {'split': self.split, 'examples': self.examples, 'output': name, 'largest_difference': _rounded(found.largest)}
        if self.metric:
            facts |= {'metric': self.metric, 'checkpoint': _rounded(self.before), 'exported': _rounded(self.after)}
        return facts

    def excess(self, quantize: str | None) -> str:
        """Returns what exceeds the tolerance of a kind of quantization, '' if nothing does."""
        limit, where = TOLERANCES[quantize], f'on {self.examples} examples of {self.split}'
        if quantize and self.metric:
            lost = (self.before - self.after) if self.metric == 'accuracy' else (self.after - self.before) / self.spread
            if not lost <= max(limit, 1.01 / self.examples if self.metric == 'accuracy' else 0):
                of = '' if self.metric == 'accuracy' else " of the labels' standard deviation"
                return f'the {self.metric} is {self.after:.6g}, not {self.before:.6g}, {where}: more than {limit}{of} is lost'
            broken = [name for name, found in self.differences.items() if found.is_float and math.isinf(found.largest)]
            return f'{broken[0]} differs in values that are not finite {where}' if broken else ''
        for name, found in self.differences.items():
            if found.is_float:
                size = found.mean if quantize else found.largest
                if not size <= limit * found.scale:
                    kind = 'on average' if quantize else 'at most'
                    most = f'more than {limit} of its largest value, {found.scale:.3g}'
                    return f'{name} differs by {size:.3g} {kind} {where}, {most}'
            elif found.different > max(1, max(_FLIPPED, limit) * found.examples):
                return f'{name} differs in {found.different:g} of {found.examples} examples of {self.split}'
        return ''


def _rounded(number):
    return float(f'{number:.6g}')


def compare(
    split: str, before: Call, after: Call, batches: Iterable[Mapping[str, np.ndarray]], labels: Iterator[Any]
) -> Comparison:
    """Compares the predictions of two functions for batches, up to MAX_EXAMPLES examples or a minute.

    Args:
      before, after: functions from {name: array [batch, ...]} to predictions, {name: array [batch, ...]}; see `compared`.
      labels: of the examples, None where unknown.

    Raises:
      ValueError: shapes differ, or there are no examples.
    """
    differences: dict[str, Difference] = {}
    outcomes: list[tuple[Any, Any, Any]] = []
    end, count = time.monotonic() + _MAX_SECONDS, 0
    for batch in limited(batches, MAX_EXAMPLES):
        pair = [{name: np.asarray(value) for name, value in call(batch).items()} for call in (before, after)]
        for name in compared(*pair):
            found = differences.setdefault(name, Difference(pair[0][name].dtype.kind == 'f'))
            try:
                found.add(pair[0][name], pair[1][name])
            except ValueError as error:
                raise ValueError(f'{name} {error}') from None
        size = len(next(iter(batch.values())))
        outcomes += zip(*(_outcomes(values, size) for values in pair), [next(labels) for _ in range(size)])
        count += size
        if time.monotonic() > end:
            break
    if not differences:
        raise ValueError('there are no examples or outputs to compare')
    return Comparison(split, count, differences, *_metric(outcomes))


def compared(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> list[str]:
    """Returns the names of the predictions that can be compared: those of numbers that both have."""
    return [name for name, value in before.items() if name in after and value.dtype.kind in 'fiub']


def limited(batches: Iterable[Mapping[str, np.ndarray]], count: int) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches with at most `count` examples in all."""
    for batch in batches:
        batch = {name: value[:count] for name, value in batch.items()}
        size = len(next(iter(batch.values())))
        if size:
            yield batch
        count -= size
        if count <= 0:
            return


def _outcomes(values, size):
    """Returns the class of each example, int; or the number, float; or else None."""
    values = {name: value for name, value in values.items() if value.shape[:1] == (size,)}
    found = [outcome({name: value[i] for name, value in values.items()}) for i in range(size)]
    return [one.value if one.class_id is None else one.class_id for one in found]


def _metric(outcomes):
    """Returns the fields of a Comparison about its metric, of (before, after, label) of each example; none if unknown."""
    known = [row for row in outcomes if not any(value is None or np.ndim(value) for value in row)]
    if not known:
        return ()
    before, after, labels = map(np.array, zip(*known))
    if before.dtype.kind == 'i' and labels.dtype.kind in 'iub':
        return 'accuracy', float((before == labels).mean()), float((after == labels).mean())
    if before.dtype.kind != 'f' or labels.dtype.kind != 'f':  # A number beside a class is another matter.
        return ()
    if labels.min() == labels.max():  # There is no deviation to lose a share of.
        return ()
    errors = [float(np.sqrt(np.square(values - labels).mean())) for values in (before, after)]
    return 'rmse', *errors, float(labels.std())
