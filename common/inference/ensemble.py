"""The predictions of several models of the same examples as those of one: averages."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from estimator_trainer.common.errors import RunError

_PROBABILITIES = 'probabilities'
_CLASSES = ('class', 'class_ids')  # Of the largest probability: [...], and with a last dimension of 1 in canned Estimators.
_NAMES = 'classes'  # In canned Estimators: that of the class, of those in _ALL.
_ALL = 'all_classes'


def average(members: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns the mean of each prediction of floats; a class is that of the mean probabilities, the first of several.

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
    found: dict[str, np.ndarray] = {}
    for name, value in first.items():
        values = [np.asarray(member[name]) for member in members]
        if len({array.shape for array in values}) > 1:
            raise RunError(f'the prediction {name} has different shapes in the folds: {[array.shape for array in values]}')
        if np.asarray(value).dtype.kind == 'f':
            found[name] = np.mean(values, axis=0, dtype=np.float64).astype(values[0].dtype)
    for name in first.keys() - found.keys():
        found[name] = _of_class(name, first, found)
        if found[name] is None:
            found[name] = _same(name, [np.asarray(member[name]) for member in members])
    return {name: found[name] for name in first}


def _of_class(name, first, averaged) -> Any:
    """Returns a prediction of a class from the averaged probabilities, or None if it is another."""
    scope, _, kind = name.rpartition('/')
    probabilities = averaged.get(f'{scope}/{_PROBABILITIES}' if scope else _PROBABILITIES)
    if probabilities is None or kind not in (*_CLASSES, _NAMES):
        return None
    shape, best = np.shape(first[name]), probabilities.argmax(-1)
    if kind == _NAMES:
        names = first.get(f'{scope}/{_ALL}' if scope else _ALL)
        return None if names is None else np.take_along_axis(np.asarray(names), best[..., None], -1).reshape(shape)
    return best.astype(np.asarray(first[name]).dtype).reshape(shape) if best.size == np.prod(shape) else None


def _same(name, values):
    if all(np.array_equal(value, values[0]) for value in values):
        return values[0]
    raise RunError(f'the prediction {name} differs between the folds, and is no number that could be averaged: use one fold')
