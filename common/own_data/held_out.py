"""Holds out at least one row of each class of a single file, where the checksums of its rows would hold out none, or all."""

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.own_data.splits import SplitFile, checksum
from estimator_trainer.common.own_data.values import key
from estimator_trainer.common.own_data.vocabulary import ValueCounts

Find = Callable[[Collection[str]], Iterable[tuple[int, str]]]


def is_by_class(files: Iterable[SplitFile], metadata: Mapping[str, Any]) -> bool:
    """Whether rows may move between the splits of a file; not in the data of older runs, which have saved their metadata."""
    return any(len(file.splits) > 1 for file in files) and (not metadata or 'moved_rows' in metadata)


def by_class(file: SplitFile, classes: Mapping[str, ValueCounts], find: Find) -> SplitFile:
    """Returns the file with rows moved to the other split, so that each class of two rows or more has one in both.

    Of each class that lacks in a split, the row moves whose checksum is the nearest to those of that split.

    Args:
      file: with two splits; one of a single split remains as it is.
      classes: {split: counts of the classes of its rows}.
      find: returns (number, class) of the rows of some classes, as spelled.
    """
    if len(file.splits) == 1 or not all(counts.is_exact for counts in classes.values()):
        return file
    kept, held_out = ({key(value) for value in classes[split].counts()} for split in file.splits)
    in_one = kept ^ held_out
    lacking = {value for counts in classes.values() for value in counts.counts() if key(value) in in_one}
    rows: dict[str, list[tuple[int, int]]] = {}
    for number, value in find(lacking) if lacking else ():
        rows.setdefault(key(value), []).append((checksum(number), number))
    moved = frozenset((max if name in held_out else min)(found)[1] for name, found in rows.items() if len(found) > 1)
    if moved:
        splits = ' and '.join(file.splits)
        tf.logging.info('%s: %d rows are moved, so that each class is in both of %s.', file.path, len(moved), splits)
    return dataclasses.replace(file, moved=moved)
