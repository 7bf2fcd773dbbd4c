"""The memory that a process may still take, and what is refused because it takes more."""

import math
import resource

import pytest
import tensorflow.compat.v1 as tf

from common import memory
from common.errors import UsageError
from common.training import memory_check
from tests.shared import POLYNOMIAL
import trainer

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
def test_a_training_that_does_not_fit_is_refused_before_it_begins(execute, tmp_path, monkeypatch, module, free, code):
    monkeypatch.setattr(module, 'available', lambda: free)
    flags = (*POLYNOMIAL, '--schedule=train', '--train_steps=1', f'--output_dir={tmp_path}')
    found, _, err = execute(trainer.main, ['trainer.py', *flags])
    assert found == code and 'of memory is available: ' in err.splitlines()[-1]
    assert not list(tmp_path.glob('model.ckpt*'))
