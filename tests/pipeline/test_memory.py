"""Available memory: cached records, and rejected models, batches and buffers."""

import itertools
import math
import resource
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import memory, memory_check
from estimator_trainer.common.commands import trainer
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.pipeline import size
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import shards
from tests.pipeline.pipelines import INFINITE, UNKNOWN, make_params, numbers
from tests.shared import POLYNOMIAL

GROUP, GROUP_1 = 'sys/fs/cgroup/a/', 'sys/fs/cgroup/memory/memory'
V2 = {f'{GROUP}memory.max': '5000', f'{GROUP}memory.current': '3000', f'{GROUP}memory.stat': 'anon 9\ninactive_file 700\n'}


def test_the_least_of_what_the_machine_and_the_cgroups_leave_is_available(tmp_path):
    for files, expected in [
        ({}, math.inf),
        ({'proc/meminfo': 'MemTotal: 9000 kB\nMemAvailable:    8000 kB\n'}, 8000 * 1024),
        ({'proc/self/cgroup': '0::/a/b\n', f'{GROUP}b/memory.max': 'max\n'}, 8000 * 1024),
        (V2, 5000 - 3000 + 700),
        ({'proc/self/cgroup': '5:cpu:/a\n4:memory:/c\n'}, 8000 * 1024),
        ({f'{GROUP_1}.limit_in_bytes': '4000', f'{GROUP_1}.usage_in_bytes': '3900'}, 100),
        ({f'{GROUP_1}.usage_in_bytes': '4100'}, 0),
    ]:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        assert memory.available(str(tmp_path)) == expected


@pytest.mark.parametrize('limited, pages', [(resource.RLIMIT_AS, 10), (resource.RLIMIT_DATA, 5)])
def test_what_the_limits_of_the_process_leave_is_available(tmp_path, monkeypatch, limited, pages):
    (tmp_path / 'proc' / 'self').mkdir(parents=True)
    (tmp_path / 'proc' / 'self' / 'statm').write_text('10 9 8 7 6 5 4\n')
    no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, 'getrlimit', lambda kind: (1 << 20, 1 << 30) if kind == limited else no_limit)
    assert memory.available(str(tmp_path)) == (1 << 20) - pages * resource.getpagesize()


def test_the_bytes_of_a_tensor_follow_from_its_shape_and_type_and_are_said_as_people_do():
    texts = {0: '0 bytes', 999: '999 bytes', 1500: '1.5 KB', 2.5e12: '2.5 TB', 1e25: '1e+07 EB'}
    assert {count: memory.to_text(count) for count in texts} == texts
    sizes = {(2, 3): 24, (None, 3): 60, (2, None): 0, (): 4}
    assert {shape: memory.size(tf.TensorShape(shape), tf.float32, batch_size=5) for shape in sizes} == sizes
    assert memory.size(tf.TensorShape([4]), tf.string, batch_size=5) == 96


def test_variables_or_a_tensor_that_no_memory_could_hold_are_refused(monkeypatch):
    def check(available, batch_size, *fetches):
        monkeypatch.setattr(memory_check, 'available', lambda: available)
        memory_check.check_fits(fetches, batch_size)

    with tf.Graph().as_default():
        tf.get_variable('small', [10], tf.int64)
        tf.get_variable('large', [1000, 3])
        x = tf.placeholder(tf.float32, [None, 100], 'x')
        y = tf.reduce_sum(x)
        tf.placeholder(tf.float32, [10**6], 'not_fetched')
        check(12080, 1, y)
        with pytest.raises(UsageError, match='^the variables .* 12.1 KB, of which large takes 12 KB, .*: make the model'):
            check(12079, 1, y)
        check(400_000, 1000, y)
        with pytest.raises(UsageError, match='^with a batch of 1000, x makes a tensor of 400 KB, .* a smaller batch_size'):
            check(399_999, 1000, y)


@pytest.mark.parametrize('module, free, code', [(memory, 10**8, 1), (memory_check, 10, 2)])
def test_a_run_that_does_not_fit_is_rejected_before_training(execute, tmp_path, monkeypatch, module, free, code):
    monkeypatch.setattr(module, 'available', lambda: free)
    flags = (*POLYNOMIAL, '--schedule=train', '--train_steps=1', f'--output_dir={tmp_path}')
    found, _, err = execute(trainer.main, ['trainer.py', *flags])
    assert found == code and 'of memory is available: ' in err.splitlines()[-1]
    assert not list(tmp_path.glob('model.ckpt*'))


def reading(read):
    return types.SimpleNamespace(read=lambda split, data_dir, params: read(split))


def generated(count):
    """A dataset module of the numbers 0 to count - 1, of unknown cardinality; None for no end."""
    numbers = itertools.count if count is None else lambda: iter(range(count))
    spec = tf.TensorSpec([], tf.int64)
    return reading(lambda split: tf.data.Dataset.from_generator(numbers, output_signature=spec))


def sliced(**values):
    return reading(lambda split: tf.data.Dataset.from_tensor_slices(values))


def filed(count, num_bytes):
    """A dataset module whose records are in a TFRecord file of this size."""
    files = shards.Shards('', [{'count': count, 'bytes': num_bytes}])
    return reading(lambda split: shards.attach(tf.data.Dataset.from_tensor_slices([b'']), files))


def test_records_of_an_unknown_number_are_counted_as_far_as_they_are_needed_also_ragged_ones_of_tables():
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

    def read(split):
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['a', 'b'], [7, 8]), 0)
        letters = tf.data.Dataset.from_tensor_slices(['a', 'b'] * 50).filter(lambda letter: True)
        return letters.map(lambda letter: (table.lookup(letter), tf.RaggedTensor.from_row_lengths([1, 2, 3], [1, 2])))

    assert count(reading(read), None) == 100
    assert size.fits_cache(DataSource(reading(read), '', make_params()), 100)


def test_records_are_kept_only_where_there_is_room(monkeypatch, caplog):
    caplog.set_level('INFO', 'tensorflow')
    for module, count, changes, available, message in (
        # A number takes 8 bytes and 200 as a separate tensor, but 86 if all are in one.
        (generated(None), 10**6 - 10, {}, 932 * 10**6, 'cached: keeping them in memory takes about 208 MB.'),
        (generated(None), 10**6 - 10, {}, 9 * 10**8, 'streamed: %s about 208 MB, more than a quarter of the 800 MB available.'),
        (generated(None), 3 * 10**6, {}, 10**12, 'streamed: %s about 624 MB, more than 512 MB.'),
        (generated(None), 10**6, {'shuffle_buffer': 10**6}, 2 * 10**8, 'cached: %s about 86 MB.'),
        (generated(None), 10**6, {'shuffle_buffer': 10**6 - 1}, 10**12, 'cached: %s about 416 MB.'),
        (generated(None), 7 * 10**6, {'shuffle_buffer': 7 * 10**6}, 10**12, 'streamed: %s about 2.91 GB, more than 512 MB.'),
        (generated(None), 10**6, {'cache': False}, 10**12, None),
        (generated(None), UNKNOWN, {}, 10**12, None),
        (generated(None), INFINITE, {}, 10**12, None),
        # A record takes twice its size and 70 bytes if all are in one tensor.
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
