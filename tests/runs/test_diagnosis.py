"""Injected faults, and the one line that names each."""

import errno
import os
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import files
from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.inference.evaluator import Evaluator
from estimator_trainer.common.pipeline.bad_records import check_records
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import manifest, records
from estimator_trainer.common.runs import schedules
from estimator_trainer.common.storage import run_dir
from estimator_trainer.datasets import mnist
from estimator_trainer.hparams import build
from tests.shared import POLYNOMIAL, ROOT, SMALL, without_log

SIZE = 838  # Of each record.


def example(i):
    return {'image': bytes([i % 256]) * 784, 'label': i % 10}


def write_mnist(directory, train=None, eval=None):
    """Writes two splits below a data_dir; by default, 64 examples each, in 4 files."""
    examples = [example(i) for i in range(64)]
    records.write(f'{directory}/mnist', {'train': train or examples, 'eval': eval or examples})


def steps(output_dir):
    """Returns the steps of all checkpoints of a directory."""
    return {int(path.stem.rpartition('-')[2]) for path in output_dir.glob('model.ckpt-*.index')}


@pytest.mark.parametrize(
    'bad, reason',
    [
        ({'image': bytes(784)}, r'Feature: label \(data type: int64\) is required but could not be found\.'),
        ({'image': bytes(784), 'label': 0.5}, r'Key: label, .*type: float but expected type: int64'),
        ({'image': bytes(784), 'label': [1, 2]}, r'Key: label, .*Number of int64 values != expected\..*'),
        ({'image': bytes(700), 'label': 1}, r'Key: image\. Must have 784 bytes'),
        *(({'image': bytes(784), 'label': label}, r'Key: label\. Must be from 0 to 9') for label in (10, -1)),
        (b'\xff\xff no example', 'is not a valid tf.train.Example'),
    ],
)
def test_a_record_of_another_schema_is_named_with_its_number_and_key(tmp_path, monkeypatch, bad, reason):
    encode = records.encode
    monkeypatch.setattr(records, 'encode', lambda features: features if isinstance(features, bytes) else encode(features))
    number = 1100 if reason.startswith('Feature') else 20  # The former is not in the first batch that is searched.
    write_mnist(tmp_path, train=[*map(example, range(number)), bad, *map(example, range(10))])
    source = DataSource(mnist, str(tmp_path), build.make_hparams('m', {}, 'mnist', mnist.get_params(), '', ''))
    error = tf.errors.InvalidArgumentError(None, None, 'At {{node IteratorGetNext}}: a message')
    with pytest.raises(RunError) as raised:
        check_records(source, [('eval', 'eval'), ('train', 'train')], error)
    place = f'{tmp_path}/mnist/train-00000-of-00004.tfrecord: record {number // 4}, at byte {number // 4 * SIZE}'
    assert re.fullmatch(f'{re.escape(place)}: {reason}', str(raised.value))


def test_a_bad_record_is_named_in_training_evaluation_and_prediction(run, tmp_path):
    def run_last(name, schedule, *flags):
        flags = ('--hparams=hidden_units=[4],batch_size=32', f'--data_dir={tmp_path}/{name}', *flags)
        code, _, err = run(
            '--model=mlp', f'--schedule={schedule}', '--train_steps=20', *flags, output_dir=tmp_path / name / 'output'
        )
        assert code == 1
        return err.splitlines()[-1]

    for name, flags in (('cached', []), ('streamed', ['--steps_per_loop=10', '--hparams=cache=false,batch_size=32'])):
        write_mnist(tmp_path / name, train=[*map(example, range(299)), {'image': bytes(784)}])
        place = f'{tmp_path}/{name}/mnist/train-00003-of-00004.tfrecord: record 74, at byte '
        assert run_last(name, 'train', *flags).startswith(f'trainer.py: {place}')
    write_mnist(tmp_path / 'eval', eval=[{'label': 1}])
    for schedule in ('train_and_evaluate', 'evaluate', 'predict'):
        place = f'{tmp_path}/eval/mnist/eval-00000-of-00004.tfrecord: record 0, at byte 0: Feature: image (data type: string)'
        assert run_last('eval', schedule).startswith(f'trainer.py: {place}')


