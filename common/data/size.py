"""How many records a split has, and how much memory they take."""

import contextlib
import time

import numpy as np
import tensorflow.compat.v1 as tf

from common import memory
from common.data.elements import INFINITE, cardinality, iterate, opened
from common.data.input_pipeline import picks_batches
from common.errors import RunError, first_line

UNKNOWN = tf.data.experimental.UNKNOWN_CARDINALITY
_COUNTED_AT_ONCE = 100
_REPORT_SECONDS = 10
_SAMPLED = 32
_OVERHEAD = 200  # Bytes of a tensor in memory, beside its values.
_RESERVE = 100 * 10**6  # Bytes that the session itself takes.


def count_examples(source, split, at_most=None):
    """Returns how many records a split has; an endless one has tf.data.INFINITE_CARDINALITY. Counts where it must.

    It is tf.data.UNKNOWN_CARDINALITY where counting has stopped at at_most.

    Args:
      source: DataSource.
      split: str.
      at_most: int, where to stop counting; None counts to the end, which a split that hides that it is endless has not.

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
        ones = records.take(-1 if at_most is None else at_most).map(lambda *_: 1).batch(_COUNTED_AT_ONCE)
    count, told = 0, time.monotonic()
    for batch in iterate(session, ones):
        count += len(batch)
        if time.monotonic() > told + _REPORT_SECONDS:
            told = time.monotonic()
            tf.logging.info(
                'Counting the records of the split %s: %d so far. A dataset that declares its cardinality, with '
                'tf.data.experimental.assert_cardinality, is not counted.',
                split,
                count,
            )
    return count


def fits_cache(source, num_examples):
    """Whether to keep the training records in memory, if params.cache asks for it: where there is room, or the order needs it.

    Args:
      source, num_examples: as for `make_input_fn`.

    Raises:
      RunError: not even the shuffle buffer fits.
    """
    if num_examples == INFINITE:
        return False
    params = source.params
    size, is_picked = _look_at(lambda: source.read('train'), num_examples, params)
    free = max(memory.available() - _RESERVE, 0)
    buffer = params.shuffle_buffer if num_examples == UNKNOWN else min(params.shuffle_buffer, num_examples)
    if size * buffer > free:
        fitting = min(int(free / size / 4), buffer // 2)
        raise RunError(
            f'--dataset={params.dataset}: shuffling takes about {memory.to_text(size * buffer)}, and '
            f'{memory.to_text(free)} of memory is available: use a smaller buffer, such as '
            f'--hparams=cache=false,shuffle_buffer={max(fitting, 1)}'
        )
    if not params.cache or is_picked or num_examples == UNKNOWN or size * (buffer + num_examples) <= free:
        return params.cache
    tf.logging.info(
        'The training records are reread in each epoch: caching them would take about %s, and %s of memory is available.',
        memory.to_text(size * (buffer + num_examples)),
        memory.to_text(free),
    )
    return False


def _look_at(make_records, num_examples, params):
    """Returns about how many bytes a record takes in memory, by the first ones, and whether batches are picked from them."""
    with opened(make_records) as (session, records):
        is_picked = picks_batches(records, num_examples, params)
        specs = tf.nest.flatten(records.element_spec, expand_composites=True)
        if all(isinstance(spec, tf.TensorSpec) and spec.dtype != tf.string and spec.shape.is_fully_defined() for spec in specs):
            return sum(memory.size(spec.shape, spec.dtype) + _OVERHEAD for spec in specs), is_picked
        with session.graph.as_default():
            first = records.take(_SAMPLED).map(lambda *record: tuple(tf.nest.flatten(record, expand_composites=True)))
        sizes = []
        with contextlib.suppress(tf.errors.OpError):  # The training will complain about it.
            for values in iterate(session, first):
                sizes.append(sum(map(_bytes, values)))
    return max(sum(sizes) / max(len(sizes), 1), 1), is_picked


def _bytes(value):
    if isinstance(value, bytes):
        return len(value) + _OVERHEAD
    value = np.asarray(value)
    return value.nbytes + _OVERHEAD + (sum(map(len, value.ravel())) if value.dtype == object else 0)
