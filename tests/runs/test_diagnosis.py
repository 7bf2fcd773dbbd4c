"""Faults that are injected for real, and the one line that names each."""

import os
import re
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import manifest, records
from common.inference.evaluator import Evaluator
from common.runs import schedules
from common.storage import best_checkpoint, run_dir
from hparams import build
from tests.shared import POLYNOMIAL, ROOT, SMALL, read_weights, without_log
from tests.tfrecords import header
from tools.soak import ledger

pytestmark = pytest.mark.slow

DIVERGING = (*POLYNOMIAL, '--schedule=train', '--train_steps=50')


def example(i):
    return {'image': bytes([i % 256]) * 784, 'label': i % 10}


def weights(output_dir):
    """Returns {checkpoint's step: {name: array}} of all checkpoints of a directory."""
    paths = [path.with_suffix('') for path in output_dir.glob('model.ckpt-*.index')]
    return {int(path.name.rpartition('-')[2]): read_weights(path) for path in paths}


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], name)


MISSING = ({'image': bytes(784)}, r'Feature: label \(data type: int64\) is required but could not be found\.')


@pytest.mark.parametrize(
    'bad, reason, flags',
    [
        (*MISSING, []),
        (*MISSING, ['--hparams=cache=false,batch_size=32']),
        (*MISSING, ['--steps_per_loop=10']),
        (
            {'image': bytes(784), 'label': 0.5},
            r"Key: label, .*Data types don't match\. Data type: float but expected type: int64",
            [],
        ),
        ({'image': bytes(784), 'label': [1, 2]}, r'Key: label, .*Number of int64 values != expected\..*', []),
        ({'image': bytes(700), 'label': 1}, r'Key: image\. Must have 784 bytes', []),
        ({'image': bytes(784), 'label': 10}, r'Key: label\. Must be from 0 to 9', []),
        ({'image': bytes(784), 'label': -1}, r'Key: label\. Must be from 0 to 9', []),
    ],
    ids=['missing key', 'not cached', 'in loops', 'wrong type', 'two values', 'short image', 'large label', 'negative label'],
)
def test_a_record_of_another_schema_is_named_with_its_number_and_key(run, tmp_path, bad, reason, flags):
    directory = tmp_path / 'data' / 'mnist'
    examples = [example(i) for i in range(300)]
    examples[200] = bad
    records.write(str(directory), {'train': examples, 'eval': examples[:100]})
    code, _, err = run(*SMALL, '--schedule=train', '--train_steps=20', f'--data_dir={tmp_path}/data', *flags)
    assert code == 1
    at = 50 * (16 + len(records.encode(example(0))))  # The 200th of 4 files is the 50th of the first.
    assert re.fullmatch(
        rf'trainer.py: {directory}/train-00000-of-00004.tfrecord: record 50, at byte {at}: {reason}', err.splitlines()[-1]
    )


@pytest.mark.parametrize('schedule, split', [('evaluate', 'eval'), ('predict', 'eval'), ('train_and_evaluate', 'eval')])
def test_a_record_of_another_schema_is_named_in_evaluation_and_prediction_too(run, tmp_path, schedule, split):
    directory = tmp_path / 'data' / 'mnist'
    records.write(str(directory), {'train': [example(i) for i in range(64)], 'eval': [{'label': 1}]})
    if schedule != 'train_and_evaluate':
        assert run(*SMALL, '--schedule=train', '--train_steps=1', f'--data_dir={tmp_path}/data')[0] == 0
    code, _, err = run(*SMALL, f'--schedule={schedule}', '--train_steps=1', f'--data_dir={tmp_path}/data')
    assert code == 1
    assert err.splitlines()[-1].startswith(
        f'trainer.py: {directory}/{split}-00000-of-00004.tfrecord: record 0, at byte 0: Feature: image (data type: string)'
    )


