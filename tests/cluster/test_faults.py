"""Tasks of a cluster that are lost, hang, or were started differently: all end, with a line that says why."""

import signal

import pytest

from tests.cluster import tiny_data
from tests.cluster.conftest import HPARAMS, RESTART
from tests.cluster.tasks import addresses, tf_config

pytestmark = pytest.mark.slow

ALIKE = 'start all tasks with the same command, the same data and the same cluster'


def test_a_task_that_makes_its_session_after_another_was_lost_ends_too(train):
    cluster = addresses(chief=1, worker=2)
    run = train(3, cluster=cluster, environs={'worker1': {'TINY_MODEL_SECONDS': '3'}})
    run.wait_for('worker1', 'Calling model_fn')
    run.processes['chief0'].send_signal(signal.SIGKILL)
    assert run.wait() == [-signal.SIGKILL, 1, 1]
    chief, worker0 = f'chief ({cluster["chief"][0]})', f'worker 0 ({cluster["worker"][0]})'
    assert chief in run.error('worker0'), run.error('worker0')
    assert any(lost in run.error('worker1') for lost in (chief, worker0)), run.error('worker1')  # The latter has ended, too.


def test_a_task_that_hangs_ends_the_others_after_the_timeout_and_is_named(train):
    cluster = addresses(chief=1, worker=2)
    run = train(3, '--cluster_timeout=5', cluster=cluster, environ={'TINY_SECONDS': '0.05'})
    run.wait_for('chief0', 'step = 3')
    run.processes['worker1'].send_signal(signal.SIGSTOP)
    try:
        assert [run.processes[task].wait(100) for task in ('chief0', 'worker0')] == [1, 1]
    finally:
        run.kill()
    hung = f'worker 1 ({cluster["worker"][1]}) does not answer; its own log may say why: {RESTART}'
    for task in ('chief0', 'worker0'):
        assert hung in run.error(task) or run.error(task).startswith('trainer.py: chief (')  # If the chief ended first.
    assert any(hung in run.error(task) for task in ('chief0', 'worker0'))


def test_a_step_that_does_not_end_ends_all_after_the_timeout(train):
    run = train(2, '--cluster_timeout=5', environs={'worker0': {'TINY_SECONDS': '100'}})
    assert run.wait() == [1, 1]
    slow = (
        f'another task has not answered for 5 seconds: {RESTART}; if a task is that slow, for example in an evaluation, raise '
        '--cluster_timeout'
    )
    assert any(slow in run.error(task) for task in run.processes)
    assert not any('Traceback' in run.log(task) for task in run.processes)


def test_tasks_that_were_started_differently_name_what_differs(train, tmp_path):
    tiny_data.write(tmp_path / 'other', seed=1)
    given = {
        'learning_rate': f'--hparams={HPARAMS.replace("0.05", "0.06")}',
        'batch_size': f'--hparams={HPARAMS.replace("12", "24")}',
        'the checksum of the training data': f'--data_dir={tmp_path / "other"}',
        'warm_start_from': '--warm_start_from=/nowhere',
    }
    runs = {name: train(2, only={'worker0': [flag]}) for name, flag in given.items()}
    for name, run in runs.items():
        assert run.wait() == [2, 2]
        for task, mine, theirs in (('chief0', 'chief', 'worker 0'), ('worker0', 'worker 0', 'chief')):
            assert run.error(task).startswith(f'trainer.py: {theirs} has {name}=')
            assert f', but {mine} has {name}=' in run.error(task) and run.error(task).endswith(ALIKE)


def test_a_refusal_of_the_chief_ends_the_others(train, tmp_path):
    (tmp_path / 'output' / 'best').mkdir(parents=True)  # Of a run without checkpoints.
    cluster = addresses(chief=1, worker=1)
    run = train(2, directory=tmp_path, cluster=cluster)
    assert run.wait() == [1, 1]
    assert 'belongs to a run with no checkpoints' in run.error('chief0')
    assert run.error('worker0') == (f'trainer.py: chief ({cluster["chief"][0]}) is lost; its own log may say why: {RESTART}')


def test_a_batch_that_the_tasks_do_not_divide_is_refused_by_each(train):
    run = train(2, f'--hparams={HPARAMS.replace("12", "13")}')
    assert run.wait() == [2, 2]
    for task in run.processes:
        assert run.error(task) == (
            'trainer.py: batch_size=13 is not divisible by 2 tasks: use --hparams=batch_size=12 or 14, or another number '
            'of tasks'
        )


def test_early_stopping_is_refused_by_the_evaluator_too(train):
    run = train(1, '--early_stopping_patience=2', evaluators=1, cluster=addresses(chief=1, evaluator=1))
    assert run.wait() == [2, 2]
    assert all('--early_stopping_patience needs evaluations by the chief' in run.error(task) for task in run.processes)


def test_two_tasks_of_one_index_end(train):
    cluster = addresses(chief=1, worker=1)
    config = {'worker0': tf_config(cluster, 'chief')}
    run = train(2, '--cluster_timeout=3', cluster=cluster, configs=config)
    assert run.wait() == [1, 1]
    errors = [run.error(task) for task in run.processes]
    port = cluster['chief'][0].rpartition(':')[2]
    assert any(f'TF_CONFIG: chief cannot listen on port {port}: end the process that uses it' in error for error in errors)
    assert any(
        f'worker 0 ({cluster["worker"][0]}) cannot be reached for 3 seconds (--cluster_timeout)' in error for error in errors
    )
