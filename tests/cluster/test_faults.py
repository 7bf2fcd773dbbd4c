"""Tasks of a cluster that are lost, hang, or were started differently: all end, with a line that says why."""

import re
import signal

import numpy as np

from tests.cluster import tiny_data
from tests.cluster.conftest import HPARAMS, RESTART
from tests.cluster.tasks import addresses
from tests.shared import losses

ALIKE = 'start all tasks with the same command, the same data and the same cluster'
HAS_BFLOAT16 = 'avx512f' in open('/proc/cpuinfo').read()


def test_a_task_that_makes_its_session_after_another_was_lost_ends_too(train):
    cluster = addresses(chief=1, worker=1)
    run = train(2, cluster=cluster, environs={'worker0': {'TINY_MODEL_SECONDS': '3'}})
    run.wait_for('worker0', 'Calling model_fn')
    run.processes['chief0'].send_signal(signal.SIGKILL)
    assert run.wait() == [-signal.SIGKILL, 1]
    assert run.error('worker0') == f'trainer.py: chief ({cluster["chief"][0]}) is lost; its own log may say why: {RESTART}'


def test_a_task_that_hangs_ends_the_others_after_the_timeout_and_is_named(train):
    """Until then, they train with batch norm and bfloat16."""
    cluster = addresses(chief=1, worker=1)
    flags = ['--cluster_timeout=20', '--save_checkpoints_steps=10', f'--hparams={HPARAMS},normalizes=true', '--schedule=train']
    flags += ['--precision=bfloat16'] if HAS_BFLOAT16 else []
    run = train(2, *flags, '--train_steps=5000', cluster=cluster, environ={'TINY_SECONDS': '0.02'})
    run.wait_for_step('chief0', 40)
    run.processes['worker0'].send_signal(signal.SIGSTOP)
    try:
        assert run.processes['chief0'].wait(100) == 1
    finally:
        run.kill()
    hung = f'worker 0 ({cluster["worker"][0]}) does not answer; its own log may say why: {RESTART}'
    assert run.error('chief0') == f'trainer.py: {hung}'
    found = losses(re.sub(r'\[.*?\]', '', run.log('chief0')))
    assert found[39] < found[0] / 2
    assert all(np.isfinite(value).all() for value in run.weights().values())
    assert run.weights()['batch_normalization/moving_variance'] != 1


def test_a_step_that_does_not_end_ends_all_after_the_timeout(train):
    run = train(2, '--cluster_timeout=20', environs={'worker0': {'TINY_SECONDS': '100'}})
    assert run.wait() == [1, 1]
    slow = (
        f'another task has not answered for 20 seconds: {RESTART}; if a task is that slow, for example in an evaluation, raise '
        '--cluster_timeout'
    )
    assert any(slow in run.error(task) for task in run.processes)
    assert not any('Traceback' in run.log(task) for task in run.processes)


def test_a_loss_that_is_not_finite_ends_all_with_a_line(train):
    run = train(2, '--schedule=train', '--hparams=batch_size=12,optimizer=sgd,learning_rate=1e30')
    assert run.wait() == [1, 1]
    for task in run.processes:
        assert re.match(r'trainer.py: the loss of (a step after )?step 2 is (nan|inf): lower learning_rate', run.error(task))
        assert 'Traceback' not in run.log(task)


def test_tasks_that_were_started_differently_name_what_differs(train, tmp_path):
    tiny_data.write(tmp_path / 'other', seed=1)
    flags = {'worker0': [f'--hparams={HPARAMS.replace("0.05", "0.06")}'], 'worker1': ['--warm_start_from=/nowhere']}
    run, of_data = train(3, only=flags), train(2, only={'worker0': [f'--data_dir={tmp_path / "other"}']})
    assert run.wait() == [2, 2, 2] and of_data.wait() == [2, 2]
    rate = 'worker 0 has learning_rate=0.06, but chief has learning_rate=0.05'
    assert run.error('chief0') == f'trainer.py: {rate}: {ALIKE}'
    assert run.error('worker0').startswith('trainer.py: chief has learning_rate=0.05, but worker 0 has learning_rate=0.06: ')
    given = 'chief has warm_start_from="not given", but worker 1 has warm_start_from="given"'
    assert run.error('worker1') == f'trainer.py: {given}: {ALIKE}'
    for task, mine, theirs in (('chief0', 'chief', 'worker 0'), ('worker0', 'worker 0', 'chief')):
        assert of_data.error(task).startswith(f'trainer.py: {theirs} has the checksum of the training data=')
        assert f', but {mine} has the checksum of the training data=' in of_data.error(task)


def test_a_refusal_of_the_chief_ends_the_others(train, tmp_path):
    (tmp_path / 'output' / 'best').mkdir(parents=True)  # Of a run without checkpoints.
    cluster = addresses(chief=1, worker=1)
    run = train(2, directory=tmp_path, cluster=cluster)
    assert run.wait() == [1, 1]
    assert 'belongs to a run with no checkpoints' in run.error('chief0')
    assert run.error('worker0') == (f'trainer.py: chief ({cluster["chief"][0]}) is lost; its own log may say why: {RESTART}')
