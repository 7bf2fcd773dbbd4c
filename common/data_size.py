"""How many records a split has, and how much memory they take."""

import contextlib
import time

import numpy as np
import tensorflow.compat.v1 as tf

from common import contract, memory
from common.errors import RunError, first_line
from common.input_fn import picks_batches

_COUNTED_AT_ONCE = 100
_TELL_SECONDS = 10
_SAMPLED = 32
_OVERHEAD = 200  # Bytes of a tensor in memory, beside its values.
_RESERVE = 100 * 10**6  # Bytes that the session itself takes.


def count_examples(dataset, split, data_dir, params, at_most=None):
    """Returns how many records a split has; an endless one has tf.data.INFINITE_CARDINALITY. Counts where it must.

    It is tf.data.UNKNOWN_CARDINALITY where counting has stopped at at_most.

    Args:
      dataset: module, see README.md.
      split: str.
      data_dir: str.
      params: HParams.
      at_most: int, where to stop counting; None counts to the end, which a split that hides that it is endless has not.

    Raises:
      UsageError: there is no such split.
      RunError: there are no records, or one cannot be read.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        records = contract.read(dataset, split, data_dir, params)
        count = session.run(records.cardinality())
        if count == tf.data.experimental.UNKNOWN_CARDINALITY:
            try:
                count = _count(records.take(-1 if at_most is None else at_most), session, f'the split {split}')
            except tf.errors.OpError as error:
                raise RunError(f'--dataset={params.dataset}: the split {split} in {data_dir} cannot be read: '
                               f'{first_line(error)}') from error
            if count == at_most:
                return tf.data.experimental.UNKNOWN_CARDINALITY
    if count == 0:
        raise RunError(f'--dataset={params.dataset}: the split {split} in {data_dir} is empty')
    return int(count)


def _count(records, session, name):
    ones = tf.data.make_one_shot_iterator(records.map(lambda *_: 1).batch(_COUNTED_AT_ONCE)).get_next()
    count, told = 0, time.monotonic()
    with contextlib.suppress(tf.errors.OutOfRangeError):
        while True:
            count += len(session.run(ones))
            if time.monotonic() > told + _TELL_SECONDS:
                told = time.monotonic()
                tf.logging.info('Counting the records of %s: %d so far. A dataset that says how many it has, or that it has '
                                'no end, by tf.data.experimental.assert_cardinality, is not counted.', name, count)
    return count


def fits_cache(dataset, data_dir, params, num_examples):
    """Whether to keep the training records in memory, if params.cache asks for it: where there is room, or the order needs it.

    Args:
      dataset, data_dir, params, num_examples: as for `make_input_fn`.

    Raises:
      RunError: not even the shuffle buffer fits.
    """
    if num_examples == tf.data.experimental.INFINITE_CARDINALITY:
        return False
    with tf.Graph().as_default():
        records = contract.read(dataset, 'train', data_dir, params)
        size = _record_bytes(records)
        is_picked = picks_batches(records, num_examples, params)
    free = memory.available()
    waiting = size * (params.shuffle_buffer if num_examples < 0 else min(params.shuffle_buffer, num_examples))
    if waiting + _RESERVE > free:
        raise RunError(f'--dataset={params.dataset}: shuffling takes about {memory.to_text(waiting)}, and '
                       f'{memory.to_text(free)} of memory are free: give a smaller buffer, such as '
                       f'--hparams=cache=false,shuffle_buffer={max(int(free / size / 4), 1)}')
    kept = size * max(num_examples, 0)
    if params.cache and not is_picked and waiting + kept + _RESERVE > free:
        tf.logging.info('The training records are read again in each epoch: to keep them would take about %s, and %s of memory '
                        'are free.', memory.to_text(waiting + kept), memory.to_text(free))
        return False
    return params.cache


def _record_bytes(records):
    """Returns about how many bytes a record takes in memory, by the first ones."""
    specs = tf.nest.flatten(records.element_spec, expand_composites=True)
    if all(spec.dtype != tf.string and spec.shape.is_fully_defined() for spec in specs if isinstance(spec, tf.TensorSpec)):
        return sum(memory.size(spec.shape, spec.dtype) + _OVERHEAD for spec in specs)
    with tf.Session() as session:
        record = tf.data.make_one_shot_iterator(records.take(_SAMPLED)).get_next()
        sizes = []
        with contextlib.suppress(tf.errors.OpError):  # The end, or what the training will complain about.
            while True:
                sizes.append(sum(map(_bytes, tf.nest.flatten(session.run(record), expand_composites=True))))
    return sum(sizes) / max(len(sizes), 1)


def _bytes(value):
    if isinstance(value, bytes):
        return len(value) + _OVERHEAD
    value = np.asarray(value)
    return value.nbytes + _OVERHEAD + (sum(map(len, value.ravel())) if value.dtype == object else 0)