def test_a_record_that_is_no_example_is_named(run, tmp_path, monkeypatch):
    directory = tmp_path / 'data' / 'mnist'
    monkeypatch.setattr(records, 'encode', lambda features: features)
    records.write(str(directory), {'train': [b'\xff\xff no example'], 'eval': []})
    code, _, err = run(*SMALL, '--schedule=train', f'--data_dir={tmp_path}/data')
    assert code == 1
    assert err.splitlines()[-1] == (
        f'trainer.py: {directory}/train-00000-of-00004.tfrecord: record 0, at byte 0: is not a valid tf.train.Example'
    )


SIZE = 838  # Of each of the 16 records of a file of 64 examples.


@pytest.mark.parametrize(
    'damage, message',
    [
        (
            lambda content: content[: SIZE * 5 + 100],
            f'the record at byte {SIZE * 5} is corrupt: it is longer than the rest of the file',
        ),
        (
            lambda content: content[: SIZE * 5 + 100] + b'!' + content[SIZE * 5 + 101 :],
            f'the record at byte {SIZE * 5} is corrupt: its checksum is wrong',
        ),
        (
            lambda content: content[: SIZE * 5] + header(2**62) + content[SIZE * 5 + 12 :],
            f'the record at byte {SIZE * 5} is corrupt: it is longer than the rest of the file',
        ),
        (
            lambda content: content[: SIZE * 5],
            '16 records were written, but the file has 5: it differs between byte 0 and byte 1048576',
        ),
    ],
    ids=['cut', 'flipped', 'huge length', 'cut between records'],
)
def test_a_damaged_tfrecord_file_is_named_before_anything_is_trained(run, tmp_path, damage, message):
    directory = tmp_path / 'data' / 'mnist'
    records.write(str(directory), {'train': [example(i) for i in range(64)], 'eval': [example(0)]})
    path = directory / 'train-00001-of-00004.tfrecord'
    path.write_bytes(damage(path.read_bytes()))
    code, result, err = run(*SMALL, f'--data_dir={tmp_path}/data')
    assert (code, result) == (1, None)
    assert err.splitlines()[-1] == f'trainer.py: {path}: {message}: delete {directory} to convert the data again'
    assert not list((tmp_path / 'output').glob('model.ckpt*'))


@pytest.mark.parametrize('changes', ['', ',cache=false,shuffle_buffer=10'])
def test_a_record_that_rots_after_its_file_was_verified_is_named_when_it_is_read_or_on_demand(
    run, tmp_path, monkeypatch, changes
):
    def run_anew(*flags, output):
        monkeypatch.setattr(manifest, '_verified', {})  # As in a new process.
        monkeypatch.setattr(manifest, '_trusts', True)
        flags = (SMALL[0] + changes, '--schedule=train', '--train_steps=5', f'--data_dir={tmp_path}/data', *flags)
        code, _, err = run(*flags, output_dir=tmp_path / output)
        return code, err.splitlines()[-1]

    records.write(f'{tmp_path}/data/mnist', {'train': [example(i) for i in range(64)], 'eval': [example(0)]})
    assert run_anew(output='sound')[0] == 0
    path = tmp_path / 'data' / 'mnist' / 'train-00001-of-00004.tfrecord'
    content, times = bytearray(path.read_bytes()), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    content[SIZE * 5 + 100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=times)
    expected = f'trainer.py: {path}: the record at byte {SIZE * 5} is corrupt: its checksum is wrong: delete '
    remembered = (tmp_path / 'data' / 'mnist' / 'manifest.verified.json').read_text()
    for flags, output, is_trained in (([], 'read', True), ([], 'known', False), (['--verify_data'], 'asked', False)):
        if flags:
            (tmp_path / 'data' / 'mnist' / 'manifest.verified.json').write_text(remembered)
        code, line = run_anew(*flags, output=output)
        assert code == 1 and line.startswith(expected)
        assert bool(list((tmp_path / output).glob('model.ckpt*'))) == is_trained


