"""The input_fn of an Estimator: reads, caches, shuffles, batches and parses the records of a dataset module."""

from collections.abc import Callable

import tensorflow.compat.v1 as tf

from common.data.epochs import batches_from_memory, infinite_stream, picks_batches
from common.data.source import DataSource
from common.plugins import dataset_contract

ModeKeys = tf.estimator.ModeKeys


def make_input_fn(
    source: DataSource,
    mode: str,
    split: str,
    num_examples: int | None = None,
    cache: bool = False,
    is_part: bool = False,
) -> Callable[[], tf.data.Dataset]:
    """Creates the input_fn that feeds a split to an Estimator.

    In training the dataset repeats infinitely, and its order is a function of the seed, the epoch and the global step only: a
    training that resumes from a checkpoint sees the same batches as without the interruption. An infinite dataset is not
    shuffled. Evaluation and prediction iterate once over the split, in its order; the last batch may be smaller.

    Args:
      source: the dataset.
      mode: a tf.estimator.ModeKeys.
      split: its name.
      num_examples: number of the split's records to train on, or a negative cardinality from `count_examples`; TRAIN only.
      cache: whether to cache the records in memory if they are read one by one, as `fits_cache` decided; TRAIN only.
      is_part: whether the split has more than num_examples records.

    Returns:
      A function that returns a tf.data.Dataset of (features, labels), in PREDICT of features.
    """

    params = source.params
    is_training = mode == ModeKeys.TRAIN
    batch_size = params.batch_size if is_training else params.eval_batch_size

    def batch(records):
        # Training loses nothing by dropping the remainder: a batch may span two epochs, and they never end.
        return records.batch(batch_size, drop_remainder=is_training)

    def input_fn():
        with tf.name_scope('input'):
            records = source.read(split)
            if is_training and num_examples > 0:  # type: ignore[operator]
                records = records.take(num_examples) if is_part else records
                records = records.apply(
                    tf.data.experimental.assert_cardinality(num_examples)
                )  # Another number would shift the order.
            if is_training and picks_batches(records, num_examples, params):  # type: ignore[arg-type]
                batches = batches_from_memory(records, num_examples, params)  # type: ignore[arg-type]
                records = batches.unbatch()
            else:
                if is_training:
                    records = infinite_stream(records, num_examples, params, cache)  # type: ignore[arg-type]
                batches = batch(records)
            parsed = parse(source, mode, records, batches, batch)
            return disable_autotune(parsed.prefetch(tf.data.AUTOTUNE))

    return input_fn


def parse(
    source: DataSource,
    mode: str,
    records: tf.data.Dataset,
    batches: tf.data.Dataset,
    batch: Callable[[tf.data.Dataset], tf.data.Dataset],
) -> tf.data.Dataset:
    """Returns the parsed batches of a tf.data.Dataset.

    Args:
      source: the dataset.
      mode: a tf.estimator.ModeKeys.
      records: single records, used if the module has only `parse`.
      batches: the same records in batches, used if the module has `parse_batch`.
      batch: function that batches a tf.data.Dataset.
    """

    def as_map_fn(name):
        function = getattr(source.module, name)

        def call(*record):
            parsed = function(mode, source.params, record[0] if len(record) == 1 else record)
            features, labels = dataset_contract.check_parsed(name, parsed, mode, source.params)
            return features if mode == ModeKeys.PREDICT else (features, labels)

        return call

    if source.parses_batches():
        return batches.map(as_map_fn('parse_batch'), tf.data.AUTOTUNE)
    return batch(records.map(as_map_fn('parse'), tf.data.AUTOTUNE))


def disable_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a tf.data.Dataset whose parallelism and buffer sizes are not tuned while it runs.

    The tuning thread sleeps for increasing intervals, up to a minute, and deleting or reinitializing the iterator, as each
    evaluation does, blocks until it wakes up.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
