"""Figures about a classifier: its confusions, precision and recall by class, their curves, and its calibration."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common.report.charts import Chart, Series, number, percent, plot
from estimator_trainer.common.report.predicted import Predicted, name_of

MAX_MATRIX = 20  # Classes.
_MAX_CLASSES = 30
_MAX_CONFUSIONS = 10
_MAX_CURVES = 3
_BINS = 10


class Row(NamedTuple):
    """A class; recall and precision are NaN if it has no label, or no prediction."""

    name: str
    support: int
    precision: float
    recall: float
    f1: float


class Cell(NamedTuple):
    """The number of examples, and their share of those of the row."""

    examples: int
    share: float


def figures(
    found: Predicted, class_names: Sequence[str] | None, threshold: float | None = None, unit: str = 'examples'
) -> dict[str, Any]:
    """Returns what the page shows about the predictions of a classifier.

    Args:
      threshold: the least probability with which the second of two classes was predicted; None for the more probable class.
      unit: what has a class.
    """
    assert found.classes is not None
    known = 0 if found.probabilities is None else found.probabilities.shape[1]
    size = max(int(found.labels.max()) + 1, int(found.classes.max()) + 1, len(class_names or ()), known)
    # Of many classes, those that occur.
    numbers = np.arange(size) if size <= MAX_MATRIX else np.unique([found.labels, found.classes])
    names = [name_of(int(number), class_names) for number in numbers]
    labels, classes = (np.searchsorted(numbers, values) for values in (found.labels, found.classes))
    rows = by_class(labels, classes, names)
    shown = sorted(rows, key=lambda row: np.nan_to_num(row.f1, nan=2))[:_MAX_CLASSES] if len(rows) > _MAX_CLASSES else rows
    mistakes = confusions(labels, classes, names)
    return {
        'text': _describe(labels, classes, names, mistakes, unit) + _describe_thresholds(found, names, threshold),
        'unit': unit,
        'names': names,
        'matrix': matrix(labels, classes, size) if size <= MAX_MATRIX else None,
        'confusions': mistakes,
        'classes': shown,
        'omitted': len(rows) - len(shown),
        'charts': [] if found.probabilities is None else _charts(found.labels, found.probabilities, class_names),
    }


def matrix(labels: np.ndarray, classes: np.ndarray, size: int) -> list[list[Cell]]:
    """Returns how many examples of each label, the row, are predicted as each class, the column."""
    return to_cells(np.bincount(labels * size + classes, minlength=size * size).reshape(size, size))


def to_cells(counts: np.ndarray) -> list[list[Cell]]:
    """Returns the cells of a confusion matrix, int [classes, classes]."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return [[Cell(int(n), float(share)) for n, share in zip(*row)] for row in zip(counts, shares)]


def confusions(labels: np.ndarray, classes: np.ndarray, names: Sequence[str]) -> list[tuple[str, str, int]]:
    """Returns the most frequent mistakes: (label, prediction, count)."""
    wrong = labels != classes
    pairs, counts = np.unique(np.stack([labels[wrong], classes[wrong]]), axis=1, return_counts=True)
    order = np.argsort(-counts, kind='stable')[:_MAX_CONFUSIONS]
    return [(names[pairs[0, i]], names[pairs[1, i]], int(counts[i])) for i in order]


def by_class(labels: np.ndarray, classes: np.ndarray, names: Sequence[str]) -> list[Row]:
    """Returns precision, recall and F1 of each class."""
    right, support, predicted = (
        np.bincount(values, minlength=len(names)) for values in (labels[labels == classes], labels, classes)
    )
    with np.errstate(invalid='ignore'):
        precision, recall, f1 = right / predicted, right / support, 2 * right / (support + predicted)
    return [Row(*row) for row in zip(names, support.tolist(), precision.tolist(), recall.tolist(), f1.tolist())]


def _describe(labels, classes, names, mistakes, unit):
    support = np.bincount(labels)
    frequent = int(support.argmax())
    text = (
        f'{percent(float((labels == classes).mean()))} of {len(labels):,} {unit} are predicted correctly; always predicting '
        f'{names[frequent]}, the most frequent class, would be correct for {percent(support[frequent] / len(labels))}.'
    )
    for label, other, count in mistakes[:1]:
        times = 'once' if count == 1 else f'{count:,} times'
        text += f' The most frequent mistake, {times}: {label} is taken for {other}.'
    return text


