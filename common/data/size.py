"""The number of records of a split, and the memory that they take."""

from collections.abc import Callable
import contextlib
import time

import numpy as np
import tensorflow.compat.v1 as tf

from common import memory
from common.data.elements import INFINITE, cardinality, iterate, opened
from common.data.epochs import picks_batches
from common.data.source import DataSource
from common.errors import RunError, first_line
from hparams.build import HParams

UNKNOWN = tf.data.experimental.UNKNOWN_CARDINALITY
_COUNT_BATCH = 100
_REPORT_SECONDS = 10
_SAMPLE_SIZE = 32
_OVERHEAD = 200  # Bytes that a tensor takes in addition to its values.
_RESERVE = 100 * 10**6  # Bytes that the session itself takes.


def count_examples(source: DataSource, split: str, at_most: int | None = None) -> int:
    """Returns the number of records of a split: its cardinality or, if that is unknown, a count.

    It is tf.data.INFINITE_CARDINALITY for an infinite split, and tf.data.UNKNOWN_CARDINALITY if counting stopped at at_most.

    Args:
      source: the dataset.
      split: its name.
      at_most: where to stop counting. With None, a split that is infinite but does not declare it is counted forever.

    Raises:
      UsageError: there is no such split.
      RunError: there are no records, or one cannot be read.
    """
    with opened(lambda: source.read(split)) as (session, records):
        count = cardinality(session, records)
        if count == UNKNOWN:
            try:
                count = _count(session, records, at_most, split)
            except tf.errors.OpError as error:
                raise RunError(
                    f'--dataset={source.params.dataset}: the split {split} in {source.data_dir} cannot be read: '
                    f'{first_line(error)}'
                ) from error
            if count == at_most:
                return UNKNOWN
    if count == 0:
        raise RunError(f'--dataset={source.params.dataset}: the split {split} in {source.data_dir} is empty')
    return count


def _count(session, records, at_most, split):
    with session.graph.as_default():
        ones = records.take(-1 if at_most is None else at_most).map(lambda *_: 1).batch(_COUNT_BATCH)
    count, last_report = 0, time.monotonic()
    for batch in iterate(session, ones):
        count += len(batch)
        if time.monotonic() > last_report + _REPORT_SECONDS:
            last_report = time.monotonic()
            tf.logging.info(
                'Counting the records of the split %s: %d so far. A dataset that declares its cardinality, with '
                'tf.data.experimental.assert_cardinality, is not counted.',
                split,
                count,
            )
    return count


def fits_cache(source: DataSource, num_examples: int) -> bool:
    """Whether to cache the training records: if params.cache is set, and they fit into memory or batches are gathered from it.

    Args:
      source: the dataset.
      num_examples: as for `make_input_fn`.

    Raises:
      RunError: not even the shuffle buffer fits.
    """
    if num_examples == INFINITE:
        return False
    params = source.params
    size, is_picked = _look_at(lambda: source.read(params.train_split), num_examples, params)
    free = max(memory.available() - _RESERVE, 0)
    buffer = params.shuffle_buffer if num_examples == UNKNOWN else min(params.shuffle_buffer, num_examples)
    if size * buffer > free:
        smaller = min(int(free / size / 4), buffer // 2)
        raise RunError(
            f'--dataset={params.dataset}: shuffling takes about {memory.to_text(size * buffer)}, and '
            f'{memory.to_text(free)} of memory is available: use a smaller buffer, such as '
            f'--hparams=cache=false,shuffle_buffer={max(smaller, 1)}'
        )
    if not params.cache or is_picked or num_examples == UNKNOWN or size * (buffer + num_examples) <= free:
        return params.cache
    tf.logging.info(
        'The training records are reread in each epoch: caching them would take about %s, and %s of memory is available.',
        memory.to_text(size * (buffer + num_examples)),
        memory.to_text(free),
    )
    return False


def _look_at(make_records: Callable[[], tf.data.Dataset], num_examples: int, params: HParams) -> tuple[float, bool]:
    """Estimates the bytes that a record takes in memory, from the first ones; also returns `picks_batches` of the records."""
    with opened(make_records) as (session, records):
        is_picked = picks_batches(records, num_examples, params)
        specs = tf.nest.flatten(records.element_spec, expand_composites=True)
        if all(isinstance(spec, tf.TensorSpec) and spec.dtype != tf.string and spec.shape.is_fully_defined() for spec in specs):
            return sum(memory.size(spec.shape, spec.dtype) + _OVERHEAD for spec in specs), is_picked
        with session.graph.as_default():
            first = records.take(_SAMPLE_SIZE).map(lambda *record: tuple(tf.nest.flatten(record, expand_composites=True)))
        sizes = []
        with contextlib.suppress(tf.errors.OpError):  # Training will report it.
            for values in iterate(session, first):
                sizes.append(sum(map(_bytes, values)))
    return max(sum(sizes) / max(len(sizes), 1), 1), is_picked


def _bytes(value):
    if isinstance(value, bytes):
        return len(value) + _OVERHEAD
    value = np.asarray(value)
    return value.nbytes + _OVERHEAD + (sum(map(len, value.ravel())) if value.dtype == object else 0)
