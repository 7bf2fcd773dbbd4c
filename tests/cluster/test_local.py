"""--local_cluster: a process on this machine for each task, all started again if one is lost."""

import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import numpy as np
import pytest

from common import children
from common.cluster import local, local_tasks
from common.errors import UsageError
import sweep
from tests import forked
from tests.cluster.tasks import TINY
from tests.shared import POLYNOMIAL, read_weights

pytestmark = pytest.mark.slow

TRAINING = (
    *POLYNOMIAL,
    '--train_steps=300',
    '--save_checkpoints_steps=30',
    '--eval_every_steps=300',
    '--save_summary_steps=100',
)


@pytest.fixture
def processes(monkeypatch):
    """The processes of the tasks, as they are started."""
    started = []

    def popen(*args, **options):
        started.append(forked.Popen(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, 'Popen', popen)
    yield started
    for process in started:
        process.kill()


def soon(condition, act):
    """Calls `act` in a thread, once the condition is true."""

    def wait():
        deadline = time.monotonic() + 100
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        act()

    threading.Thread(target=wait, daemon=True).start()


def codes(processes):
    return [process.returncode for process in processes]


def logged(directory, task):
    return (directory / 'cluster' / f'{task}.log').read_text()


def test_a_cluster_that_is_stopped_and_then_loses_a_task_ends_as_if_undisturbed(run, processes, tmp_path, capsys):
    expected, found = tmp_path / 'expected', tmp_path / 'found'
    code, result, err = run(*TRAINING, '--local_cluster=worker:2', output_dir=expected)
    assert code == 0, err
    assert result == json.loads((expected / 'results.json').read_text()) and result['global_step'] == 300
    assert np.isclose(result['eval']['w_0'], 5, atol=0.1) and codes(processes) == [0, 0]
    assert 'running: worker 0, worker 1; loss = ' in err and 'ended: worker 0, worker 1; loss = ' in err
    assert 'Saving dict for global step 300' in logged(expected, 'worker-0')
    assert 'loss = ' not in logged(expected, 'worker-1')

    soon(lambda: (found / 'model.ckpt-30.index').exists(), lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(SystemExit) as stopped:
        run(*TRAINING, '--local_cluster=worker:2', output_dir=found)
    assert 'SIGINT: stopping all tasks after saving a checkpoint; rerun' in capsys.readouterr().err
    assert stopped.value.code == 130 and codes(processes[2:]) == [130, 130]
    step = max(int(path.stem.partition('-')[2]) for path in found.glob('model.ckpt-*.index'))
    assert 30 <= step < 300 and logged(found, 'worker-0').count('SIGINT: stopping after saving a checkpoint') == 1

    resumed = found / f'model.ckpt-{(step // 30 + 1) * 30}.index'
    soon(resumed.exists, lambda: processes[5].kill())
    code, result, err = run(*TRAINING, '--local_cluster=worker:2', '--restarts=1', output_dir=found)
    assert code == 0 and result == json.loads((expected / 'results.json').read_text()), err
    assert codes(processes[4:]) == [1, -signal.SIGKILL, 0, 0]
    log = found / 'cluster' / 'worker-1.log'
    assert f'worker 1 failed: was killed by SIGKILL (log: {log}); starting all tasks again (restart 1 of 1).' in err
    weights, others = read_weights(expected), read_weights(found)
    assert weights.keys() == others.keys() and all((weights[name] == others[name]).all() for name in weights)


def test_a_task_that_is_lost_at_the_start_ends_the_others_and_is_named_with_its_log(run, processes, tmp_path, monkeypatch):
    monkeypatch.setattr(local, '_TERMINATE_SECONDS', 0.5)
    soon(lambda: len(processes) == 2, lambda: processes[1].kill())
    code, result, err = run(*POLYNOMIAL, '--local_cluster=chief:1,worker:1', '--train_steps=2')
    assert (code, result, len(processes)) == (1, None, 2)
    assert err.splitlines()[-1] == (
        f'trainer.py: worker 0 failed: was killed by SIGKILL (log: {tmp_path}/output/cluster/worker-0.log); the training '
        'resumes from its latest checkpoint if you rerun the command'
    )


def test_a_mistake_that_the_tasks_find_is_shown_and_not_retried(run, processes, tmp_path):
    code, _, err = run(*POLYNOMIAL, '--local_cluster=worker:2', '--restarts=3', '--hparams=batch_size=33')
    assert (code, codes(processes)) == (2, [2, 2])
    failed = err.splitlines()[-1]
    assert failed.startswith('trainer.py: worker ')
    assert 'failed: batch_size=33 is not divisible by 2 tasks: use --hparams=batch_size=32 or 34, or another' in failed
    assert f'(log: {tmp_path}/output/cluster/worker-' in failed


def test_the_chief_may_have_an_evaluator_alone(run, processes, tmp_path):
    code, result, _ = run(*POLYNOMIAL, '--local_cluster=chief:1,evaluator:1', '--train_steps=2')
    assert (code, result, codes(processes)) == (0, {'global_step': 2}, [0, 0])
    results = json.loads((tmp_path / 'output' / 'results.json').read_text())
    assert results['eval'] and json.loads(logged(tmp_path / 'output', 'evaluator-0').splitlines()[-1]) == results
    assert 'Saving dict' not in logged(tmp_path / 'output', 'chief')


def test_an_evaluator_that_is_stopped_stops_nobody_and_a_signal_still_does(run, processes, tiny_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(local, '_TERMINATE_SECONDS', 0.5)
    monkeypatch.setenv('TINY_SECONDS', '0.05')
    log = tmp_path / 'output' / 'cluster' / 'evaluator-0.log'
    soon(lambda: log.exists() and 'Saving dict' in log.read_text(), lambda: processes[1].send_signal(signal.SIGTERM))

    def stop_later():
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    soon(lambda: len(processes) == 2 and processes[1].returncode is not None, stop_later)
    with pytest.raises(SystemExit) as stopped:
        flags = ('--local_cluster=chief:1,evaluator:1', '--train_steps=100000', '--save_checkpoints_steps=20')
        run(*TINY, f'--data_dir={tiny_dir}', *flags)
    assert (stopped.value.code, codes(processes)) == (130, [130, 143])


@pytest.mark.parametrize('task', [0, 1], ids=['chief', 'worker'])
def test_a_task_that_is_stopped_before_its_first_step_stops_all_with_parameter_servers(
    run, processes, tmp_path, monkeypatch, task
):
    monkeypatch.setattr(local, '_TERMINATE_SECONDS', 0.5)
    log = tmp_path / 'output' / 'cluster' / f'{["chief", "worker-0"][task]}.log'
    soon(lambda: log.exists() and 'Calling model_fn' in log.read_text(), lambda: processes[task].send_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as stopped:
        run(*POLYNOMIAL, '--local_cluster=chief:1,worker:1,ps:1', '--train_steps=1000000')
    chief, *others = codes(processes)
    assert stopped.value.code == chief == 143 and set(others) <= {143, 1}  # They may have lost the chief.


@pytest.mark.skipif(not os.path.exists('/proc/self/task'), reason='child processes are looked up in /proc')
def test_the_tasks_end_with_a_launcher_that_is_killed(start, tmp_path):
    launcher = start(*POLYNOMIAL, '--local_cluster=worker:2', '--train_steps=1000000')
    children = pathlib.Path(f'/proc/{launcher.pid}/task/{launcher.pid}/children')
    while len(pids := children.read_text().split()) < 2:
        assert launcher.poll() is None
        time.sleep(0.01)
    launcher.kill()
    launcher.wait()
    deadline = time.monotonic() + 60
    try:
        while any(map(is_alive, pids)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        for pid in filter(is_alive, pids):
            os.kill(int(pid), signal.SIGKILL)


def is_alive(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(') ')[2][0] != 'Z'
    except FileNotFoundError:
        return False


def test_the_tasks_are_counted_by_job():
    assert local_tasks.parse('worker:2') == {'worker': 2}
    assert local_tasks.parse('evaluator:1,worker:12,chief:1') == {'evaluator': 1, 'worker': 12, 'chief': 1}


@pytest.mark.parametrize(
    'text, message',
    [
        ('worker', 'must list jobs'),
        ('worker:', 'must list jobs'),
        ('worker:0', 'must list jobs'),
        ('worker:-1', 'must list jobs'),
        ('worker:2,', 'must list jobs'),
        ('worker:1,worker:2', 'must list jobs'),
        ('boss:2', 'must list jobs, each once, .*; the jobs are: chief, worker, ps, evaluator$'),
        ('ps:2,evaluator:1', 'none of its tasks trains: add workers'),
        ('chief:2', 'a cluster has at most one chief'),
        ('worker:2,evaluator:2', 'a cluster has at most one evaluator'),
        ('worker:65', '65 processes are too many'),
        ('worker:1', 'one task is no cluster'),
        ('chief:1', 'one task is no cluster'),
        ('evaluator:1', 'none of its tasks trains: add workers'),
        ('ps:1', 'none of its tasks trains: add workers'),
    ],
)
def test_what_is_no_cluster_is_refused(text, message):
    with pytest.raises(UsageError, match=f'^--local_cluster={text}:? {message}'):
        local_tasks.parse(text)


@pytest.mark.parametrize(
    'flags, message',
    [
        (['--local_cluster=worker:1'], '--local_cluster=worker:1: one task is no cluster'),
        (
            ['--local_cluster=worker:2', '--schedule=predict'],
            '--local_cluster requires --schedule=train_and_evaluate or train, ',
        ),
        (
            ['--local_cluster=worker:2', '--schedule=dry_run'],
            '--local_cluster requires --schedule=train_and_evaluate or train, ',
        ),
        (['--restarts=1'], '--restarts requires --local_cluster'),
        (['--restarts=-1', '--local_cluster=worker:2'], 'flag --restarts=-1'),
        (['--local_cluster=worker:2', '--hparams=batch_sise=3'], '--hparams: unknown hyper-parameter batch_sise'),
    ],
)
def test_mistakes_are_found_before_anything_is_started(run, processes, tmp_path, flags, message):
    code, _, err = run(*POLYNOMIAL, *flags)
    assert code == 2 and err.startswith(f'trainer.py: {message}')
    assert not processes and list(tmp_path.iterdir()) == []


def test_a_remote_output_dir_has_no_place_for_logs(run, processes):
    code, _, err = run(*POLYNOMIAL, '--local_cluster=worker:2', output_dir='gs://bucket/run')
    assert code == 2 and err.startswith('trainer.py: --output_dir=gs://bucket/run: --local_cluster needs a local directory')


def test_a_task_of_another_cluster_starts_none(run, processes, monkeypatch):
    cluster = {'cluster': {'worker': ['a:1', 'b:1']}, 'task': {'type': 'worker', 'index': 0}}
    monkeypatch.setenv('TF_CONFIG', json.dumps(cluster))
    code, _, err = run(*POLYNOMIAL, '--local_cluster=worker:2')
    assert code == 2 and err.startswith(
        'trainer.py: TF_CONFIG or Slurm names a cluster, and --local_cluster runs on one machine'
    )
    assert not processes


@pytest.mark.parametrize('flag', ['--local_cluster=worker:2', '--restarts=1'])
def test_sweeps_refuse_it(execute, tmp_path, flag):
    code, _, err = execute(sweep.main, ['sweep.py', *POLYNOMIAL, f'--output_dir={tmp_path}/output', flag])
    name = flag.partition('=')[0]
    assert (code, err) == (2, f'sweep.py: {name} is for trainer.py: each trial of a sweep trains in one process\n')


def test_each_task_has_a_gpu_if_there_are_enough():
    assert local.share_gpus(2, 3, '') == [{'CUDA_VISIBLE_DEVICES': '0'}, {'CUDA_VISIBLE_DEVICES': '1'}]
    assert local.share_gpus(2, 2, '5,3') == [{'CUDA_VISIBLE_DEVICES': '5'}, {'CUDA_VISIBLE_DEVICES': '3'}]
    assert local.share_gpus(2, 1, '') == local.share_gpus(2, 0, '-1') == [{}, {}]


def test_a_failure_is_explained_by_what_its_own_process_has_logged(tmp_path):
    log = tmp_path / 'chief.log'
    log.write_text('trainer.py: an old mistake\n')
    assert children.explain(str(log), 1) == f'trainer.py: an old mistake (log: {log})'
    assert children.explain(str(log), 1, log.stat().st_size) == f'exit code 1 (log: {log})'
