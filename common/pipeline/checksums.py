"""Checksums of the records of splits, by which changed data is noticed."""

from collections.abc import Iterable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import shards


def of_splits(source: DataSource, splits: Iterable[str]) -> dict[str, str]:
    """Returns {split: checksum} of all records of splits of prepared data; without those in no files of `records.write`."""
    if source.has_input_fn():
        return {}
    with tf.Graph().as_default():
        found = {split: shards.find(source.read_whole(split)) for split in dict.fromkeys(splits)}
    return {split: files.sha256 for split, files in found.items() if files}


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Returns the splits whose known checksums differ."""
    return [split for split, checksum in new.items() if old.get(split, checksum) != checksum]


def describe(splits: Sequence[str]) -> str:
    """Returns that the data of these splits, at least one, has changed, for a message on runs that must share it."""
    return f'the data of {" and ".join(splits)} has changed since the first of these runs, which would not be comparable'
