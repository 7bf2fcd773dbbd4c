"""Training examples that are probably labeled wrongly, ranked by their margins."""

from collections.abc import Iterable, Mapping, Sequence
import csv
import heapq
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import to_csv, write
from estimator_trainer.common.inference.outcome import Outcome
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.pipeline.identity import COLUMNS

SHOWN = 100  # On the page.
_LEAST = np.finfo(np.float32).tiny


class Scored(NamedTuple):
    """A training example with its prediction, the outcome of that, and its score; origin is whose it is."""

    score: float
    prediction: Prediction
    outcome: Outcome
    origin: Any


class Suspect(NamedTuple):
    """A suspect: what tells it apart; its label and the predicted class; the probability of the label; its score."""

    fields: Mapping[str, Any]
    label: int
    class_id: int
    probability: float
    score: float


class Ranked(NamedTuple):
    """The suspects, the lowest score first; the first of them as they were predicted; and the number of all examples."""

    suspects: Sequence[Suspect]
    shown: Sequence[Scored]
    total: int


def areas(numbers: Iterable[np.ndarray], margins: np.ndarray) -> np.ndarray:
    """Returns the area under the margin of each example: the mean of its margins over the epochs, float64 [examples].

    NaN for an example that was not recorded. (G. Pleiss et al.: Identifying Mislabeled Data using the Area Under the Margin
    Ranking, 2020.)

    Args:
      numbers: those of the examples in the order of training, int64 [...], in any number of arrays.
      margins: float [n], in the same order; NaN counts for nothing.
    """
    sums, times, start = np.zeros(0), np.zeros(0), 0
    for some in numbers:
        flat = some.ravel()[: len(margins) - start]
        known = margins[start : start + len(flat)].astype(np.float64)
        start += len(flat)
        is_known = ~np.isnan(known)
        if flat.size and flat.max() >= len(sums):
            sums, times = (np.append(values, np.zeros(flat.max() + 1 - len(sums))) for values in (sums, times))
        np.add.at(sums, flat[is_known], known[is_known])
        np.add.at(times, flat[is_known], 1)
    with np.errstate(invalid='ignore'):
        return sums / times


def out_of_fold(found: Outcome, label: int) -> float:
    """Returns the margin of a prediction: the logit of the label minus the largest other one, by the probabilities."""
    assert found.probabilities is not None
    others = np.delete(found.probabilities, label)
    return float(np.log(max(found.probabilities[label], _LEAST)) - np.log(max(others.max(), _LEAST)))


def rank(scored: Iterable[Scored], top: int) -> Ranked:
    """Returns the examples whose score is negative, as that of another class is larger; or those of the `top` lowest scores."""
    rows: list[tuple[float, int, Suspect]] = []
    worst: list[tuple[float, int, Scored]] = []  # A heap, as pictures take memory.
    total = 0
    for total, one in enumerate(scored, 1):
        if math.isnan(one.score) or not top and one.score >= 0:
            continue
        label = int(one.prediction.label)
        suspect = Suspect(one.prediction.fields, label, int(one.outcome.class_id or 0), _probability(one), one.score)
        rows.append((one.score, total, suspect))
        item = -one.score, -total, one
        (heapq.heappush if len(worst) < min(SHOWN, top or SHOWN) else heapq.heappushpop)(worst, item)
    suspects = [suspect for *_, suspect in sorted(rows, key=lambda row: row[:2])]
    return Ranked(suspects[: top or None], [one for *_, one in sorted(worst, key=lambda item: item[:2], reverse=True)], total)


def _probability(one):
    return math.exp(-one.outcome.loss(one.prediction.label))


def save(path: str, suspects: Sequence[Suspect], class_names: Sequence[str] | None) -> None:
    """Writes suspects.csv, which the hyper-parameter `exclude` takes; a file with other rows becomes PATH.old."""
    places = [name for name in COLUMNS if any(name in one.fields for one in suspects)] or [COLUMNS[-1]]
    rows: list[list[Any]] = [[*places, 'label', 'predicted', 'probability_of_label', 'score', 'corrected']]
    for one in suspects:
        names = (class_names[number] if class_names else number for number in (one.label, one.class_id))
        numbers = (f'{number:.6g}' for number in (one.probability, one.score))
        rows.append([*(one.fields.get(name, '') for name in places), *names, *numbers, ''])
    content = to_csv(rows).encode()
    if tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path, 'rb') as file:
            before = file.read()
        if before != content:
            tf.io.gfile.rename(path, f'{path}.old', overwrite=True)
            tf.logging.warning('%s had other rows: that file is now %s.old.', path, path)
    write(path, content)


def read(path: str) -> list[dict[str, Any]]:
    """Returns the rows of suspects.csv, with numbers as such, and without empty cells."""
    with tf.io.gfile.GFile(path) as file:
        return [{name: _value(name, text) for name, text in row.items() if text} for row in csv.DictReader(file)]


def _value(name, text):
    if name in ('probability_of_label', 'score'):
        return float(text)
    return int(text) if name in ('line', 'row', 'record', 'example') else text


def is_untouched(path: str) -> bool:
    """Whether a suspects.csv is as `save` writes it, without corrected labels."""
    with tf.io.gfile.GFile(path, 'rb') as file:
        header, *rows = file.read().splitlines() or [b'']
    return header.endswith(b',score,corrected') and all(row.endswith(b',') for row in rows)
