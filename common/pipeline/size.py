"""The number of records of a split, and the decision to keep them in memory.

Their memory follows from the size of one, known from their files, specs or a sample. It depends on the storage: gathered
records are rows of one tensor, which is copied during its creation; streamed ones are separate tensors in the buffers of
tf.data; parsed ones are examples in one tensor.
"""

import contextlib
import time
import typing

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import memory
from estimator_trainer.common.errors import RunError, first_line
from estimator_trainer.common.graphs import plain
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import parsed_size
from estimator_trainer.common.pipeline.order import READ_AHEAD_BYTES, picks_batches, window_size
from estimator_trainer.common.records import shards
from estimator_trainer.common.records.elements import INFINITE, cardinality, iterate, opened

UNKNOWN = tf.data.experimental.UNKNOWN_CARDINALITY
_COUNT_BATCH = 100
_REPORT_SECONDS = 10
_SAMPLE_SIZE = 32
_OVERHEAD = 200  # Bytes of a tensor in addition to its values.
_STRING = 70  # Bytes of a string in a tensor in addition to its characters.
CACHE_BYTES = 512 * 10**6
_RESERVE = 100 * 10**6  # Bytes of the session itself.


def count_examples(source: DataSource, split: str, at_most: int | None = None) -> int:
    """Returns the number of records of a split: its cardinality or, if that is unknown, a count.

    It is tf.data.INFINITE_CARDINALITY for an infinite split, and tf.data.UNKNOWN_CARDINALITY if counting stopped at at_most.

    Args:
      at_most: where to stop counting. With None, counting an undeclared infinite split never ends.

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
        ones = records.take(-1 if at_most is None else at_most).map(plain(lambda *_: 1)).batch(_COUNT_BATCH)
    count, last_report = 0, time.monotonic()
    for batch in iterate(session, ones):
        count += len(batch)
        if time.monotonic() > last_report + _REPORT_SECONDS:
            last_report = time.monotonic()
            tf.logging.info(
                f'Counting the records of the split {split}: {count} so far. A dataset that declares its cardinality, with '
                'tf.data.experimental.assert_cardinality, is not counted.'
            )
    return count


def fits_cache(source: DataSource, num_examples: int, num_readers: int = 1) -> bool:
    """Whether to keep the training records in memory: if params.cache is set, and they take at most 512 MB and a quarter of it.

    Parsed records count with their parsed size, see `parsed_size`. The operating system also caches streamed records as memory
    permits.

    Args:
      num_examples: as for `make_input_fn`.
      num_readers: number of processes that share the batches.

    Raises:
      RunError: not even the records of a shuffle fit.
    """
    if num_examples == INFINITE:
        return False
    params = source.params
    needed = _memory_needed(_measure(source, num_examples, num_readers), num_examples, params)
    free = max(memory.available() - _RESERVE, 0)
    if needed.shuffled > free:
        smaller = min(int(free / (needed.shuffled / needed.buffer) / 4), needed.buffer // 2)
        raise RunError(
            f'--dataset={params.dataset}: shuffling takes about {memory.to_text(needed.shuffled)}, and '
            f'{memory.to_text(free)} of memory is available: use a smaller buffer, such as '
            f'--hparams=cache=false,shuffle_buffer={max(smaller, 1)}'
        )
    if not params.cache or num_examples == UNKNOWN:
        return False
    total = needed.cached
    fits = total <= CACHE_BYTES and (total <= free / 4 or needed.is_decided_by_data)
    limit = f'{memory.to_text(CACHE_BYTES)}' if total > CACHE_BYTES else f'a quarter of the {memory.to_text(free)} available'
    how, reason = ('cached', '') if fits else ('streamed', f', more than {limit}')
    tf.logging.info(f'The training records are {how}: keeping them in memory takes about {memory.to_text(total)}{reason}.')
    return fits


def is_picked(source: DataSource, num_examples: int) -> bool:
    """Whether the batches of records without files are gathered from memory, which changes their order: see `picks_batches`."""
    if num_examples == INFINITE:
        return False
    return _memory_needed(_measure(source, num_examples, 1), num_examples, source.params).is_decided_by_data


class _MemoryNeeded(typing.NamedTuple):
    """Bytes that training needs: for the records of its shuffle buffer, and to keep all of them in memory.

    is_decided_by_data: the available memory must not decide, as streaming would change the order.
    """

    buffer: int
    shuffled: float
    cached: float
    is_decided_by_data: bool = False


def _memory_needed(record, num_examples, params):
    if record.files:
        buffer = window_size(record.files, params)
        reads_ahead = record.files.mean_bytes * buffer <= READ_AHEAD_BYTES and buffer < num_examples
        shuffled = (record.gathered + (record.values if reads_ahead else 0)) * min(buffer, num_examples)
        return _MemoryNeeded(buffer, shuffled, (2 * record.parsed or record.gathered) * num_examples)
    buffer = params.shuffle_buffer if num_examples == UNKNOWN else min(params.shuffle_buffer, num_examples)
    gathered = record.gathered * num_examples
    if record.is_picked and gathered <= CACHE_BYTES:
        return _MemoryNeeded(buffer, gathered, gathered, is_decided_by_data=True)
    shuffled = record.streamed * buffer
    return _MemoryNeeded(buffer, shuffled, record.streamed * num_examples + shuffled)


class _RecordSize(typing.NamedTuple):
    """Measurements of records: their Shards, if known; `picks_batches`; the bytes of a record; `parsed_size`."""

    files: shards.Shards | None
    is_picked: bool
    values: float
    num_tensors: int
    parsed: int = 0

    @property
    def streamed(self) -> float:
        """Bytes of a record as single tensors."""
        return self.values + self.num_tensors * _OVERHEAD

    @property
    def gathered(self) -> float:
        """Bytes of a record while all are copied into one tensor."""
        return 2 * self.values + self.num_tensors * _STRING


def _measure(source: DataSource, num_examples: int, num_readers: int) -> _RecordSize:
    """Measures the training records; without files, estimates their size from the first ones."""
    with opened(lambda: source.read(source.params.train_split)) as (session, records):
        files = shards.find(records, num_examples)
        is_picked = picks_batches(records, num_examples, source.params)
        if files:
            return _RecordSize(files, is_picked, files.mean_bytes, 1, parsed_size(source, files, num_readers))
        specs = tf.nest.flatten(records.element_spec, expand_composites=True)
        if all(isinstance(spec, tf.TensorSpec) and spec.dtype != tf.string and spec.shape.is_fully_defined() for spec in specs):
            return _RecordSize(None, is_picked, sum(memory.size(spec.shape, spec.dtype) for spec in specs), len(specs))
        with session.graph.as_default():
            first = records.take(_SAMPLE_SIZE).map(
                plain(lambda *record: tuple(tf.nest.flatten(record, expand_composites=True)))
            )
        sizes = []
        with contextlib.suppress(tf.errors.OpError):  # Reported by training.
            for values in iterate(session, first):
                sizes.append(sum(map(_bytes, values)))
    return _RecordSize(None, is_picked, max(sum(sizes) / max(len(sizes), 1), 1), len(specs))


def _bytes(value):
    if isinstance(value, bytes):
        return len(value)
    value = np.asarray(value)
    return value.nbytes + (sum(map(len, value.ravel())) if value.dtype == object else 0)
