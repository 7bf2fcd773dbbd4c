"""The order of examples: each epoch is shuffled differently, and a resumed run continues at its place.

The order is a function of the data, the seed, the epoch and the global step only. The memory of the machine decides whether
records are kept, but not their order.
"""

from collections.abc import Callable, Iterator
import contextlib

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.data.plain import plain
from common.data.shards import Shards
from common.data.share import WHOLE, Share
from hparams.build import HParams

_MAX_EPOCH = 2**40
PIECE = 1000  # Records that are put into one tensor at a time.
_MIXED_BLOCKS = 32  # At least, in a window.
WINDOW_BYTES = 256 * 10**6
READ_AHEAD_BYTES = 64 * 10**6  # Of a window: two of them are then in memory.


def picks_batches(records: tf.data.Dataset, num_examples: int, params: HParams) -> bool:
    """Whether training batches can be gathered from one tensor of all records: needs fixed shapes and a full shuffle buffer."""
    return (
        params.cache
        and 0 < num_examples <= params.shuffle_buffer
        and all(
            isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined() and 0 not in spec.shape.as_list()
            for spec in tf.nest.flatten(records.element_spec)
        )
    )


def batches_from_memory(records: tf.data.Dataset, num_examples: int, params: HParams, share: Share = WHOLE) -> tf.data.Dataset:
    """Returns infinitely many batches of the records, starting at the global step; each epoch is shuffled differently.

    Gathering whole batches from one tensor is several times as fast as a stream of single records.
    """
    orders = _whole_orders(num_examples, params, position(params), share)
    return _gather(orders, records, num_examples, params, share)


def window_size(shards: Shards, params: HParams) -> int:
    """Returns the number of records that are shuffled with one another; shards with fewer are shuffled as a whole."""
    return min(params.shuffle_buffer, max(int(WINDOW_BYTES / shards.mean_bytes), 1))


def batches_of_shards(
    records: tf.data.Dataset,
    shards: Shards,
    params: HParams,
    cache: bool,
    start: tf.Tensor,
    share: Share = WHOLE,
    parse_all: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
) -> tf.data.Dataset:
    """Returns infinitely many batches of the records, from a position on; each epoch is shuffled differently.

    In each epoch all blocks of the files are strung together in another order, and the records of each window of this sequence
    are shuffled. Any position is found by arithmetic: nothing that was seen before is read again, except in its window.

    Args:
      records: all records of the shards, in their order.
      shards: see `common.data.shards.find`.
      params: hyper-parameters.
      cache: whether to keep all records in memory, which is faster and does not change the result.
      start: the position, int64, see `position`.
      share: the part of each batch to return.
      parse_all: if it is given, what is kept in memory is not the records, but what this function makes of them: batches
        of any size, of fixed shapes otherwise.
    """
    window = window_size(shards, params)
    batch_size = params.batch_size // share.batch_parts
    if window >= shards.count:
        orders = _whole_orders(shards.count, params, start, share)
        if cache:
            return _gather(orders, records, shards.count, params, share, parse_all)
        loaded = orders.map(plain(lambda order: (_in_one(records, shards.count), order)))
    else:
        windows = _windows(shards, window, params, start, share)
        if cache:
            orders = windows.map(plain(lambda parts, order: tf.gather(_positions(parts), order)))
            return _gather(orders, tf.data.TFRecordDataset(shards.paths), shards.count, params, share, parse_all)

        @plain
        def load(parts, order):
            parts, order = _only_needed(parts, order)
            found = shards.read(tf.gather(parts, [0, 1, 2, 4], axis=1)).rebatch(window)
            return tf.data.experimental.get_single_element(found), order

        # A small window may have none of a share.
        loaded = windows.filter(plain(lambda parts, order: tf.size(order) > 0)).map(load)
    if window * shards.mean_bytes <= READ_AHEAD_BYTES:
        loaded = loaded.prefetch(1)

    @plain
    def shuffled(values, order):
        return tf.data.Dataset.from_tensors(order).rebatch(batch_size).map(plain(lambda some: tf.gather(values, some)))

    return loaded.flat_map(shuffled).rebatch(batch_size, drop_remainder=True)


def _gather(orders, records, num_examples, params, share, parse_all=None):
    """Returns the batches of the records whose numbers are given, in vectors of any length."""
    all_records = _in_one(records, num_examples, parse_all)
    batch_size = params.batch_size // share.batch_parts

    @plain
    def gather(indices):
        indices = tf.ensure_shape(indices, [batch_size])
        return tf.nest.map_structure(lambda values: tf.gather(values, indices), all_records)

    return orders.rebatch(batch_size, drop_remainder=True).map(gather)


