"""Figures about predicted masks: the confusions of pixels, IoU by class, and the pictures with the most wrong pixels."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common.inference.predicted_masks import shares_of
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.ops.segmentation import overlay
from estimator_trainer.common.report.charts import number, percent
from estimator_trainer.common.report.classification import MAX_MATRIX, to_cells
from estimator_trainer.common.report.mistakes import Mistake, place_of, to_data_uri
from estimator_trainer.common.report.predicted import Worst
from estimator_trainer.common.targets import IGNORED

_SHOWN = 3  # Classes of a mask.


class Row(NamedTuple):
    """A class; its measures are NaN where they are undefined."""

    name: str
    pixels: int
    iou: float
    precision: float
    recall: float


class Found(NamedTuple):
    """What the predictions of a split are.

    Attributes:
      counts: int64 [classes, classes], the pixels of each class, the row, by predicted class, without IGNORED ones.
      pictures: the number of pictures.
      worst: (share of wrong pixels, prediction), the largest first.
    """

    counts: np.ndarray
    pictures: int
    worst: Sequence[tuple[float, Prediction]]


def collect(predictions: Iterable[Prediction], num_classes: int, num_worst: int) -> Found | None:
    """Returns what predictions with the masks as labels are; None if there are no masks."""
    counts, pictures, worst = np.zeros([num_classes, num_classes], np.int64), 0, Worst(num_worst)
    for prediction in predictions:
        if prediction.label is None or prediction.values.get('class', np.zeros(0)).ndim != 2:  # Of a user's own model.
            continue
        known = prediction.label != IGNORED
        label, classes = prediction.label[known], prediction.values['class'][known]
        counts += np.bincount(label * num_classes + classes, minlength=num_classes**2).reshape(counts.shape)
        wrong = float((label != classes).mean()) if label.size else 0.0
        if wrong:
            small = {'class': prediction.values['class']}  # Probabilities would take much memory.
            worst.add(wrong, Prediction(prediction.fields, small, None, prediction.image, prediction.label))
        pictures += 1
    return Found(counts, pictures, worst.ordered()) if pictures else None


def figures(found: Found, names: Sequence[str]) -> dict[str, Any]:
    """Returns what the page shows about the predictions."""
    counts, right = found.counts, found.counts.diagonal()
    labels, predicted = counts.sum(1), counts.sum(0)
    with np.errstate(invalid='ignore'):
        iou, precision, recall = right / (labels + predicted - right), right / predicted, right / labels
    rows = [Row(*row) for row in zip(names, labels.tolist(), iou.tolist(), precision.tolist(), recall.tolist())]
    total = max(int(counts.sum()), 1)
    frequent = int(labels.argmax())
    text = (
        f'Of {total:,} pixels in {found.pictures:,} pictures, without those to ignore, {percent(right.sum() / total)} are '
        f'predicted correctly; always predicting {names[frequent]}, the most frequent class, would be correct for '
        f'{percent(labels[frequent] / total)}. The mean IoU of the classes is '
        f'{number(float(iou[~np.isnan(iou)].mean())) if counts.any() else "unknown"}.'
    )
    return {'text': text, 'names': names, 'classes': rows, 'matrix': to_cells(counts) if len(names) <= MAX_MATRIX else None}


def mistakes(found: Found, metadata: Mapping[str, Any]) -> list[Mistake]:
    """Returns the pictures with the most wrong pixels as the page shows them, with the mask, and the predicted one."""
    described = []
    for wrong, prediction in found.worst:
        pair = prediction.label, prediction.values['class']
        pictures = [to_data_uri(overlay(prediction.image, mask)) for mask in pair] if prediction.image is not None else ['', '']
        label, predicted = (_text(shares_of(mask, metadata)) for mask in pair)
        place, detail = place_of(prediction.fields), f'{percent(wrong)} of pixels wrong'
        described.append(Mistake(place, label, predicted, detail, pictures[0], {}, pictures[1]))
    return described


def _text(shares):
    largest = sorted(shares.items(), key=lambda item: -item[1])[:_SHOWN]
    return ', '.join(f'{name} {percent(share)}' for name, share in largest if share)