def test_what_a_datasets_own_reader_cannot_read_is_reported_with_the_split(run, tmp_path, monkeypatch):
    ledger.prepare(f'{tmp_path}/data', build.HParams(ledger.get_params()))
    path = tmp_path / 'data' / 'train-00000-of-00004.tfrecord'
    content = bytearray(path.read_bytes())
    content[3 * len(content) // 13 + 20] ^= 1  # There are 13 records.
    path.write_bytes(content)
    monkeypatch.setenv('LEDGER', str(tmp_path / 'ledger'))
    monkeypatch.setattr(ledger, 'read', lambda split, data_dir, params: tf.data.TFRecordDataset(str(path)))
    code, _, err = run(
        '--model=tools.soak.ledger',
        '--dataset=tools.soak.ledger',
        '--schedule=train',
        '--train_steps=10',
        f'--data_dir={tmp_path}/data',
    )
    assert code == 1
    assert re.match(
        rf'trainer.py: --dataset=tools.soak.ledger: the split train in {tmp_path}/data cannot be read: corrupted record at \d+',
        err.splitlines()[-1],
    )


@pytest.mark.parametrize('empty, flags', [('train', []), ('eval', []), ('eval', ['--eval_steps=1'])])
def test_an_empty_split_is_named_before_the_first_step(run, tmp_path, empty, flags):
    examples = [example(i) for i in range(64)]
    records.write(f'{tmp_path}/data/mnist', {'train': examples, 'eval': examples, empty: []})
    code, _, err = run(SMALL[0], *flags, f'--data_dir={tmp_path}/data')
    assert code == 1
    assert err.splitlines()[-1] == f'trainer.py: --dataset=mnist: the split {empty} in {tmp_path}/data is empty'
    assert not list((tmp_path / 'output').glob('model.ckpt*'))


def test_a_tfrecord_file_that_vanishes_during_a_training_is_named_and_once_it_is_back_the_training_resumes(
    run, start, tmp_path
):
    records.write(f'{tmp_path}/data/mnist', {'train': [example(i) for i in range(640)], 'eval': [example(0)]})
    path = tmp_path / 'data' / 'mnist' / 'train-00001-of-00004.tfrecord'
    flags = (
        SMALL[0] + ',cache=false,shuffle_buffer=64',
        '--schedule=train',
        '--save_checkpoints_steps=20',
        '--train_steps=200',
        '--save_summary_steps=20',
        f'--data_dir={tmp_path}/data',
    )
    process = start(*flags)
    for line in process.stderr:
        if 'step = 60 ' in line:
            break
    path.rename(tmp_path / 'away')
    _, err = process.communicate()
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith(f'trainer.py: {path}: is missing')
    assert 60 <= max(weights(tmp_path / 'output')) < 200
    (tmp_path / 'away').rename(path)
    assert run(*flags)[1] == {'global_step': 200}
    assert run(*flags, output_dir=tmp_path / 'undisturbed')[1] == {'global_step': 200}
    assert_equal(weights(tmp_path / 'output')[200], weights(tmp_path / 'undisturbed')[200])


def test_a_loss_that_is_not_finite_ends_the_training_at_its_step(run, tmp_path):
    # The loss of the second step is about (1e9 * 1e4 * 1e2)^2 = 1e30, that of the third is out of the range of float32.
    code, result, err = run(*DIVERGING, '--save_checkpoints_steps=1', '--hparams=optimizer=sgd,learning_rate=1e9')
    assert (code, result) == (1, None)
    assert re.fullmatch(
        'trainer.py: the loss of step 3 is (inf|nan): lower learning_rate, or find the op .*--debug_numerics',
        err.splitlines()[-1],
    )
    assert weights(tmp_path / 'output').keys() == {0, 1, 2}


@pytest.mark.parametrize('flags', [['--save_checkpoints_steps=1'], ['--save_checkpoints_steps=5', '--steps_per_loop=5']])
def test_no_checkpoint_is_ever_kept_whose_variables_are_not_finite(run, tmp_path, flags):
    code, _, err = run(*DIVERGING, *flags, '--hparams=optimizer=sgd,learning_rate=1e37')
    assert code == 1
    assert re.fullmatch(
        'trainer.py: (w is not finite after step 1, which is not saved|the loss of step 5 is (inf|nan)): .*',
        err.splitlines()[-1],
    )
    kept = weights(tmp_path / 'output')
    assert kept.keys() == {0}
    assert all(np.isfinite(values).all() for values in kept[0].values())


def test_a_histogram_of_values_that_are_not_finite_names_the_variable(run):
    code, _, err = run(*DIVERGING, '--save_summary_steps=1', '--hparams=optimizer=momentum,learning_rate=1e37')
    assert code == 1 and 'Traceback' not in err
    assert err.splitlines()[-1].startswith('trainer.py: w is not finite: lower learning_rate, or find the op ')


def test_too_large_a_batch_is_named(tmp_path, data_dir):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (5 << 30, 5 << 30))

    process = subprocess.run(  # Each activation takes 1.6 GB.
        [
            sys.executable,
            os.path.join(ROOT, 'trainer.py'),
            '--hparams=batch_size=500,filters=[1000],dense_units=1',
            '--schedule=train',
            '--train_steps=1',
            f'--data_dir={data_dir}',
            f'--output_dir={tmp_path}/output',
        ],
        # oneDNN's own convolutions die where memory cannot be had.
        env={**os.environ, 'TF_ENABLE_ONEDNN_OPTS': '0'},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1] == (
        'trainer.py: out of memory with batch_size=500: use a smaller one, such as --override_hparams=batch_size=250'
    )