def test_a_corrupt_tfrecord_file_is_named_before_training_or_when_read(run, tmp_path):
    def run_anew(*flags, output):
        manifest.clear_cache(trusts=True)  # As in a new process.
        flags = (f'{SMALL[0]},cache=false,shuffle_buffer=10', '--schedule=train', f'--data_dir={tmp_path}/data', *flags)
        code, result, err = run(*flags, output_dir=tmp_path / output)
        return code, err.splitlines()[-1]

    write_mnist(tmp_path / 'data')
    path = tmp_path / 'data' / 'mnist' / 'train-00001-of-00004.tfrecord'
    remembered = tmp_path / 'data' / 'mnist' / 'manifest.verified.json'
    assert run_anew('--train_steps=1', output='sound')[0] == 0
    known = remembered.read_text()
    content, times = bytearray(path.read_bytes()), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    content[SIZE * 5 + 100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=times)  # Keeps the trust in the verified file.
    line = f'trainer.py: {path}: the record at byte {SIZE * 5} is corrupt: its checksum is wrong: delete {path.parent} to '
    for flags, output, is_trained in (([], 'read', True), ([], 'known', False), (['--verify_data'], 'asked', False)):
        if flags:
            remembered.write_text(known)
        code, last = run_anew('--train_steps=5', *flags, output=output)
        assert (code, last) == (1, f'{line}convert the data again')
        assert bool(steps(tmp_path / output)) == is_trained


def test_a_vanished_tfrecord_file_is_named_and_the_run_resumes_once_it_is_back(tmp_path):
    def train(steps, on_metrics=None):
        options = {'schedule': 'train', 'train_steps': steps, 'save_summary_steps': 10, 'save_checkpoints_steps': 5}
        options |= {'data_dir': str(tmp_path / 'data'), 'on_metrics': on_metrics}
        hparams = f'{SMALL[0].removeprefix("--hparams=")},cache=false,shuffle_buffer=8,learning_rate_schedule=constant'
        api.train('alexnet', 'mnist', str(tmp_path / 'output'), hparams=hparams, **options)

    write_mnist(tmp_path / 'data')
    path = tmp_path / 'data' / 'mnist' / 'train-00001-of-00004.tfrecord'
    with pytest.raises(RunError, match=f'^{path}: is missing'):
        train(1000000, lambda metrics: metrics['global_step'] > 10 and path.exists() and path.rename(tmp_path / 'away'))
    (tmp_path / 'away').rename(path)
    reached = max(steps(tmp_path / 'output'))
    assert reached >= 10
    train(reached + 5)
    assert max(steps(tmp_path / 'output')) == reached + 5


def test_a_non_finite_loss_or_variable_ends_training_at_its_step(run, tmp_path):
    flags = (*POLYNOMIAL, '--schedule=train', '--train_steps=50')
    # The loss of the second step is about (1e9 * 1e4 * 1e2)^2 = 1e30, that of the third is out of the range of float32.
    code, result, err = run(*flags, '--save_checkpoints_steps=1', '--hparams=optimizer=sgd,learning_rate=1e9')
    assert (code, result) == (1, None)
    line = 'trainer.py: the loss of step 3 is (inf|nan): lower learning_rate, or find the op .*--debug_numerics'
    assert re.fullmatch(line, err.splitlines()[-1])
    assert steps(tmp_path / 'output') == {0, 1, 2}
    # A histogram comes before the loss of the next step.
    flags = (*flags, '--save_summary_steps=1', '--hparams=optimizer=momentum,learning_rate=1e37')
    code, _, err = run(*flags, output_dir=tmp_path / 'other')
    assert code == 1 and 'Traceback' not in err
    assert err.splitlines()[-1].startswith('trainer.py: w is not finite by step 1: lower learning_rate, or find ')


def test_too_large_a_batch_is_named(tmp_path):
    def model(features, labels, mode, params):
        y = features['image'][:, 0, 0, 0] * tf.get_variable('w', [])
        y += tf.reduce_sum(tf.py_func(lambda: np.ones(2**48 if mode == wrong_mode else 1, np.float32), [], tf.float32))
        return {'y': y}, y

    write_mnist(tmp_path)
    program = types.SimpleNamespace(get_params=dict, model=model, __name__='program')
    options = {'data_dir': str(tmp_path), 'hparams': {'batch_size': 8, 'eval_batch_size': 2}}
    wrong_mode = 'train'
    with pytest.raises(RunError, match="of memory with batch_size=8: .*, such as override_hparams={'batch_size': 4}"):
        api.train(program, 'mnist', str(tmp_path / 'x'), train_steps=1, **options)
    wrong_mode = 'eval'
    for evaluate in (
        lambda: api.train(program, 'mnist', str(tmp_path / 'y'), train_steps=1, **options),
        lambda: api.load(str(tmp_path / 'y'), program, 'mnist').evaluate(),
    ):
        with pytest.raises(RunError, match='with eval_batch_size=2: .*, such as hparams={.eval_batch_size.: 1}'):
            evaluate()
    with pytest.raises(RunError, match='of memory with eval_batch_size=1: use a smaller model$'):
        api.load(str(tmp_path / 'y'), program, 'mnist').evaluate(hparams={'eval_batch_size': 1})