def _in_one(records, num_examples, parse_all=None):
    """Returns all records in one tensor; by way of smaller ones, which takes less memory than single records do."""
    pieces = parse_all(records) if parse_all else records.batch(PIECE)
    # If the parser has ended them early, there is none.
    return tf.data.experimental.get_single_element(pieces.rebatch(num_examples, drop_remainder=parse_all is not None))


def _whole_orders(num_examples, params, start, share):
    """Returns the orders of epochs that are shuffled as a whole, from a position on: vectors of record numbers."""

    @plain
    def order(epoch, seen):
        shuffled = _shuffle(num_examples, tf.stack([tf.cast(params.seed, tf.int64), epoch]))
        return share.of(shuffled[seen:], epoch * num_examples + seen)

    return _epochs(num_examples, start).map(order)


def _shuffle(count, seed):
    return tf2.random.experimental.stateless_shuffle(tf.range(count), seed)


def _windows(shards, window, params, start, share):
    """Returns the windows of all epochs from a position on, and the order within each.

    Returns:
      tf.data.Dataset of (parts, order). parts are blocks, as `Shards.blocks` describes them, the first and the last of which
      may be cut. order is a vector of record numbers in the window, without those that were seen before.
    """
    count = shards.count
    # Not a constant, which would be saved with the graph.
    blocks = tf.py_func(lambda: shards.blocks(window // _MIXED_BLOCKS), [], tf.int64, stateful=False)
    blocks = tf.ensure_shape(blocks, [None, 5])

    @plain
    def windows_of(epoch, seen):
        seed = tf.stack([tf.cast(params.seed, tf.int64), epoch])
        order = tf.gather(blocks, _shuffle(tf.shape(blocks)[0], seed))
        ends = tf.cumsum(order[:, 4])
        starts = ends - order[:, 4]

        @plain
        def window_at(number):
            begin, end = number * window, tf.minimum((number + 1) * window, count)
            touched = slice(tf.searchsorted(ends, [begin], side='right')[0], tf.searchsorted(starts, [end], side='left')[0])
            cut = tf.maximum(begin - starts[touched], 0)
            left = tf.minimum(end, ends[touched]) - starts[touched] - cut
            file, offset, skip, first, _ = tf.unstack(order[touched], axis=1)
            parts = tf.stack([file, offset, skip + cut, first + cut, left], axis=1)
            shuffled = _shuffle(end - begin, tf2.random.experimental.stateless_fold_in(seed, number))
            first = tf.maximum(seen - begin, 0)
            return parts, share.of(shuffled[first:], epoch * count + begin + first)

        return tf.data.Dataset.range(seen // window, -(-count // window)).map(window_at)

    return _epochs(count, start).flat_map(windows_of)


def _only_needed(parts, order):
    """Leaves out the parts of a window that have none of the records of an order; returns both, the order renumbered."""
    ends = tf.cumsum(parts[:, 4])
    part = tf.searchsorted(ends, tf.cast(order, tf.int64), side='right')
    is_needed = tf.math.bincount(part, minlength=tf.size(ends)) > 0
    skipped = tf.cumsum(tf.where(is_needed, tf.zeros_like(ends), parts[:, 4]))
    return tf.boolean_mask(parts, is_needed), order - tf.cast(tf.gather(skipped, part), order.dtype)


def _positions(parts):
    """Returns the numbers of the records of parts of blocks, counted file by file."""
    return tf.ragged.range(parts[:, 3], parts[:, 3] + parts[:, 4]).flat_values


def infinite_stream(
    records: tf.data.Dataset, num_examples: int, params: HParams, cache: bool, start: tf.Tensor
) -> tf.data.Dataset:
    """Repeats the records infinitely, from a position on; each epoch is shuffled differently.

    Epochs are concatenated by flat_map, not by repeat().shuffle(): that would mix them, and the start of an epoch could not
    be restored after a restart.
    """
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        return records.skip(start)  # There are no epochs, so a shuffled order could not be restored.

    # TensorFlow allocates the whole buffer at once.
    buffer = params.shuffle_buffer if num_examples < 0 else min(params.shuffle_buffer, num_examples + 1)

    @plain
    def shuffled(epoch, seen):
        with same_seed(params):
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
        plain(lambda epoch: (epoch, tf.where(tf.equal(epoch, first), start % num_examples, tf.zeros_like(start))))
    )


@contextlib.contextmanager
def same_seed(params: HParams) -> Iterator[None]:
    """Within it, stateful random ops, such as tf.data's shuffle, draw the same in all tasks of a cluster.

    The graph of each task has a seed of its own, of which their seeds are a part.
    """
    own = tf.get_default_graph().seed
    tf.set_random_seed(params.seed)
    try:
        yield
    finally:
        tf.set_random_seed(own)


def position(params: HParams) -> tf.Tensor:
    """Returns the number of examples trained on so far; iterators evaluate it after a checkpoint has been restored."""
    return params.examples_at(tf.cast(tf.train.get_or_create_global_step(), tf.int64))