FULL = """
import os, shutil, subprocess, sys
import tf_estimator
import common.runs.launch  # Once, before the processes below are forked.
import trainer

disk, *flags = sys.argv[1:]
above = os.path.dirname(disk)

def run(name, *more):
    pid = os.fork()
    if not pid:
        with open(f'{above}/{name}', 'w') as log:
            os.dup2(log.fileno(), 2)
        sys.exit(trainer.main(['trainer.py', *flags, *more]))
    with open(f'{above}/codes', 'a') as codes:
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=codes)

if subprocess.call(['mount', '-t', 'tmpfs', '-o', 'size=15m', 'none', disk]):
    sys.exit(99)
run('first')
with open(f'{above}/left', 'w') as left:
    print(*os.listdir(f'{disk}/output'), file=left)
subprocess.call(['dd', 'if=/dev/zero', f'of={disk}/zeros', 'status=none'])
run('second')
run('third', '--schedule=evaluate')
run('fourth', f'--output_dir={disk}/other')
subprocess.check_call(['mount', '-o', 'remount,size=100m', 'none', disk])
run('fifth')
shutil.copytree(f'{disk}/output', f'{above}/output')
"""


@pytest.mark.skipif(
    not shutil.which('unshare') or subprocess.run(['unshare', '-Urm', 'true'], check=False).returncode,
    reason="a disk of a test's own needs user namespaces",
)
def test_a_full_disk_is_named_and_the_training_resumes_once_there_is_room(run, tmp_path):
    """A real one of 15 MB, where a checkpoint takes 6."""
    flags = (
        '--hparams=filters=[4,8],dense_units=1100,batch_size=8,warmup_steps=0',
        '--schedule=train',
        '--train_steps=30',
        '--save_checkpoints_steps=5',
    )
    records.write(f'{tmp_path}/data/mnist', {'train': [example(i) for i in range(64)], 'eval': [example(0)]})
    flags += (f'--data_dir={tmp_path}/data',)
    disk = tmp_path / 'disk'
    disk.mkdir()
    process = subprocess.run(
        ['unshare', '-Urm', sys.executable, '-c', FULL, str(disk), *flags, f'--output_dir={disk}/output'],
        cwd=ROOT,
        check=False,
    )
    if process.returncode == 99:
        pytest.skip('no tmpfs can be mounted here')
    assert (tmp_path / 'codes').read_text().split() == ['1', '2', '1', '2', '0']
    for log, path in (
        ('first', 'output/model.ckpt-\\d+\\S*: '),
        ('second', 'output.*'),
        ('third', 'output/.*'),
        ('fourth', 'other.*'),
    ):
        last = (tmp_path / log).read_text().splitlines()[-1]
        assert re.match(rf'trainer.py: (--output_dir=)?{disk}/{path}No space left on device', last), last
    assert (
        'model.ckpt-0.index' in (tmp_path / 'left').read_text() and 'model.ckpt-30.index' not in (tmp_path / 'left').read_text()
    )
    assert not list((tmp_path / 'output').glob('*temp*')) and not list((tmp_path / 'output').glob('*.tmp*'))
    assert run(*flags, output_dir=tmp_path / 'undisturbed')[0] == 0
    assert_equal(weights(tmp_path / 'output')[30], weights(tmp_path / 'undisturbed')[30])


