"""How many records a split has, and whether there is room to keep them, or what is shuffled at a time, in memory."""

import itertools
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common import memory
from common.data import shards, size
from common.data.source import DataSource
from common.errors import RunError, UsageError
from tests.data.pipelines import INFINITE, UNKNOWN, make_params, numbers


def reading(read):
    return types.SimpleNamespace(read=lambda split, data_dir, params: read(split))


def generated(count):
    """A dataset module of the numbers 0 to count - 1, whose number nobody knows before; None for no end."""
    numbers = itertools.count if count is None else lambda: iter(range(count))
    spec = tf.TensorSpec([], tf.int64)
    return reading(lambda split: tf.data.Dataset.from_generator(numbers, output_signature=spec))


def sliced(**values):
    return reading(lambda split: tf.data.Dataset.from_tensor_slices(values))


def filed(count, num_bytes):
    """A dataset module whose records are in a TFRecord file of this size."""
    files = shards.Shards('', [{'count': count, 'bytes': num_bytes}])
    return reading(lambda split: shards.attach(tf.data.Dataset.from_tensor_slices([b'']), files))


def test_records_of_an_unknown_number_are_counted_as_far_as_they_are_needed():
    def count(module, at_most):
        return size.count_examples(DataSource(module, 'here', make_params()), 'test', at_most)

    assert (count(numbers(12), 5), count(numbers(INFINITE), 5), count(numbers(UNKNOWN), None)) == (12, INFINITE, 10)
    assert (count(generated(250), 251), count(generated(250), 250), count(generated(None), 1000)) == (250, UNKNOWN, UNKNOWN)
    for module, error, message in (
        (numbers(0), RunError, '--dataset=numbers: the split test in here is empty'),
        (generated(0), RunError, '--dataset=numbers: the split test in here is empty'),
        (reading(lambda split: {}[split]), UsageError, '--dataset=numbers: unknown split test'),
        (reading(lambda split: {}['other']), KeyError, 'other'),  # A mistake of the dataset's own.
    ):
        with pytest.raises(error, match=message):
            count(module, 1)


def test_records_are_kept_only_where_there_is_room(monkeypatch, caplog):
    caplog.set_level('INFO', 'tensorflow')
    for module, count, changes, available, message in (
        # A number takes 8 bytes and 200 as a tensor of its own, but 86 where all are put into one.
        (generated(None), 10**6 - 10, {}, 932 * 10**6, 'cached: keeping them in memory takes about 208 MB.'),
        (generated(None), 10**6 - 10, {}, 9 * 10**8, 'streamed: %s about 208 MB, more than a quarter of the 800 MB available.'),
        (generated(None), 3 * 10**6, {}, 10**12, 'streamed: %s about 624 MB, more than 512 MB.'),
        (generated(None), 10**6, {'shuffle_buffer': 10**6}, 2 * 10**8, 'cached: %s about 86 MB.'),
        (generated(None), 10**6, {'shuffle_buffer': 10**6 - 1}, 10**12, 'cached: %s about 416 MB.'),
        (generated(None), 7 * 10**6, {'shuffle_buffer': 7 * 10**6}, 10**12, 'streamed: %s about 2.91 GB, more than 512 MB.'),
        (generated(None), 10**6, {'cache': False}, 10**12, None),
        (generated(None), UNKNOWN, {}, 10**12, None),
        (generated(None), INFINITE, {}, 10**12, None),
        # A record takes twice its size and 70 bytes where all are put into one tensor.
        (filed(10**6, 221 * 10**6), 10**6, {}, 10**12, 'cached: %s about 512 MB.'),
        (filed(10**6, 222 * 10**6), 10**6, {}, 10**12, 'streamed: %s about 514 MB, more than 512 MB.'),
        (filed(10**6, 2 * 10**8), 10**6, {}, 1980 * 10**6, 'cached: %s about 470 MB.'),
        (filed(10**6, 2 * 10**8), 10**6, {}, 1979 * 10**6, 'streamed: %s about 470 MB, more than a quarter of the 1.88 GB %s.'),
        # A window is read ahead if it has no more than 64 MB, and is not all.
        (filed(10**6, 2 * 10**8), 10**6, {'shuffle_buffer': 4 * 10**5}, 288 * 10**6, 'streamed: %s about 470 MB, more than %s'),
        (filed(10**5, 2 * 10**7), 10**5, {'shuffle_buffer': 10**5}, 147 * 10**6, 'streamed: %s about 47 MB, more than %s'),
    ):
        caplog.clear()
        monkeypatch.setattr(memory, 'available', lambda available=available: available)
        source = DataSource(module, '', make_params(**{'shuffle_buffer': 10, **changes}))
        assert size.fits_cache(source, count) == bool(message and message.startswith('cached'))
        assert len(caplog.messages) == bool(message)
        for part in (message or '').split('%s'):
            assert part in caplog.text


def test_a_shuffle_buffer_that_does_not_fit_is_refused(monkeypatch):
    for module, count, buffer, available, message in (
        (generated(None), 10**7, 10**6, 3 * 10**8, '208 MB, and 200 MB of %s,shuffle_buffer=240384'),
        (generated(None), UNKNOWN, 10, 10**8 + 1000, r'2\.08 KB, and 1 KB of %s,shuffle_buffer=1'),
        (generated(None), 100, 1000, 0, r'20\.8 KB, and 0 bytes of %s,shuffle_buffer=1'),
        # The values of a record, and 200 bytes for each.
        (sliced(a=np.zeros([2, 3, 2], np.float32)), 2, 1, 0, '224 bytes, and 0 bytes of %s,shuffle_buffer=1'),
        (sliced(a=[b'12', b'1234'], b=np.zeros([2], np.int64)), 2, 1, 0, '411 bytes, and 0 bytes of %s,shuffle_buffer=1'),
        (sliced(a=[[b'12', b'1234']]), 1, 1, 0, '222 bytes, and 0 bytes of %s,shuffle_buffer=1'),
        (filed(10**6, 2 * 10**8), 10**6, 10**5, 166 * 10**6, '67 MB, and 66 MB of %s,shuffle_buffer=24626'),
    ):
        monkeypatch.setattr(memory, 'available', lambda available=available: available)
        message %= 'memory is available: use a smaller buffer, such as --hparams=cache=false'
        with pytest.raises(RunError, match=f'^--dataset=numbers: shuffling takes about {message}$'):
            size.fits_cache(DataSource(module, '', make_params(shuffle_buffer=buffer, cache=False)), count)


def test_records_may_be_ragged_and_looked_up_in_tables():
    def read(split):
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['a', 'b'], [7, 8]), 0)
        letters = tf.data.Dataset.from_tensor_slices(['a', 'b'] * 50).filter(lambda letter: True)
        return letters.map(lambda letter: (table.lookup(letter), tf.RaggedTensor.from_row_lengths([1, 2, 3], [1, 2])))

    source = DataSource(reading(read), '', make_params())
    assert size.count_examples(source, 'train') == 100
    assert size.fits_cache(source, 100)
