"""The order of training: each epoch is shuffled differently, and a training that resumes continues at its place.

The order is a function of the seed, the epoch and the global step only.
"""

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from hparams.build import HParams

_MAX_EPOCH = 2**40


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


def batches_from_memory(records: tf.data.Dataset, num_examples: int, params: HParams) -> tf.data.Dataset:
    """Returns infinitely many batches of the records, starting at the global step; each epoch is shuffled differently.

    Gathering whole batches from one tensor is several times as fast as a stream of single records.
    """
    all_records = tf.data.experimental.get_single_element(records.batch(num_examples))

    def order(epoch, seen):
        return tf2.random.experimental.stateless_shuffle(tf.range(num_examples), tf.stack([params.seed, epoch]))[seen:]

    def gather(indices):
        indices = tf.ensure_shape(indices, [params.batch_size])
        return tf.nest.map_structure(lambda values: tf.gather(values, indices), all_records)

    orders = _epochs(num_examples, position(params)).map(order)
    return orders.rebatch(params.batch_size, drop_remainder=True).map(gather)


def infinite_stream(
    records: tf.data.Dataset, num_examples: int, params: HParams, cache: bool, start: tf.Tensor | None = None
) -> tf.data.Dataset:
    """Repeats the records infinitely, from a position on; each epoch is shuffled differently.

    The position is by default that of the global step.

    Epochs are concatenated by flat_map, not by repeat().shuffle(): that would mix them, and the start of an epoch could not
    be restored after a restart.
    """
    start = position(params) if start is None else start
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        return records.skip(start)  # There are no epochs, so a shuffled order could not be restored.

    # TensorFlow allocates the whole buffer at once.
    buffer = params.shuffle_buffer if num_examples < 0 else min(params.shuffle_buffer, num_examples + 1)

    def shuffled(epoch, seen):
        return records.shuffle(buffer, seed=epoch * 1000003 + params.seed, reshuffle_each_iteration=False).skip(seen)

    if num_examples == tf.data.experimental.UNKNOWN_CARDINALITY:  # Training ends within the first epoch.
        records = records.apply(tf.data.experimental.assert_cardinality(tf.data.experimental.INFINITE_CARDINALITY))
        return shuffled(tf.constant(0, tf.int64), start)
    if cache:
        records = records.cache()
    return _epochs(num_examples, start).flat_map(shuffled)


def _epochs(num_examples, start):
    """Returns an infinite dataset of (epoch, number of its examples already seen), int64 scalars, from a position on."""
    first = start // num_examples
    return tf.data.Dataset.range(first, _MAX_EPOCH).map(
        lambda epoch: (epoch, tf.where(tf.equal(epoch, first), start % num_examples, tf.zeros_like(start)))
    )


def position(params: HParams) -> tf.Tensor:
    """Returns the number of examples trained on so far; iterators evaluate it after a checkpoint has been restored."""
    return tf.cast(tf.train.get_or_create_global_step(), tf.int64) * params.batch_size
