"""Folds: a division of examples into parts, each of which one of several runs evaluates on. They are numbered from 0."""

from collections.abc import Sequence

import numpy as np

from estimator_trainer.common.errors import UsageError


def stratified(positions: np.ndarray, classes: np.ndarray, folds: int) -> np.ndarray:
    """Returns the fold of each example, int [n]. Neither the folds nor their shares of a class differ by more than one example.

    Args:
      positions: numbers [n] that order the examples of a class, as checksums do.
      classes: int [n]; all the same where there are no classes.
    """
    found = np.empty(len(positions), np.int64)
    found[np.lexsort([positions, classes])] = np.arange(len(positions)) % folds
    return found


def grouped(groups: np.ndarray, classes: np.ndarray, folds: int) -> np.ndarray:
    """Returns the fold of each example, int [n]: each group is in one of them.

    The groups, the largest first, go where there is the least of their classes, as shares of each class.

    Args:
      groups: int [n], below the number of groups, which is at least `folds`.
      classes: int [n]; all the same where there are no classes.
    """
    members = np.split(np.argsort(groups, kind='stable'), np.cumsum(np.bincount(groups))[:-1])
    totals = np.bincount(classes)
    shares, sizes = np.zeros([folds, len(totals)]), np.zeros(folds, np.int64)
    found = np.empty(len(groups), np.int64)
    for group in sorted(members, key=len, reverse=True):
        share = np.bincount(classes[group], minlength=len(totals)) / np.maximum(totals, 1)
        fold = min(range(folds), key=lambda number: (shares[number] @ share, sizes[number]))
        shares[fold] += share
        sizes[fold] += len(group)
        found[group] = fold
    return found


def lacking(found: np.ndarray, classes: np.ndarray, names: Sequence[str], folds: int) -> list[str]:
    """Returns a text about each class that some folds lack.

    Args:
      found: the fold of each example.
      classes: the class of each, a place in `names`.
    """
    texts = []
    for label, name in enumerate(names):
        count = len(np.unique(found[classes == label]))
        if count < folds:
            texts.append(f'{name} is in {count} of {folds}' + (', whose run trains on none of it' if count == 1 else ''))
    return texts


def check(folds: int, fold: int) -> None:
    """Raises UsageError if these hyper-parameters are incompatible."""
    if folds == 1:
        raise UsageError('folds=1 leaves nothing to train on: use 2 or more, or 0 for none')
    if folds and fold > folds:
        raise UsageError(f'fold={fold} must be at most folds={folds}')