FULL = """
import os, subprocess, sys
import tests.preloaded  # Once, before the processes below are forked.
from estimator_trainer.common.commands import trainer

disk, *flags = sys.argv[1:]

def run(name, *more):
    pid = os.fork()
    if not pid:
        os.dup2(os.open(f'{disk}.{name}', os.O_CREAT | os.O_WRONLY), 2)
        sys.exit(trainer.main(['trainer.py', *flags, *more]))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), *os.listdir(f'{disk}/output'), flush=True)

subprocess.check_call(['mount', '-t', 'tmpfs', '-o', 'size=15m', 'none', disk])
run('first')
subprocess.call(['dd', 'if=/dev/zero', f'of={disk}/zeros', 'status=none'])
run('second')
run('third', '--schedule=evaluate')
subprocess.check_call(['mount', '-o', 'remount,size=100m', 'none', disk])
run('fourth')
"""
OWN_MOUNTS = ['unshare', '-Urm']


def test_an_error_of_a_file_is_known_by_the_systems_text_whatever_its_path(monkeypatch):
    monkeypatch.delattr(errno, 'EREMOTEIO')  # As on macOS.
    for text, expected in (
        ('my runs/o/x.index; No space left on device\n\t [[{{node save}}]]', 'my runs/o/x.index: No space left on device'),
        ('o/x; Transport endpoint is not connected', 'o/x: Transport endpoint is not connected'),  # Of a lost FUSE mount.
        ('{{function_node __wrapped__Save}} x y; File too large [Op:SaveV2]', 'x y: File too large'),
        ('OOM when allocating a/tensor; Try less', None),
        ('a:1; Connection refused', None),
        ('a:1; Connection timed out', None),
        ('Key: image. Shape mismatch; Invalid argument', None),
    ):
        assert files.explain(tf.errors.ResourceExhaustedError(None, None, text)) == expected


@pytest.mark.skipif(
    not shutil.which('unshare') or subprocess.run([*OWN_MOUNTS, *'mount -t tmpfs none /tmp'.split()], check=False).returncode,
    reason="a disk of a test's own needs user namespaces",
)
def test_a_full_disk_is_named_and_the_run_resumes_once_there_is_space(tmp_path):
    """A real one of 15 MB, where a checkpoint takes 6."""
    write_mnist(tmp_path / 'data')
    disk = tmp_path / 'disk'
    disk.mkdir()
    hparams = '--hparams=filters=[4,8],dense_units=1100,batch_size=8,warmup_steps=0'
    flags = (hparams, '--schedule=train', '--train_steps=20', '--save_checkpoints_steps=5', f'--data_dir={tmp_path}/data')
    command = [*OWN_MOUNTS, sys.executable, '-c', FULL, str(disk), *flags, f'--output_dir={disk}/output']
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    lines = [line for line in process.stdout.splitlines() if re.match(r'\d ', line)]
    assert [line[0] for line in lines] == ['1', '2', '1', '0']
    for log, path in (('first', 'output/model.ckpt-\\d+\\S*: '), ('second', 'output.*'), ('third', 'output/.*')):
        last = (tmp_path / f'disk.{log}').read_text().splitlines()[-1]
        assert re.match(rf'trainer.py: (--output_dir=)?{disk}/{path}No space left on device', last), last
    assert 'model.ckpt-0.index' in lines[0] and 'model.ckpt-20.index' not in lines[0]
    assert 'model.ckpt-20.index' in lines[3] and 'temp' not in lines[3] and '.tmp' not in lines[3]


@pytest.mark.parametrize(
    'owner, name',
    [(tf.train.Saver, 'save'), (Evaluator, 'evaluate'), (schedules, 'add_metrics'), (run_dir, 'save_results')],
)
def test_a_directory_that_is_deleted_or_moved_at_any_time_is_named(run, tmp_path, monkeypatch, owner, name):
    def call(*args, **kwargs):
        if name == 'add_metrics':
            (tmp_path / 'output').rename(tmp_path / 'elsewhere')
        shutil.rmtree(tmp_path / 'output', ignore_errors=True)
        return function(*args, **kwargs)

    function = getattr(owner, name)
    monkeypatch.setattr(owner, name, call)
    code, _, err = run(*POLYNOMIAL, '--train_steps=20', '--save_checkpoints_steps=10', '--eval_steps=1')
    problem = 'was deleted or moved during the run: move it back to resume from its last checkpoint, or rerun'
    assert (code, len(without_log(err))) == (1, 1)
    assert err.splitlines()[-1].startswith(f'trainer.py: {tmp_path}/output: {problem} ')
