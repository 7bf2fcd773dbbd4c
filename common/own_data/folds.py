"""Rows of a single file that are in another split than their checksums say: those of a fold, or one of each class."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import folds
from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.own_data.splits import SplitFile, checksum
from estimator_trainer.common.own_data.values import key
from estimator_trainer.common.own_data.vocabulary import ValueCounts
from estimator_trainer.hparams.build import HParams

_MAX_NAMED = 10

Rows = Iterable[tuple[int, str, str]]  # (number, class, group): '' of numbers, and without groups.


def divided(params: HParams) -> str:
    """Returns the split that is divided into folds; '' if none is."""
    return params.train_split if params.get('folds') else ''


def facts(params: HParams) -> list[Any]:
    """Returns what decides which rows are in a fold, for the name of a conversion."""
    if not params.get('folds'):
        return []
    group = params.get('group', '')
    return [['fold', params.fold, params.folds, group], *(['one group in all spellings'] if group else [])]


def is_by_class(files: Iterable[SplitFile], metadata: Mapping[str, Any]) -> bool:
    """Whether rows may move between the splits of a file; not in the data of older runs, which have saved their metadata."""
    return any(len(file.splits) > 1 for file in files) and (not metadata or 'moved_rows' in metadata)


def with_moved(file: SplitFile, classes: Mapping[str, ValueCounts], rows: Callable[[], Rows], params: HParams) -> SplitFile:
    """Returns the file with rows moved to its other split: those of the fold, or without folds, see `by_class`.

    Args:
      file: with two splits; without folds, one of a single split remains as it is.
      classes: {split: counts of the classes of its rows}.
      rows: returns those that have a target.
      params: hyper-parameters: folds, fold, and group if there are groups.
    """
    return with_fold(file, rows(), params) if params.get('folds') else by_class(file, classes, rows)


def by_class(file: SplitFile, classes: Mapping[str, ValueCounts], rows: Callable[[], Rows]) -> SplitFile:
    """Returns the file with rows moved, so that each class of two rows or more has one in both splits.

    Of each class that lacks in a split, the row moves whose checksum is the nearest to those of that split.
    """
    if len(file.splits) == 1 or not all(counts.is_exact for counts in classes.values()):
        return file
    kept, held_out = ({key(value) for value in classes[split].counts()} for split in file.splits)
    in_one = kept ^ held_out
    lacking = {value for counts in classes.values() for value in counts.counts() if key(value) in in_one}
    found: dict[str, list[tuple[int, int]]] = {}
    for number, value, _ in rows() if lacking else ():
        if value in lacking:
            found.setdefault(key(value), []).append((checksum(number), number))
    moved = frozenset((max if name in held_out else min)(of_name)[1] for name, of_name in found.items() if len(of_name) > 1)
    if moved:
        splits = ' and '.join(file.splits)
        tf.logging.info('%s: %d rows are moved, so that each class is in both of %s.', file.path, len(moved), splits)
    return dataclasses.replace(file, moved=moved)


def with_fold(file: SplitFile, rows: Rows, params: HParams) -> SplitFile:
    """Returns the file with the rows of a fold moved to its second split, which is empty; warns of classes that folds lack.

    Raises:
      UsageError: there are fewer rows, or groups, than folds.
    """
    numbers, classes, groups = ([*column] for column in zip(*rows)) if (rows := [*rows]) else ([], [], [])
    has_groups = bool(params.get('group'))
    if has_groups and (lost := groups.count('')):
        raise UsageError(f'group={params.group}: {lost} rows of {file.path} have no value there: give each its group')
    labels, names = _numbered(map(key, classes))
    members, group_names = _numbered(groups)
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
