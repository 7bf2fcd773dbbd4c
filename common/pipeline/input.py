"""The input_fn of an Estimator, which reads, caches, shuffles, parses and batches the records of a dataset module."""

from collections.abc import Callable
import functools

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common import memory
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.example_seed import set_position
from estimator_trainer.common.pipeline.length_groups import first_position, group_by_length
from estimator_trainer.common.pipeline.order import (
    PIECE,
    batches_from_memory,
    batches_of_shards,
    infinite_stream,
    picks_batches,
    position,
    same_seed,
)
from estimator_trainer.common.pipeline.share import END, WHOLE, Share
from estimator_trainer.common.pipeline.specs import Specs
from estimator_trainer.common.plugins import dataset_contract
from estimator_trainer.common.plugins.estimator_contract import split_batch
from estimator_trainer.common.records import shards

ModeKeys = tf.estimator.ModeKeys
NOT_ONE_EACH = 'a record has not become one example'
_PIECE_BYTES = 16 * 10**6


def make_input_fn(
    source: DataSource,
    mode: str,
    split: str,
    num_examples: int = 0,
    cache: bool = False,
    is_part: bool = False,
    share: Share = WHOLE,
    labels: np.ndarray | None = None,
) -> Callable[[], tf.data.Dataset]:
    """Creates the input_fn that feeds a split to an Estimator.

    In training the dataset repeats infinitely, and its order is a function of the seed, the epoch and the global step only: a
    resumed run sees the same batches as an uninterrupted one. An infinite dataset is not shuffled. Evaluation and prediction
    iterate once over the split, in order; the last batch may be smaller.

    Args:
      mode: a tf.estimator.ModeKeys.
      num_examples: number of the split's records to train on, or a negative cardinality from `count_examples`; TRAIN only.
      cache: whether to cache the records in memory if they are read one by one, from `fits_cache`; TRAIN only.
      is_part: whether the split has more than num_examples records.
      share: the share of each training batch to read, if several processes train together.
      labels: the class of each training record, int64 [num_examples], by which they are oversampled; None if they are not.

    Returns:
      A function that returns a tf.data.Dataset of (features, labels), in PREDICT of features; or what the module's own
      `input_fn` returns for the split, whatever the other arguments.
    """

    def input_fn(params=None):  # A TPUEstimator requires this argument.
        del params
        if source.has_input_fn():
            return source.make_batches(split)
        with tf.name_scope('input'):
            with same_seed(source.params):
                records = source.read(split)
            if mode == ModeKeys.TRAIN:
                batches = _training_batches(source, records, num_examples, cache, is_part, share, labels)
            else:
                batches = parsed_batches(source, mode, records)
            return disable_autotune(batches.prefetch(tf.data.AUTOTUNE))

    return input_fn


def _training_batches(source, records, num_examples, cache, is_part, share, labels):
    """Returns infinitely many parsed batches, or shares of them. A batch may span two epochs."""
    params = source.params
    if params.group_by_length and source.parses_batches():
        raise UsageError('group_by_length=true is for dataset modules with parse(): parse_batch() is given whole batches')
    read = WHOLE if params.group_by_length else share  # Grouping requires all examples.
    start = first_position(params) if params.group_by_length else position(params)
    files = shards.find(records, num_examples)
    if num_examples > 0:
        records = records.take(num_examples) if is_part else records
        records = records.apply(tf.data.experimental.assert_cardinality(num_examples))  # Another number would shift the order.
    if files and cache and parsed_size(source, files, share.count) > 0:
        parse_all = functools.partial(_parse_all, source, files)
        batches = batches_of_shards(records, files, params, cache, start, read, parse_all, labels)
        if not source.has_raw_image(batches.element_spec[0]):
            return batches
        return batches.map(lambda features, labels: (source.with_images(features), labels), tf.data.AUTOTUNE)
    records = in_order(source, records, files, num_examples, cache, start, read, labels)
    if source.parses_batches():
        examples_of_all = params.batch_size * (share.count if share.has_whole_batches else 1)
        return _parse_batches(source, ModeKeys.TRAIN, records, examples_of_all, start + read.index)
    examples = parse_each(source, ModeKeys.TRAIN, records, read.positions(start, params.batch_size))
    if not params.group_by_length:
        return batch_examples(examples, share.size(params.batch_size), True)
    if not has_variable_shapes(examples):
        raise UsageError(f'group_by_length=true: --dataset={params.dataset} has no features of variable length')
    return group_by_length(examples, params, share)


