"""The folds of a dataset whose module has none of its own: by the numbers of its training records."""

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.graphs import plain
from estimator_trainer.common.records import shards
from estimator_trainer.common.records.elements import INFINITE, cardinality
from estimator_trainer.hparams.build import HParams

EVAL = 'eval'  # The split whose place a fold of the training records takes.


def in_fold(records: tf2.data.Dataset, split: str, params: HParams) -> tf2.data.Dataset:
    """Returns the records of a split: eval has each of the numbers fold - 1 + i * folds, and the training split the others.

    Args:
      records: all to train on.

    Raises:
      UsageError: they have no end, or are fewer than the folds.
    """
    count = _count(records)
    if count == INFINITE or 0 <= count < params.folds:
        found = f'has only {count} records' if count >= 0 else 'has no end'
        raise UsageError(f'folds={params.folds}: the split {params.train_split} of --dataset={params.dataset} {found}')
    is_held_out = split == EVAL

    @plain
    def is_in(number, record):
        del record
        return tf.equal(tf.equal(number % params.folds, params.fold - 1), is_held_out)

    chosen = records.enumerate().filter(is_in).map(plain(lambda number, record: record))
    if count < 0:
        return chosen
    held_out = (count - params.fold) // params.folds + 1
    return chosen.apply(tf.data.experimental.assert_cardinality(held_out if is_held_out else count - held_out))


def in_whole(numbers: np.ndarray, split: str, params: HParams) -> np.ndarray:
    """Returns the numbers, among all records to train on, of records of a split: int64 [n], as the given ones."""
    if split == EVAL:
        return numbers * params.folds + params.fold - 1
    block, place = np.divmod(numbers, params.folds - 1)
    return block * params.folds + place + (place >= params.fold - 1)


def in_part(numbers: np.ndarray, split: str, params: HParams) -> np.ndarray:
    """Returns the numbers in a split of those of the records with these numbers, int64 [n], that are in it: see `in_whole`."""
    block, place = np.divmod(numbers, params.folds)
    is_held_out = place == params.fold - 1
    if split == EVAL:
        return block[is_held_out]
    return (numbers - block - (place >= params.fold))[~is_held_out]


def _count(records):
    """Returns the number of records as far as it is declared, else a negative cardinality."""
    if found := shards.find(records):
        return found.count
    with tf.Session() as session:
        return cardinality(session, records)
