"""The input_fn of an Estimator: reads, caches, shuffles, batches and parses the records of a dataset module."""

from collections.abc import Callable

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.data.source import DataSource
from common.plugins import dataset_contract
from hparams.build import HParams

_MAX_EPOCH = 2**40
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
                batches = _batches_from_memory(records, num_examples, params)
                records = batches.unbatch()
            else:
                if is_training:
                    records = _infinite_stream(records, num_examples, params, cache)
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


def picks_batches(records: tf.data.Dataset, num_examples: int, params: HParams) -> bool:
    """Whether training batches are gathered from one tensor of all records: needs fixed shapes and a full shuffle buffer."""
    return (
        params.cache
        and 0 < num_examples <= params.shuffle_buffer
        and all(
            isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined() and 0 not in spec.shape.as_list()
            for spec in tf.nest.flatten(records.element_spec)
        )
    )


def _batches_from_memory(records, num_examples, params):
    """Returns infinitely many batches of the records, starting at the global step; each epoch is shuffled differently.

    Gathering whole batches from one tensor is several times as fast as a stream of single records.
    """
    all_records = tf.data.experimental.get_single_element(records.batch(num_examples))

    def order(epoch, seen):
        return tf2.random.experimental.stateless_shuffle(tf.range(num_examples), tf.stack([params.seed, epoch]))[seen:]

    def gather(indices):
        indices = tf.ensure_shape(indices, [params.batch_size])
        return tf.nest.map_structure(lambda values: tf.gather(values, indices), all_records)

    orders = _epochs(num_examples, params).map(order)
    return orders.rebatch(params.batch_size, drop_remainder=True).map(gather)


def _infinite_stream(records, num_examples, params, cache):
    """Repeats the records infinitely, starting at the global step; each epoch is shuffled differently.

    Epochs are concatenated by flat_map, not by repeat().shuffle(): that would mix them, and the start of an epoch could not
    be restored after a restart.
    """
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        return records.skip(_position(params))  # There are no epochs, so a shuffled order could not be restored.

    # TensorFlow allocates the whole buffer at once.
    buffer = params.shuffle_buffer if num_examples < 0 else min(params.shuffle_buffer, num_examples + 1)

    def shuffled(epoch, seen):
        return records.shuffle(buffer, seed=epoch * 1000003 + params.seed, reshuffle_each_iteration=False).skip(seen)

    if num_examples == tf.data.experimental.UNKNOWN_CARDINALITY:  # Training ends within the first epoch.
        records = records.apply(tf.data.experimental.assert_cardinality(tf.data.experimental.INFINITE_CARDINALITY))
        return shuffled(tf.constant(0, tf.int64), _position(params))
    if cache:
        records = records.cache()
    return _epochs(num_examples, params).flat_map(shuffled)


def _epochs(num_examples, params):
    """Returns an infinite dataset of (epoch, number of its examples already seen), int64 scalars, from the current epoch on."""
    position = _position(params)
    first = position // num_examples
    return tf.data.Dataset.range(first, _MAX_EPOCH).map(
        lambda epoch: (epoch, tf.where(tf.equal(epoch, first), position % num_examples, tf.zeros_like(position)))
    )


def _position(params):
    """Returns the number of examples trained on so far; iterators evaluate it after a checkpoint has been restored."""
    return tf.cast(tf.train.get_or_create_global_step(), tf.int64) * params.batch_size
