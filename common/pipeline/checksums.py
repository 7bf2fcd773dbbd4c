"""Checksums of the records of splits, by which changed data is noticed."""

from collections.abc import Iterable

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
