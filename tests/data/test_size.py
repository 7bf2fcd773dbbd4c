"""Counting records, and keeping them in memory where there is room."""

import itertools
import math
import os
import re
import resource
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common import memory
from common.data import size
from common.data.source import DataSource
from common.errors import RunError
from hparams.build import HParams
from hparams.defaults import DEFAULTS
from tests.data.test_input_pipeline import batches
from tests.shared import ROOT, read_weights

pytestmark = pytest.mark.slow

INFINITE, UNKNOWN = -1, -2


def generated(count):
    """A dataset module of the numbers 0 to count - 1, whose number nobody knows before; None for no end."""

    def read(split, data_dir, params):
        numbers = (lambda: iter(range(count))) if count is not None else itertools.count
        return tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))

    return types.SimpleNamespace(read=read, parse=lambda mode, params, record: ({'x': record}, {'y': record}))


def params(**changes):
    return HParams({**DEFAULTS, 'dataset': 'd', 'shuffle_buffer': 10, 'cache': True, 'batch_size': 4, 'seed': 1, **changes})


@pytest.mark.parametrize(
    'count, at_most, expected',
    [(250, None, 250), (250, 251, 250), (250, 250, UNKNOWN), (250, 1, UNKNOWN), (None, 1000, UNKNOWN)],
)
def test_records_of_an_unknown_number_are_counted_as_far_as_they_are_needed(count, at_most, expected):
    assert size.count_examples(DataSource(generated(count), '', params()), 'train', at_most) == expected


def test_an_empty_split_is_noticed_however_few_are_needed():
    with pytest.raises(RunError, match='--dataset=d: the split eval in here is empty'):
        size.count_examples(DataSource(generated(0), 'here', params()), 'eval', 1)


def test_a_stream_without_a_known_end_is_shuffled_as_the_beginning_of_a_long_one(monkeypatch):
    # A training that ends within the first epoch sees the same examples, wherever the epoch ends.
    long = batches(generated(10000), 20, shuffle_buffer=50)
    monkeypatch.setattr('tests.data.test_input_pipeline.count_examples', lambda *_: UNKNOWN)
    endless, rest = (batches(generated(None), steps, start=start, shuffle_buffer=50) for steps, start in ((20, 0), (9, 11)))
    for expected, found in zip(long, endless):
        np.testing.assert_array_equal(expected[0]['x'], found[0]['x'])
    for expected, found in zip(long[11:], rest):
        np.testing.assert_array_equal(expected[0]['x'], found[0]['x'])


@pytest.mark.parametrize('free, is_kept', [(10**9, True), (25 * 10**7, False)])
def test_records_that_are_streamed_are_kept_only_where_there_is_room(monkeypatch, free, is_kept):
    monkeypatch.setattr(memory, 'available', lambda: free)
    # Each takes 200 bytes and its 8: with the buffer 208 MB.
    assert size.fits_cache(DataSource(generated(None), '', params()), 10**6 - 10) == is_kept
    assert not size.fits_cache(DataSource(generated(None), '', params(cache=False)), 10**6 - 10)


def test_a_shuffle_buffer_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, 'available', lambda: 3 * 10**8)
    with pytest.raises(
        RunError,
        match=r'--dataset=d: shuffling takes about 208 MB, and 200 MB of memory is available: use a smaller '
        r'buffer, such as --hparams=cache=false,shuffle_buffer=240384',
    ):
        size.fits_cache(DataSource(generated(None), '', params(shuffle_buffer=10**6)), 10**7)


@pytest.mark.parametrize(
    'record, num_bytes, tensors',
    [
        ({'a': np.zeros([5, 3, 2], np.float32)}, 24, 1),
        ({'a': [b'12', b'1234']}, 3, 1),
        ({'a': [b'12', b'1234'], 'b': np.zeros([2], np.int64)}, 3 + 8, 2),
        ({'a': [[b'12', b'1234']]}, 6 + 16, 1),
    ],
)
def test_the_size_of_a_record_is_that_of_its_values(record, num_bytes, tensors):
    source = DataSource(types.SimpleNamespace(read=lambda *_: tf.data.Dataset.from_tensor_slices(record)), '', params())
    look = size._look_at(source, 2, 1)
    assert (look.values, look.num_tensors) == (num_bytes, tensors)


