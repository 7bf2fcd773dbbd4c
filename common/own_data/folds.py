"""The rows of a fold, which take the place of a split eval, in a file of a user's own data."""

from collections.abc import Iterable, Sequence
import dataclasses
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import folds
from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.own_data.splits import SplitFile, checksum
from estimator_trainer.common.own_data.values import key
from estimator_trainer.hparams.build import HParams

_MAX_NAMED = 10


def divided(params: HParams) -> str:
    """Returns the split that is divided into folds; '' if none is."""
    return params.train_split if params.get('folds') else ''


def facts(params: HParams) -> list[Any]:
    """Returns what decides which rows are in a fold, for the name of a conversion."""
    return [['fold', params.fold, params.folds, params.get('group', '')]] if params.get('folds') else []


def with_fold(file: SplitFile, rows: Iterable[tuple[int, str, str]], params: HParams) -> SplitFile:
    """Returns the file with the rows of a fold moved to its second split, and warns of classes that folds lack.

    Args:
      file: with two splits, the second empty.
      rows: (number, class, group) of the rows that have a target; the class of numbers is always '', as is the group of rows
        without groups.
      params: hyper-parameters: folds, fold, and group if there are groups.

    Raises:
      UsageError: there are fewer rows, or groups, than folds.
    """
    numbers, classes, groups = ([*column] for column in zip(*rows)) if (rows := [*rows]) else ([], [], [])
    if lost := sum(not group for group in groups) if params.get('group') else 0:
        raise UsageError(f'group={params.group}: {lost} rows of {file.path} have no value there: give each its group')
    labels, names = _numbered(map(key, classes))
    members, group_names = _numbered(groups)
    has_groups = bool(params.get('group'))
    if (count := len(group_names if has_groups else numbers)) < params.folds:
        unit = f'{count} groups of {params.group}' if has_groups else f'{count} rows'
        raise UsageError(f'folds={params.folds}: {file.path} has only {unit}: use fewer folds')
    if has_groups:
        found = folds.grouped(members, labels, params.folds)
    else:
        found = folds.stratified(np.array([checksum(number) for number in numbers], np.uint64), labels, params.folds)
    if lacking := folds.lacking(found, labels, names, params.folds):
        tf.logging.warning('%s: folds lack classes: %s.', file.path, listed(lacking, _MAX_NAMED))
    return dataclasses.replace(file, moved=frozenset(np.array(numbers)[found == params.fold - 1].tolist()))


def refuse_folds(params: HParams) -> None:
    """Raises UsageError if folds are asked of a dataset that has none."""
    if params.get('folds'):
        raise UsageError(
            f'folds={params.folds}: --dataset={params.dataset} describes features by all records of {params.train_split}, '
            'those of the fold included: write a directory for each fold, or use --dataset=table, text or image_folder'
        )


def _numbered(values: Iterable[str]) -> tuple[np.ndarray, Sequence[str]]:
    """Returns the numbers of values, int [n], from 0 on in the order of their texts, and the text of each number."""
    found = [*values]
    names = sorted({*found})
    place = {name: number for number, name in enumerate(names)}
    return np.array([place[value] for value in found], np.int64), names
