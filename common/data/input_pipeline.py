"""A dataset module and hyper-parameters make the input_fn of an Estimator."""

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.plugins import dataset_contract

_ENDLESS = 2**40
ModeKeys = tf.estimator.ModeKeys


def make_input_fn(source, mode, split, num_examples=None, cache=False, is_part=False):
    """Makes the input_fn that feeds a split to an Estimator.

    Training is endless, and its order is a function of the seed, the epoch and the global step alone: a training that
    starts from a checkpoint sees what it would have seen without the stop. A dataset without end is not shuffled.
    Evaluation and prediction pass once over the split, in its order, the last batch being what is left.

    Args:
      source: DataSource.
      mode: tf.estimator.ModeKeys.
      split: str.
      num_examples: int, how many of the split's records to train on, or what else `count_examples` gave; for TRAIN.
      cache: bool, whether to keep records in memory that are read one by one, as `fits_cache` decided; for TRAIN.
      is_part: bool, whether the split has more of them.

    Returns:
      Function without arguments that returns a tf.data.Dataset of (features, labels), or of features in PREDICT.
    """

    params = source.params
    is_training = mode == ModeKeys.TRAIN
    batch_size = params.batch_size if is_training else params.eval_batch_size

    def batch(records):
        # Only training drops what does not fill a batch: its epochs follow one another without a gap.
        return records.batch(batch_size, drop_remainder=is_training)

    def input_fn():
        with tf.name_scope('input'):
            records = source.read(split)
            if is_training and num_examples > 0:
                records = records.take(num_examples) if is_part else records
                records = records.apply(tf.data.experimental.assert_cardinality(num_examples))  # Others shift the order.
            if is_training and picks_batches(records, num_examples, params):
                batches = _batches_from_memory(records, num_examples, params)
                records = batches.unbatch()
            else:
                if is_training:
                    records = _endless_stream(records, num_examples, params, cache)
                batches = batch(records)
            parsed = parse(source, mode, records, batches, batch)
            return disable_autotune(parsed.prefetch(tf.data.AUTOTUNE))

    return input_fn


def parse(source, mode, records, batches, batch):
    """Returns the parsed batches of a tf.data.Dataset.

    Args:
      source: DataSource.
      mode: tf.estimator.ModeKeys.
      records, batches: tf.data.Dataset of the same, one by one and in batches; whichever the module parses is taken.
      batch: function that makes batches of a tf.data.Dataset.
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


def disable_autotune(dataset):
    """Returns a tf.data.Dataset whose numbers of threads and buffers stay as they are.

    The thread that tunes them sleeps longer and longer, a minute at last, and who ends with the iterator, or makes it anew
    as each evaluation does, waits until it wakes up.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def picks_batches(records, num_examples, params):
    """Whether training batches are picked from one tensor of all records: if there can be one, and the shuffle is whole."""
    return (
        params.cache
        and 0 < num_examples <= params.shuffle_buffer
        and all(
            isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined() and 0 not in spec.shape.as_list()
            for spec in tf.nest.flatten(records.element_spec)
        )
    )


def _batches_from_memory(records, num_examples, params):
    """Batches the records endlessly from where the global step stands, each epoch in an order of its own.

    Picking whole batches out of one tensor is several times as fast as passing records on one by one.
    """
    everything = tf.data.experimental.get_single_element(records.batch(num_examples))

    def order(epoch, seen):
        return tf2.random.experimental.stateless_shuffle(tf.range(num_examples), tf.stack([params.seed, epoch]))[seen:]

    def pick(indices):
        indices = tf.ensure_shape(indices, [params.batch_size])
        return tf.nest.map_structure(lambda values: tf.gather(values, indices), everything)

    orders = _epochs(num_examples, params).map(order)
    return orders.rebatch(params.batch_size, drop_remainder=True).map(pick)


def _endless_stream(records, num_examples, params, cache):
    """Repeats the records endlessly from where the global step stands, each epoch in an order of its own.

    Epochs follow one another inside the flat_map, not by repeat().shuffle(): that would mix them, and where an epoch
    begins could not be found again after a restart.
    """
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        return records.skip(_position(params))  # No epochs, so no order that could be found again but its own.

    # TensorFlow makes room for the whole buffer at once.
    buffer = params.shuffle_buffer if num_examples < 0 else min(params.shuffle_buffer, num_examples + 1)

    def shuffled(epoch, seen):
        return records.shuffle(buffer, seed=epoch * 1000003 + params.seed, reshuffle_each_iteration=False).skip(seen)

    if num_examples == tf.data.experimental.UNKNOWN_CARDINALITY:  # The training ends within the first epoch.
        records = records.apply(tf.data.experimental.assert_cardinality(tf.data.experimental.INFINITE_CARDINALITY))
        return shuffled(tf.constant(0, tf.int64), _position(params))
    if cache:
        records = records.cache()
    return _epochs(num_examples, params).flat_map(shuffled)


def _epochs(num_examples, params):
    """Returns an endless dataset of epochs: the number, and how many of its examples have been seen; int64 scalars."""
    position = _position(params)
    first = position // num_examples
    return tf.data.Dataset.range(first, _ENDLESS).map(
        lambda epoch: (epoch, tf.where(tf.equal(epoch, first), position % num_examples, tf.zeros_like(position)))
    )


def _position(params):
    """Returns how many examples have been trained on; to be read when a checkpoint has been restored, as iterators do."""
    return tf.cast(tf.train.get_or_create_global_step(), tf.int64) * params.batch_size