def _describe_thresholds(found, names, threshold):
    """Says precision, recall and F1 of the second of two classes at 0.5, as predicted, and at the best threshold."""
    if found.probabilities is None or found.probabilities.shape[1] != 2 or not (found.labels == 1).any():
        return ''
    scores, is_class = found.probabilities[:, 1], found.labels == 1
    recall, precision = pr_points(is_class, scores)
    f1 = 2 * precision * recall / np.maximum(precision + recall, np.finfo(float).tiny)
    best = np.unique(scores)[::-1][f1.argmax()]
    places = {'at a probability of 0.5': scores > 0.5}
    if threshold:
        places[f'from {number(threshold)} on, the decision_threshold of these predictions,'] = found.classes == 1
    places[f'from {number(best)} on, the best threshold here,'] = scores >= best
    return f' Of {names[-1]}, {"; ".join(_scores(place, is_class, predicted) for place, predicted in places.items())}.'


def _scores(place, is_class, predicted):
    right, count, support = (int(values.sum()) for values in (is_class & predicted, predicted, is_class))
    shown = [number(value) for value in (right / max(count, 1), right / support, 2 * right / (support + count))]
    return '{} precision is {}, recall {} and F1 {}'.format(place, *shown)


def _charts(labels, probabilities, class_names):
    return [
        precision_recall(labels, probabilities, class_names),
        calibration(labels == probabilities.argmax(1), probabilities.max(1)),  # Whatever the threshold.
    ]


def pr_points(is_positive: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns (recall, precision), float [thresholds], for each score as the threshold, in descending order.

    Args:
      is_positive: bool [n], with a positive example.
      scores: float [n].
    """
    order = np.argsort(-scores, kind='stable')
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # Equal scores pass together.
    true = np.cumsum(is_positive[order])[ends]
    return true / is_positive.sum(), true / (ends + 1)


def average_precision(recall: np.ndarray, precision: np.ndarray) -> float:
    """Returns the mean of the precisions, each weighted by the gain of recall."""
    return float(np.sum(np.diff(recall, prepend=0) * precision))


def precision_recall(labels: np.ndarray, probabilities: np.ndarray, class_names: Sequence[str] | None) -> Chart:
    """Returns the curve of the second of two classes; of more, those of the classes with the least average precision."""
    classes = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    curves = []
    for number_of_class in classes:
        if (is_positive := labels == number_of_class).any():
            points = pr_points(is_positive, probabilities[:, number_of_class])
            curves.append((average_precision(*points), number_of_class, points))
    curves.sort(key=lambda curve: curve[:2])
    shown = curves[:_MAX_CURVES]
    series = [
        Series(name_of(number_of_class, class_names), np.append(0, recall), np.append(precision[:1], precision), 'line', color)
        for color, (_, number_of_class, (recall, precision)) in enumerate(shown)
    ]
    means = ', '.join(f'{number(mean)} for {name_of(number_of_class, class_names)}' for mean, number_of_class, _ in shown)
    least = f' Of {len(curves)} classes, those with the lowest are shown.' if len(curves) > len(shown) else ''
    text = f'Precision by recall, as the threshold of the probability falls. Average precision: {means or "unknown"}.{least}'
    empty = [Series('', np.zeros(1), np.full(1, np.nan))]
    return plot('precision and recall', text, series or empty, 'recall', 'precision', (0, 1), (0, 1))


def calibration(is_right: np.ndarray, confidence: np.ndarray) -> Chart:
    """Returns the share of correct predictions by confidence, the probability of the predicted class, in ten intervals."""
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    counts = np.bincount(bins, minlength=_BINS)
    used = counts > 0
    mean, share = (np.bincount(bins, values, _BINS)[used] / counts[used] for values in (confidence, is_right))
    error = float(np.sum(counts[used] * np.abs(share - mean)) / counts.sum())
    gap = float(confidence.mean() - is_right.mean())
    lean = f': too {"confident" if gap > 0 else "cautious"} by {percent(abs(gap))} on average' if abs(gap) >= 0.005 else ''
    text = (
        'Share of correct predictions by confidence; the dashed diagonal is perfect. '
        f'Mean confidence {percent(confidence.mean())}, {percent(is_right.mean())} correct{lean}. '
        f'Expected calibration error: {percent(error)}. It is over {_BINS} intervals; the metric calibration_error is over 15.'
    )
    diagonal = Series('perfect', np.array([0.0, 1.0]), np.array([0.0, 1.0]), 'guide', 7)
    series = [diagonal, Series('predictions', mean, share, 'both', 0)]
    return plot('calibration', text, series, 'confidence', 'share correct', (0, 1), (0, 1))
