"""The order of examples: each epoch is shuffled differently, and a resumed run continues at its place.

A position is the number of examples trained on; divided by the epoch's size, it is (epoch, examples seen in it). The order of
an epoch depends only on params.seed and the epoch. If all its records fit into the shuffle buffer, it is one random permutation
of their numbers. Otherwise the files are divided into blocks of consecutive records, the blocks are permuted and concatenated,
this sequence is cut into windows of the buffer's size, and the records of each window are permuted. All this is arithmetic on
the index of the files: a resumed run reads nothing before its window, and the available memory does not affect the order. Only
records from other sources go through tf.data's shuffle, with a seed for each epoch: there a resumed run reads the skipped
records.
"""

from collections.abc import Callable, Iterator
import contextlib

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.graphs import plain
from estimator_trainer.common.pipeline.share import Share
from estimator_trainer.common.records.shards import Blocks, Shards
from estimator_trainer.hparams.build import HParams

_MAX_EPOCH = 2**40
PIECE = 1000  # Records put into one tensor at a time.
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


def batches_from_memory(
    records: tf.data.Dataset, num_examples: int, params: HParams, share: Share, labels: np.ndarray | None = None
) -> tf.data.Dataset:
    """Returns infinitely many batches of the records, starting at the global step; each epoch is shuffled differently.

    Gathering whole batches from one tensor is several times as fast as a stream of single records.

    Args:
      labels: see `batches_of_shards`.
    """
    orders = _whole_orders(num_examples, params, position(params), share, labels)
    all_records = _sliced(records, num_examples)
    if all_records is None:
        all_records = _in_one(records, num_examples)
    return _gather(orders, all_records, share.size(params.batch_size))


def window_size(shards: Shards, params: HParams) -> int:
    """Returns the number of records shuffled together; shards with fewer are shuffled as a whole."""
    return min(params.shuffle_buffer, max(int(WINDOW_BYTES / shards.mean_bytes), 1))


def batches_of_shards(
    records: tf.data.Dataset,
    shards: Shards,
    params: HParams,
    cache: bool,
    start: tf.Tensor,
    share: Share,
    parse_all: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
    labels: np.ndarray | None = None,
) -> tf.data.Dataset:
    """Returns infinitely many batches of the records, from a position on; each epoch is shuffled differently.

    Args:
      records: all records of the shards, in their order.
      shards: see `common.records.shards.find`.
      cache: whether to keep all records in memory, which is faster with the same result.
      start: the position, int64, see `position`.
      share: the part of each batch to return.
      parse_all: if given, converts the records to batches of any size, of otherwise fixed shapes, to keep in memory instead.
      labels: the class of each record, int64 [records], by which they are oversampled; None if they are not.
    """
    window = window_size(shards, params)
    batch_size = share.size(params.batch_size)
    if window >= shards.count:
        orders = _whole_orders(shards.count, params, start, share, labels)
        if cache:
            return _gather(orders, _in_one(records, shards.count, parse_all), batch_size)
        loaded = orders.map(plain(lambda order: (_in_one(records, shards.count), order)))
    else:
        windows = _windows(shards, window, params, start, share, labels)
        if cache:
            orders = windows.map(plain(lambda blocks, order: tf.gather(_numbers(blocks), order)))
            return _gather(orders, _in_one(tf.data.TFRecordDataset(shards.paths), shards.count, parse_all), batch_size)
        # A small window may have no records of a share.
        loaded = windows.filter(plain(lambda blocks, order: tf.size(order) > 0)).map(_loader(shards, window))
    if window * shards.mean_bytes <= READ_AHEAD_BYTES:
        loaded = loaded.prefetch(1)

    @plain
    def shuffled(values, order):
        return tf.data.Dataset.from_tensors(order).rebatch(batch_size).map(plain(lambda some: tf.gather(values, some)))

    return loaded.flat_map(shuffled).rebatch(batch_size, drop_remainder=True)


def _gather(orders, all_records, batch_size):
    """Returns the batches of the records with the given numbers, in vectors of any length."""

    @plain
    def gather(indices):
        indices = tf.ensure_shape(indices, [batch_size])
        return tf.nest.map_structure(lambda values: tf.gather(values, indices), all_records)

    return orders.rebatch(batch_size, drop_remainder=True).map(gather)


def _in_one(records, num_examples, parse_all=None):
    """Returns all records in one tensor, assembled from smaller ones, which takes less memory than single records."""
    pieces = parse_all(records) if parse_all else records.batch(PIECE)
    # None if the parser ended them early.
    return tf.data.experimental.get_single_element(pieces.rebatch(num_examples, drop_remainder=parse_all is not None))


def _sliced(records, num_examples):
    """Returns the tensors that `tf.data.Dataset.from_tensor_slices` has made the records of; None if something else has."""
    op = tf.data.experimental.to_variant(records).op
    while op.type == 'AssertCardinalityDataset':
        op = op.inputs[0].op
    is_sliced = op.type == 'TensorSliceDataset' and op.inputs[0].shape[0] == num_examples
    return tf.nest.pack_sequence_as(records.element_spec, list(op.inputs)) if is_sliced else None


def _whole_orders(num_examples, params, start, share, labels):
    """Returns the orders of epochs shuffled as a whole, from a position on: vectors of record numbers."""
    classes = None if labels is None else _unsaved(labels)

    @plain
    def order(epoch, seen):
        shuffled = _order(num_examples, tf.stack([tf.cast(params.seed, tf.int64), epoch]), classes)
        return share.of(shuffled[seen:], epoch * num_examples + seen, start, params.batch_size)

    return _epochs(num_examples, start).map(order)


def _unsaved(values):
    """Returns an array as a tensor that is not saved with the graph, as a constant would be."""
    return tf.ensure_shape(tf.py_func(lambda: values, [], tf.int64, stateful=False), values.shape)


