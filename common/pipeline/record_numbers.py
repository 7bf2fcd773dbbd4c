"""The records that training steps use: the numbers of those in their batches, computed without reading them.

The functions that bring the records of a run in order get the numbers of the records in place of these.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.graphs import plain
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import disable_autotune, in_order, parse_each
from estimator_trainer.common.pipeline.length_groups import first_position, group_by_length
from estimator_trainer.common.pipeline.order import picks_batches, position, same_seed, window_size
from estimator_trainer.common.pipeline.share import END, WHOLE, Share
from estimator_trainer.common.records import shards
from estimator_trainer.common.records.elements import elements

_STEPS = 100  # Computed at a time.


def record_numbers(
    source: DataSource,
    first: int,
    last: int,
    num_examples: int,
    cache: bool = True,
    share: Share = WHOLE,
    labels: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Yields the records of the training steps between two global steps, for some steps at a time.

    Args:
      source: without `input_fn`; its params have the batch_size of all these steps, see `HParams.batch_start`.
      first, last: the global steps before the first of the steps and after the last one.
      num_examples, cache, share, labels: as for `make_input_fn`; `cache` has no effect on records of files.

    Returns:
      int64 [steps, examples of the share], in the order of the batch. A record's number is its place, from 0 on, among those
      that `source.read` returns for the training split. group_by_length takes parsing, for the lengths.
    """

    def make():
        tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, tf.constant(first, tf.int64))
        batches = _batches(source, num_examples, cache, share, labels)
        return disable_autotune(batches.take(last - first).batch(_STEPS))

    yield from elements(make)


def _batches(source, num_examples, cache, share, labels):
    """Returns the batches from the global step on, int64 [examples of the share]."""
    params = source.params
    with same_seed(params):
        records = source.read(params.train_split)
    files, numbers = shards.find(records, num_examples), _numbers(records, num_examples)
    is_grouped = params.group_by_length
    read, start = (WHOLE, first_position(params)) if is_grouped else (share, position(params))
    numbered = files and _numbered(files)
    keeps = window_size(files, params) >= files.count if files else cache and picks_batches(records, num_examples, params)
    ordered = in_order(source, numbers, numbered, num_examples, keeps, start, read, labels)
    if not is_grouped:
        return ordered if source.parses_batches() else ordered.batch(share.size(params.batch_size), drop_remainder=True)
    records = records.take(num_examples) if num_examples > 0 else records
    records = in_order(source, records, files, num_examples, False, start, read, labels)
    examples = parse_each(source, tf.estimator.ModeKeys.TRAIN, records, read.positions(start, params.batch_size))
    pairs = tf.data.Dataset.zip((examples, ordered))
    return group_by_length(pairs, params, share).map(plain(lambda example, number: number))


def _numbers(records, num_examples):
    """Returns the numbers of the records in place of these; only if they are not counted, the records are read."""
    if num_examples > 0:
        return tf.data.Dataset.range(num_examples)
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        return tf.data.Dataset.range(END)
    return records.enumerate().map(plain(lambda number, record: number))


def _numbered(files):
    """Returns Shards whose records are the numbers of these in the order of the split, int64."""
    # A constant would be limited to 2 GB.
    numbers = tf.py_func(lambda: np.argsort(files.numbers), [], tf.int64, stateful=False)

    class Numbered(shards.Shards):
        def read(self, blocks):
            @plain
            def numbers_of(block):
                return tf.ensure_shape(numbers[block.first : block.first + block.count], [None])

            return tf.data.Dataset.from_tensor_slices(blocks).map(numbers_of)

    return Numbered(files.directory, files.items, files.interleaved)