def test_records_may_be_ragged_and_looked_up_in_tables():
    def read(split, data_dir, params):
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['a', 'b'], [7, 8]), 0)
        letters = tf.data.Dataset.from_tensor_slices(['a', 'b'] * 50).filter(lambda letter: True)
        return letters.map(lambda letter: (table.lookup(letter), tf.RaggedTensor.from_row_lengths([1, 2, 3], [1, 2])))

    module = types.SimpleNamespace(read=read)
    assert size.count_examples(DataSource(module, '', params()), 'train') == 100
    assert size.fits_cache(DataSource(module, '', params()), 100)


ENDLESS = """
import itertools
import tensorflow.compat.v1 as tf

def get_params():
    return {}

def prepare(data_dir, params):
    pass

def read(split, data_dir, params):
    return tf.data.Dataset.from_generator(lambda: map(float, itertools.count()), output_signature=tf.TensorSpec([], tf.float32))

def parse(mode, params, x):
    return {'x': x / 1e6}, {'y': x / 1e6}
"""


def test_a_generator_without_end_is_trained_on_for_so_many_steps(run, tmp_path, monkeypatch):
    (tmp_path / 'endless').mkdir()
    (tmp_path / 'endless' / 'data.py').write_text(ENDLESS)
    monkeypatch.syspath_prepend(tmp_path)
    hparams = '--hparams=learning_rate_schedule=constant,shuffle_buffer=100,batch_size=8,eval_batch_size=8'
    flags = ('--model=polynomial', '--dataset=endless.data', '--eval_steps=2', hparams)
    assert run(*flags, '--train_steps=20')[1]['global_step'] == 20
    assert run(*flags, '--train_steps=40')[1]['global_step'] == 40
    assert run(*flags, '--train_steps=40', '--schedule=train', output_dir=tmp_path / 'whole')[0] == 0
    resumed, whole = (read_weights(tmp_path / name) for name in ('output', 'whole'))
    assert resumed['w'].tobytes() == whole['w'].tobytes()


MODULE = """
import tensorflow.compat.v1 as tf
from common.data import records

class Examples:
    def __len__(self):
        return 300000

    def __getitem__(self, i):
        return {'text': b'x' * 1000, 'y': 1.0}

def get_params():
    return {'shuffle_buffer': 1000000}

def prepare(data_dir, params):
    if not records.is_written(data_dir):
        records.write(data_dir, {'train': Examples()})

def read(split, data_dir, params):
    return records.read(data_dir, split)

def parse_batch(mode, params, record):
    y = tf.io.parse_example(record, {'y': tf.io.FixedLenFeature([], tf.float32)})
    return {'x': y['y']}, y
"""


@pytest.fixture(scope='module')
def large(tmp_path_factory):
    """A directory with a dataset module large.py of 310 MB, converted."""
    directory = tmp_path_factory.mktemp('large')
    (directory / 'mine').mkdir()
    (directory / 'mine' / 'large.py').write_text(MODULE)
    code, err = train(directory, '--schedule=train')
    assert code == 0, err
    return directory


