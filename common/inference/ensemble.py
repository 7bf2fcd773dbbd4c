"""The predictions of several models of the same examples as those of one: averages."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common import tags
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.inference.threshold import OUTPUT

CLASS, CLASS_IDS, CLASS_NAME, CLASSES = 'class', 'class_ids', 'class_name', 'classes'  # The latter of canned Estimators.
PREDICTED = 'predicted'  # Of labels that apply or not.
_ALL = 'all_classes'
_ROUNDING = 0.01  # Of bfloat16.


class Source(NamedTuple):
    """What a prediction follows from, by name.

    Attributes:
      kind: CLASS, CLASS_IDS, CLASS_NAME or CLASSES of the largest probability, or PREDICTED of those from 0.5 on.
      key: of the target, '' of the only one.
      probabilities: of the same target.
      threshold: that of the second of two classes, if there is one.
      all_classes: the names of canned Estimators.
    """

    kind: str
    key: str
    probabilities: str
    threshold: str
    all_classes: str


def source_of(name: str, names: Container[str]) -> Source | None:
    """Returns what a prediction or output follows from, OUTPUT/class_KEY from OUTPUT/probabilities_KEY; None of others.

    Args:
      names: of all predictions.
    """
    scope, slash, last = name.rpartition('/')
    scope += slash
    for kind in (CLASS, CLASS_IDS, CLASS_NAME, CLASSES, PREDICTED):
        suffix = last.removeprefix(kind)
        probabilities = f'{scope}probabilities{suffix}'
        if last.startswith(kind) and suffix[:1] in ('', '_') and probabilities in names:
            return Source(kind, suffix[1:], probabilities, f'{scope}{OUTPUT}{suffix}', f'{scope}{_ALL}')
    return None


def average(members: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns the mean of each prediction of floats; a class is that of the mean probabilities, by the mean threshold if any.

    Predictions of other types must be the same in all.

    Args:
      members: the predictions of each model, {name: array [..., size]}, for the same batch or the same example. A class may be
        one of several outputs: OUTPUT/class is of OUTPUT/probabilities.

    Raises:
      RunError: the models have different predictions, or one that can neither be averaged nor is the same in all.
    """
    first = members[0]
    if any(member.keys() != first.keys() for member in members):
        raise RunError(f'the folds have different predictions: {"; ".join(", ".join(sorted(member)) for member in members)}')
    if tags.are_predicted(first):
        raise RunError('the tags of tokens are not averaged over folds: give the --output_dir of one of them')
    found: dict[str, np.ndarray] = {}
    for name, value in first.items():
        values = [np.asarray(member[name]) for member in members]
        if len({array.shape for array in values}) > 1:
            raise RunError(f'the prediction {name} has different shapes in the folds: {[array.shape for array in values]}')
        if np.asarray(value).dtype.kind == 'f':
            found[name] = np.mean(values, axis=0, dtype=np.float64).astype(values[0].dtype)
    for name in first.keys() - found.keys():
        found[name] = _of_class(name, members, found)
        if found[name] is None:
            found[name] = _same(name, [np.asarray(member[name]) for member in members])
    return {name: found[name] for name in first}


def _of_class(name, members, averaged) -> Any:
    """Returns a prediction of a class from the averaged probabilities, or None if it is another."""
    first = members[0]
    source, shape = source_of(name, averaged), np.shape(first[name])
    if source is None or source.kind == CLASS_NAME:
        return None
    probabilities = averaged[source.probabilities]
    threshold = averaged.get(source.threshold)
    is_chosen = source.kind in (CLASS, CLASS_IDS) and threshold is None
    if source.kind != PREDICTED and not (probabilities.ndim and probabilities.shape[-1] > 1):  # Of one class alone.
        return None
    if is_chosen and not all(_are_best(member[name], member[source.probabilities]) for member in members):
        return None
    if source.kind == PREDICTED:
        best = probabilities >= 0.5
    else:
        best = probabilities.argmax(-1) if threshold is None else probabilities[..., 1] >= threshold
    if best.size != np.prod(shape):
        return None
    if source.kind == CLASSES:
        if source.all_classes not in first:
            return None
        names = np.asarray(first[source.all_classes])
        return np.take_along_axis(names, best[..., None].astype(np.int64), -1).reshape(shape)
    return best.astype(np.asarray(first[name]).dtype).reshape(shape)


def _are_best(classes, probabilities):
    """Whether classes are those of the largest probabilities, or of nearly as large ones: models compare logits."""
    classes, count = np.asarray(classes), probabilities.shape[-1]
    if classes.dtype.kind not in 'iu' or classes.size * count != probabilities.size:
        return False
    if ((classes < 0) | (classes >= count)).any():
        return False
    chosen = np.take_along_axis(probabilities, classes.reshape(*probabilities.shape[:-1], 1).astype(np.int64), -1)
    return not (chosen[..., 0] < probabilities.max(-1) * (1 - _ROUNDING)).any()  # Nor of NaN.


def _same(name, values):
    if all(np.array_equal(value, values[0]) for value in values):
        return values[0]
    raise RunError(f'the prediction {name} differs between the folds, and is no number that could be averaged: use one fold')