def in_order(
    source: DataSource,
    records: tf.data.Dataset,
    files: shards.Shards | None,
    num_examples: int,
    cache: bool,
    start: tf.Tensor,
    share: Share,
    labels: np.ndarray | None,
) -> tf.data.Dataset:
    """Returns the records in training order, from a position on: in batches for `parse_batch`, else one by one.

    Args:
      records: all that are trained on.
      files: their Shards, or None.
      num_examples, cache, share, labels: as for `make_input_fn`.
      start: the position, see `order.position`.

    Raises:
      UsageError: records that come as a stream cannot be oversampled.
    """
    params = source.params
    if files:
        batches = batches_of_shards(records, files, params, cache, start, share, labels=labels)
    elif cache and picks_batches(records, num_examples, params) and not params.group_by_length:
        batches = batches_from_memory(records, num_examples, params, share, labels)
    elif labels is not None:
        raise UsageError(
            f'oversample=true: the records of --dataset={params.dataset} come as a stream: write them with '
            'estimator_trainer.records.write, or omit it'
        )
    else:
        records = infinite_stream(records, num_examples, params, cache, start)
        records = share.of_stream(records, params.batch_size)
        size = share.size(params.batch_size)
        return records.batch(size, drop_remainder=True) if source.parses_batches() else records
    return batches if source.parses_batches() else batches.unbatch()


def parsed_size(source: DataSource, files: shards.Shards, num_readers: int) -> int:
    """Returns the bytes of a parsed example if the cache holds parsed records; else 0.

    It does if the module allows it, and if that takes no more memory and less parsing.

    Args:
      files: those of the training records.
      num_readers: number of processes that share the batches; each would parse all records.
    """
    params = source.params
    if not source.is_parsed_once() or params.group_by_length:
        return 0
    needed = params.examples_at(params.train_steps) if params.train_steps else params.num_epochs * files.count
    if needed <= files.count * num_readers:
        return 0
    with tf.Graph().as_default():  # Avoids duplicate lookup tables in the training graph.
        specs = tf.nest.flatten(_parse_all(source, files, source.read(params.train_split)).element_spec)
    if not all(isinstance(spec, tf2.TensorSpec) and spec.shape[1:].is_fully_defined() for spec in specs):
        return 0
    if any(spec.dtype == tf.string for spec in specs):  # The length of a text is unknown.
        return 0
    size = sum(memory.size(spec.shape[1:], spec.dtype) for spec in specs)
    return size if size <= files.mean_bytes else 0


def _parse_all(source, files, records):
    """Returns batches of all records, parsed for training, without positions for `example_seed`."""
    piece = max(min(PIECE, int(_PIECE_BYTES / files.mean_bytes)), 1)
    parse = parser(source, ModeKeys.TRAIN, keeps_images=True)
    if not source.parses_batches():
        return records.map(functools.partial(parse, None), tf.data.AUTOTUNE).batch(piece)

    def parse_piece(some):
        parsed = parse(None, some)
        counts = [tf.shape(value)[0] for value in tf.nest.flatten(parsed) if isinstance(value, tf.Tensor)]
        is_one_each = tf.reduce_all(tf.equal(counts, tf.shape(some)[0]))
        with tf.control_dependencies([tf.debugging.Assert(is_one_each, [NOT_ONE_EACH])]):
            return tf.nest.map_structure(tf.identity, parsed, expand_composites=True)

    return records.batch(piece).map(parse_piece, tf.data.AUTOTUNE)


def parsed_batches(source: DataSource, mode: str, records: tf.data.Dataset, batch_size: int = 0) -> tf.data.Dataset:
    """Returns the parsed batches of a tf.data.Dataset of records, in order; the last batch may be smaller.

    Args:
      mode: a tf.estimator.ModeKeys.
      records: from `source.read`, or a part of them.
      batch_size: 0 for eval_batch_size.
    """
    batch_size = batch_size or source.params.eval_batch_size
    if source.parses_batches():
        return _parse_batches(source, mode, records.batch(batch_size), batch_size, 0)
    return batch_examples(parse_each(source, mode, records, WHOLE.positions(0, 1)), batch_size, False)


def label_batches(source: DataSource, records: tf.data.Dataset, batch_size: int = 0) -> tf.data.Dataset:
    """Returns (positions, labels) of the batches that `parsed_batches` gives; no features are computed."""
    return picked_batches(source, records, lambda features, labels: labels, batch_size)


