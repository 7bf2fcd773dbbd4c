"""Permutation importance: how much worse a model predicts if the values of one column are shuffled among examples.

(L. Breiman: Random Forests, 2001.)
"""

from collections.abc import Callable, Mapping, Sequence
import time
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.report.charts import number

_REPEATS = 5
_SECONDS = 45  # After which no other column is begun.

Loss = Callable[[Sequence[bytes]], float]


class Importance(NamedTuple):
    """The mean increase of the loss over the repetitions, its standard deviation, and its share of the largest one."""

    column: str
    increase: float
    spread: float
    share: float


class Importances(NamedTuple):
    """text is the result in words; columns are the most important first; unknown those for which the time did not suffice."""

    text: str
    columns: list[Importance]
    unknown: list[str]


def measure(
    records: Sequence[bytes],
    columns: Mapping[str, Sequence[str]],
    loss: Loss,
    loss_name: str,
    clock: Callable[[], float] = time.monotonic,
) -> Importances:
    """Measures the importance of columns.

    Args:
      records: serialized tf.train.Examples.
      columns: {name: names of its features in the examples}, which are shuffled together.
      loss: function of records in this order, with shuffled values.
      loss_name: what it is.
      clock: seconds; all columns are measured once before any is measured again.
    """
    random, end = np.random.default_rng(0), clock() + _SECONDS
    parsed = [tf.train.Example.FromString(record) for record in records]
    found: dict[str, list[float]] = {name: [] for name in columns}
    base = loss(records)
    for _ in range(_REPEATS):
        for name, features in columns.items():
            if clock() < end:
                found[name].append(loss(shuffled(parsed, features, random.permutation(len(parsed)))) - base)
    means = {name: (float(np.mean(values)), float(np.std(values))) for name, values in found.items() if values}
    most = max([mean for mean, _ in means.values() if mean > 0], default=1.0)
    measured = [Importance(name, *pair, max(pair[0] / most, 0)) for name, pair in means.items()]
    measured.sort(key=lambda one: (-one.increase, one.column))
    unknown = [name for name, values in found.items() if not values]
    return Importances(_describe(len(records), base, loss_name, measured), measured, unknown)


def _describe(count, base, loss_name, measured):
    text = f'How much the {loss_name}, {number(base)} on {count:,} examples, rises if the values of a column are shuffled.'
    if not measured or measured[0].increase <= 0:
        return f'{text} That of no column does.'
    first = measured[0]
    return f'{text} The most important is {first.column}: it rises by {number(first.increase)}.'


def shuffled(parsed: Sequence[tf.train.Example], features: Sequence[str], order: np.ndarray) -> list[bytes]:
    """Returns serialized examples in which example i has these features of example order[i], or lacks them as that one does."""
    result = []
    for example, other in zip(parsed, order):
        copy = tf.train.Example.FromString(example.SerializeToString())
        for name in features:
            copy.features.feature.pop(name, None)
            if name in parsed[other].features.feature:
                copy.features.feature[name].CopyFrom(parsed[other].features.feature[name])
        result.append(copy.SerializeToString())
    return result