def _shuffle(count, seed):
    return tf2.random.experimental.stateless_shuffle(tf.range(count), seed)


def _order(count, seed, labels):
    """Returns the order of records: a permutation of their numbers; given their labels, as many, equally often of each class.

    Of a rare class, all records repeat, each as often as any other or once more; of a frequent one, a random part occurs. The
    first classes occur once more if the number of records is not a multiple of that of the classes.
    """
    shuffled = _shuffle(count, seed)
    if labels is None:
        return shuffled
    by_class = tf.gather(shuffled, tf.argsort(tf.gather(labels, shuffled), stable=True))
    _, _, counts = tf.unique_with_counts(tf.gather(labels, by_class), out_idx=shuffled.dtype)
    place = _shuffle(count, tf2.random.experimental.stateless_fold_in(seed, -1))
    num_classes = tf.size(counts, out_type=place.dtype)
    number, among = place % num_classes, place // num_classes  # Of the class, and in it.
    first = tf.gather(tf.cumsum(counts, exclusive=True), number)
    return tf.gather(by_class, first + among % tf.gather(counts, number))


def _windows(shards, window, params, start, share, labels):
    """Returns the windows of all epochs from a position on, and the order within each.

    Returns:
      tf.data.Dataset of (Blocks, order), a vector of unseen record numbers in the window.
    """
    # A constant would be saved with the graph.
    columns = tf.py_func(lambda: shards.blocks(window // _MIXED_BLOCKS), [], tf.int64, stateful=False)
    columns = tf.ensure_shape(columns, [None, len(Blocks._fields)])
    by_file = None if labels is None else _unsaved(labels[np.argsort(shards.numbers)])

    @plain
    def windows_of(epoch, seen):
        seed = tf.stack([tf.cast(params.seed, tf.int64), epoch])
        blocks = Blocks(*tf.unstack(tf.gather(columns, _shuffle(tf.shape(columns)[0], seed)), axis=1))
        ends = tf.cumsum(blocks.count)

        @plain
        def window_at(number):
            begin, end = number * window, tf.minimum((number + 1) * window, shards.count)
            cut = _cut(blocks, ends, begin, end)
            classes = None if by_file is None else tf.gather(by_file, _numbers(cut))
            order = _order(end - begin, tf2.random.experimental.stateless_fold_in(seed, number), classes)
            first = tf.maximum(seen - begin, 0)
            own = share.of(order[first:], epoch * shards.count + begin + first, start, params.batch_size)
            return cut, own

        return tf.data.Dataset.range(seen // window, -(-shards.count // window)).map(window_at)

    return _epochs(shards.count, start).flat_map(windows_of)


def _cut(blocks, ends, begin, end):
    """Returns the blocks of the records from begin to end of a sequence of blocks, which end at `ends`."""
    touched = slice(tf.searchsorted(ends, [begin], side='right')[0], tf.searchsorted(ends, [end], side='left')[0] + 1)
    file, offset, skip, first, count = (column[touched] for column in blocks)
    starts = ends[touched] - count
    cut = tf.maximum(begin - starts, 0)
    return Blocks(file, offset, skip + cut, first + cut, tf.minimum(end, ends[touched]) - starts - cut)


def _loader(shards, window):
    """Returns a function from a window's blocks and an order to their records and the order in these."""

    @plain
    def load(blocks, order):
        blocks, order = _only_needed(blocks, order)
        return tf.data.experimental.get_single_element(shards.read(blocks).rebatch(window)), order

    return load


def _only_needed(blocks, order):
    """Drops the blocks of a window without records of an order; returns the rest and the renumbered order."""
    ends = tf.cumsum(blocks.count)
    block = tf.searchsorted(ends, tf.cast(order, tf.int64), side='right')
    is_needed = tf.math.bincount(block, minlength=tf.size(ends)) > 0
    skipped = tf.cumsum(tf.where(is_needed, tf.zeros_like(ends), blocks.count))
    needed = Blocks(*(tf.boolean_mask(column, is_needed) for column in blocks))
    return needed, order - tf.cast(tf.gather(skipped, block), order.dtype)


def _numbers(blocks):
    """Returns the numbers of the records of blocks, counted file by file."""
    return tf.ragged.range(blocks.first, blocks.first + blocks.count).flat_values


def infinite_stream(
    records: tf.data.Dataset, num_examples: int, params: HParams, cache: bool, start: tf.Tensor
) -> tf.data.Dataset:
    """Repeats the records infinitely, from a position on; each epoch is shuffled differently.

    Epochs are concatenated by flat_map, as repeat().shuffle() would mix them and make resuming within one impossible.
    """
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        return records.skip(start)  # Without epochs, a shuffled order could not be restored.

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
    """Returns an infinite dataset of (epoch, number of its examples seen), int64 scalars, from a position on."""
    first = start // num_examples
    return tf.data.Dataset.range(first, _MAX_EPOCH).map(
        plain(lambda epoch: (epoch, tf.where(tf.equal(epoch, first), start % num_examples, tf.zeros_like(start))))
    )


@contextlib.contextmanager
def same_seed(params: HParams) -> Iterator[None]:
    """Within the block, stateful random ops, such as tf.data's shuffle, draw the same in all tasks of a cluster.

    Their seeds derive from the graph's seed, which differs between tasks.
    """
    own = tf.get_default_graph().seed
    tf.set_random_seed(params.seed)
    try:
        yield
    finally:
        tf.set_random_seed(own)


def position(params: HParams) -> tf.Tensor:
    """Returns the number of examples trained on so far; iterators evaluate it after restoring a checkpoint."""
    return params.examples_at(tf.cast(tf.train.get_or_create_global_step(), tf.int64))