def train(directory, *flags, bytes_left=None):
    """Trains in a process of its own, which may take only so much memory once it has read the data; (exit code, stderr)."""
    script = f"""
import resource, sys
import tf_estimator
import trainer
from common import memory
from common.data import size
real = size.fits_cache
def limited(*args):
    left = {bytes_left}
    if left:
        with open('/proc/self/statm') as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + left, used + left))
    return real(*args)
from common.runs import experiment
experiment.fits_cache = limited
sys.exit(trainer.main(['trainer.py', *sys.argv[1:]]))
"""
    process = subprocess.run(
        [
            sys.executable,
            '-c',
            script,
            '--model=polynomial',
            '--dataset=mine.large',
            '--data_dir=data',
            '--train_steps=20',
            f'--output_dir=output{len(list(directory.iterdir()))}',
            *flags,
        ],
        cwd=directory,
        env={**os.environ, 'PYTHONPATH': ROOT},
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, process.stderr


def test_under_a_limit_of_memory_data_that_does_not_fit_is_reported(large):
    code, err = train(large, '--schedule=train', bytes_left=300 * 10**6)
    assert code == 1
    assert re.match(
        r'trainer.py: --dataset=mine.large: shuffling takes about 529 MB, and [\d.]+ \w+ of memory is available: use a '
        r'smaller buffer, such as --hparams=cache=false,shuffle_buffer=',
        err.splitlines()[-1],
    )


def test_under_a_limit_of_memory_data_is_streamed(large):
    code, err = train(large, '--schedule=train', '--hparams=shuffle_buffer=1000', bytes_left=600 * 10**6)
    assert code == 0, err
    assert 'The training records are streamed: keeping them in memory takes about 652 MB, more than 512 MB.' in err


def test_the_least_of_what_the_machine_and_the_cgroups_leave_is_available(tmp_path):
    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    assert memory.available(str(tmp_path)) == math.inf
    write('proc/meminfo', 'MemTotal: 9000 kB\nMemAvailable:    8000 kB\n')
    assert memory.available(str(tmp_path)) == 8000 * 1024
    write('proc/self/cgroup', '0::/a/b\n')
    write('sys/fs/cgroup/a/b/memory.max', 'max\n')
    assert memory.available(str(tmp_path)) == 8000 * 1024
    write('sys/fs/cgroup/a/memory.max', '5000\n')
    write('sys/fs/cgroup/a/memory.current', '3000\n')
    write('sys/fs/cgroup/a/memory.stat', 'anon 2000\ninactive_file 700\n')
    assert memory.available(str(tmp_path)) == 5000 - 3000 + 700
    write('proc/self/cgroup', '5:cpu:/a\n4:memory:/c\n')
    write('sys/fs/cgroup/memory/memory.limit_in_bytes', '4000')
    write('sys/fs/cgroup/memory/memory.usage_in_bytes', '3900')
    assert memory.available(str(tmp_path)) == 100


def test_the_limit_of_the_address_space_bounds_what_is_available():
    script = (
        'import resource\nresource.setrlimit(resource.RLIMIT_AS, (20 << 30, 20 << 30))\n'
        'from common import memory\nprint(memory.available("/"), open("/proc/self/statm").read().split()[0])'
    )
    process = subprocess.run([sys.executable, '-c', script], cwd=ROOT, capture_output=True, text=True, check=True)
    free, pages = map(int, process.stdout.split())
    assert free <= (20 << 30) - pages * resource.getpagesize() + (1 << 24)


@pytest.mark.parametrize(
    'count, text', [(0, '0 bytes'), (999, '999 bytes'), (1500, '1.5 KB'), (2.5e12, '2.5 TB'), (1e25, '1e+07 EB')]
)
def test_numbers_of_bytes_are_said_as_people_do(count, text):
    assert memory.to_text(count) == text


VARIABLES = 'the variables of the model and of its optimizer take '
TOO_LARGE = [
    (
        'batch_size=2147483647',
        r'with a batch of 2147483647, \S+ makes a tensor of \S+ TB, and \S+ GB of memory is available: use '
        'a smaller batch_size, or make the model smaller',
    ),
    ('batch_size=300000,filters=[2000],augment_shift=0', r'with a batch of 300000, \S+ makes a tensor of 1\.88 TB, and .*'),
    (
        'dense_units=2147483647',
        VARIABLES + r'30 TB, of which dense/kernel takes 9\.9 TB, and \S+ GB of memory is available: make the model smaller',
    ),
    ('num_classes=1000000000', VARIABLES + r'6\.16 TB, of which dense_1/kernel takes 2\.05 TB, .*'),
    ('filters=[1000000000]', VARIABLES + r'1\.2 PB, of which dense/kernel takes 401 TB, .*'),
]


@pytest.mark.parametrize('hparams, message', TOO_LARGE)
def test_what_no_memory_could_hold_is_refused(run, tmp_path, hparams, message):
    code, _, err = run('--schedule=train', '--train_steps=1', f'--hparams={hparams}')
    assert code == 2
    assert re.fullmatch(f'trainer.py: {message}', err.splitlines()[-1])
    assert not list((tmp_path / 'output').glob('model.ckpt*'))