def picked_batches(source: DataSource, records: tf.data.Dataset, pick: Callable, batch_size: int = 0) -> tf.data.Dataset:
    """Returns (positions, pick(features, labels)) of the batches that `parsed_batches` gives; nothing else is computed."""
    parse, size = parser(source, ModeKeys.EVAL), batch_size or source.params.eval_batch_size

    def parse_some(position, record):
        return position, pick(*parse(position, record))

    if source.parses_batches():
        return disable_autotune(_numbered(records.batch(size), 0, size).map(parse_some, tf.data.AUTOTUNE))
    return disable_autotune(batch_examples(_numbered(records, 0, 1).map(parse_some, tf.data.AUTOTUNE), size, False))


def get_specs(source: DataSource) -> Specs:
    """Returns the specs of a dataset's records and features, from the source if it has them, else from its data."""
    if source.specs:
        return source.specs
    with tf.Graph().as_default():
        return find_specs(source)


def find_specs(source: DataSource) -> Specs:
    """Returns the specs of the training records, and of their features in prediction; of an `input_fn` those in training."""
    split = source.params.train_split
    if not source.has_input_fn():
        records = source.read(split)
        return Specs(records.element_spec, parsed_batches(source, ModeKeys.PREDICT, records).element_spec)
    made = source.make_batches(split)
    element = made.element_spec if isinstance(made, tf2.data.Dataset) else made
    features, _ = split_batch(element)
    return Specs((), tf.nest.map_structure(_of_any_batch, features))


def _of_any_batch(spec):
    """Returns the spec of a feature of an `input_fn`, a tensor or its spec, with any batch size."""
    dense = isinstance(spec, (tf.Tensor, tf2.TensorSpec)) and spec.shape.rank
    return tf2.TensorSpec([None, *spec.shape[1:]], spec.dtype) if dense else spec


def parse_each(source: DataSource, mode: str, records: tf.data.Dataset, positions: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the parsed records; positions are those for `example_seed`."""
    return tf.data.Dataset.zip((positions, records)).map(parser(source, mode), tf.data.AUTOTUNE)


def _parse_batches(source, mode, batches, batch_size, first):
    return _numbered(batches, first, batch_size).map(parser(source, mode), tf.data.AUTOTUNE)


def _numbered(records, first, every):
    """Pairs records, or batches of them, with their positions."""
    return tf.data.Dataset.zip((tf.data.Dataset.range(first, END, every), records))


def parser(source: DataSource, mode: str, keeps_images: bool = False) -> Callable:
    """Returns a function of (position, record) that calls the module's `parse_batch`, or its `parse`, and checks the result.

    The position is an int64 scalar for `example_seed`, or None without it. The function returns (features, labels), in PREDICT
    only the features; with keeps_images those before `DataSource.with_images`.
    """
    name = 'parse_batch' if source.parses_batches() else 'parse'
    function = getattr(source.module, name)

    def call(position, record):  # Not decorated, so that AutoGraph converts the module's function.
        if position is not None:
            set_position(source.params.seed, position)
        parsed = function(mode, source.recorded, record)
        features, labels = dataset_contract.check_parsed(name, parsed, mode, source.params)
        features = features if keeps_images else source.with_images(features)
        return features if mode == ModeKeys.PREDICT else (features, labels)

    return call


def has_variable_shapes(examples: tf.data.Dataset) -> bool:
    """Whether examples of known rank vary in size, and so need padding."""
    return any(
        isinstance(spec, tf2.TensorSpec) and spec.shape.rank is not None and not spec.shape.is_fully_defined()
        for spec in tf.nest.flatten(examples.element_spec)
    )


def batch_examples(examples: tf.data.Dataset, batch_size: int, drop_remainder: bool) -> tf.data.Dataset:
    """Batches single examples; pads those of variable size with zeros, or empty strings, to the largest of the batch."""
    can_pad = all(
        isinstance(spec, tf2.TensorSpec) and spec.shape.rank is not None for spec in tf.nest.flatten(examples.element_spec)
    )
    if can_pad and has_variable_shapes(examples):
        return examples.padded_batch(batch_size, drop_remainder=drop_remainder)
    return examples.batch(batch_size, drop_remainder=drop_remainder)


def disable_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a tf.data.Dataset without autotuning of its parallelism and buffer sizes.

    The tuning thread sleeps for up to a minute, and deleting or reinitializing the iterator, as in each evaluation, blocks
    until it wakes up.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