def replace(path):
    path.rename(path.with_name('away'))
    path.mkdir()


@pytest.mark.parametrize(
    'remove, schedule',
    [(shutil.rmtree, 'train_and_evaluate'), (lambda path: path.rename(path.with_name('away')), 'train'), (replace, 'train')],
    ids=['deleted', 'moved', 'replaced'],
)
def test_a_directory_that_is_taken_away_from_a_training_is_named(start, tmp_path, remove, schedule):
    process = start(
        *POLYNOMIAL,
        f'--schedule={schedule}',
        '--train_steps=20000',
        '--save_checkpoints_steps=1000',
        '--eval_steps=1',
        '--hparams=learning_rate_schedule=constant',
    )
    for line in process.stderr:
        if 'step = 1100 ' in line:
            break
    remove(tmp_path / 'output')
    out, err = process.communicate()
    assert (process.returncode, out) == (1, '')
    assert without_log(err) == [
        f'trainer.py: {tmp_path}/output: was deleted or moved away during the training: move it back to resume from '
        'its last checkpoint, or rerun the command to start over'
    ]
    assert not list(tmp_path.glob('output/*'))
    if (tmp_path / 'away').exists():
        assert max(weights(tmp_path / 'away')) == 1000


@pytest.mark.parametrize(
    'owner, name',
    [
        (Evaluator, 'evaluate'),
        (schedules, 'add_metrics'),
        (best_checkpoint, 'keep_if_best'),
        (tf.train.Saver, 'save'),
        (run_dir, 'save_results'),
    ],
)
@pytest.mark.parametrize('is_after', [False, True])
def test_a_directory_that_is_taken_away_at_any_time_is_named(run, tmp_path, monkeypatch, owner, name, is_after):
    function = getattr(owner, name)

    def call(*args, **kwargs):
        if not is_after:
            shutil.rmtree(tmp_path / 'output', ignore_errors=True)
        result = function(*args, **kwargs)
        shutil.rmtree(tmp_path / 'output', ignore_errors=True)
        return result

    monkeypatch.setattr(owner, name, call)
    code, _, err = run(*POLYNOMIAL, '--train_steps=20', '--save_checkpoints_steps=10', '--eval_steps=1')
    if (name, is_after) == ('save_results', True):  # That was the last.
        assert code == 0
        return
    assert code == 1 and f'trainer.py: {tmp_path}/output: was deleted or moved away during the training' in err.splitlines()[-1]


@pytest.mark.parametrize(
    'name', ['best', 'eval', 'results.json/', 'checkpoint/', 'trainer.lock/', 'metrics.csv/', 'hparams.json/']
)
def test_a_file_in_the_place_of_a_directory_or_the_other_way_round_is_named(run, tmp_path, name):
    path = tmp_path / 'output' / name.rstrip('/')
    if name.endswith('/'):
        path.mkdir(parents=True)
    else:
        path.parent.mkdir()
        path.write_text('')
    code, _, err = run(*POLYNOMIAL, '--train_steps=2')
    assert code in (1, 2)
    lines = without_log(err)
    assert len(lines) == 1 and lines[0].startswith('trainer.py: ') and str(path) in lines[0]


@pytest.mark.parametrize(
    'model, dataset, missing, there', [('alexnet', 'polynomial', 'image', 'x'), ('polynomial', 'mnist', 'x', 'image')]
)
def test_a_model_and_a_dataset_that_do_not_fit_are_reported(run, model, dataset, missing, there):
    code, _, err = run(f'--model={model}', f'--dataset={dataset}', '--schedule=dry_run')
    assert code == 2
    assert err.splitlines()[-1] == (
        f'trainer.py: --model and --dataset do not match: missing feature {missing}; the dataset has: {there}'
    )
