"""Faults in a cluster: lost, hanging or differently started tasks end all, with a line that names the reason."""

import re
import signal

import numpy as np
import pytest

from tests.cluster import tiny_data
from tests.cluster.conftest import HPARAMS
from tests.cluster.tasks import RESTART
from tests.shared import losses

HAS_BFLOAT16 = 'avx512f' in open('/proc/cpuinfo').read()


def test_a_task_that_creates_its_session_after_a_loss_also_ends(train):
    run = train(2, environs={'worker0': {'TINY_MODEL_SECONDS': '3'}})
    run.wait_for('worker0', 'Calling model_fn')
    run.send('chief0', signal.SIGKILL)
    assert run.wait() == [-signal.SIGKILL, 1]
    assert run.error('worker0') == run.loss('chief')


@pytest.fixture(scope='module')
def silent(train):
    """Runs in which a worker stops, a step does not end, and a parameter server stops; they wait at the same time."""
    endless = ('--train_steps=100000', '--save_summary_steps=10')
    server = train(2, '--cluster_timeout=60', *endless, servers=1, environ={'TINY_SECONDS': '0.03'})
    server.wait_for('worker0', 'Running local_init_op')
    server.wait_for_step('chief0', 3)
    server.send('ps0', signal.SIGSTOP)
    slow = train(2, '--cluster_timeout=60', environs={'worker0': {'TINY_SECONDS': '100'}})
    flags = ['--cluster_timeout=60', '--save_checkpoints_steps=10', f'--hparams={HPARAMS},normalizes=true', '--schedule=train']
    flags += ['--precision=bfloat16'] if HAS_BFLOAT16 else []
    worker = train(2, *flags, '--train_steps=5000', environ={'TINY_SECONDS': '0.02'})
    worker.wait_for_step('chief0', 40)
    worker.send('worker0', signal.SIGSTOP)
    return {'worker': worker, 'slow': slow, 'server': server}


def test_a_task_that_hangs_ends_the_others_after_the_timeout_and_is_named(silent):
    """The tasks first train with batch norm and bfloat16."""
    run = silent['worker']
    assert run.wait('chief0') == [1]
    assert run.error('chief0') == run.loss('worker', 'does not answer')
    found = losses(re.sub(r'\[.*?\]', '', run.log('chief0')))
    assert found[39] < found[0] / 2
    assert all(np.isfinite(value).all() for value in run.weights().values())
    assert run.weights()['batch_normalization/moving_variance'] != 1


def test_a_step_that_does_not_end_ends_all_after_the_timeout(silent):
    run = silent['slow']
    assert run.wait() == [1, 1]
    slow = f'another task has not answered for 60 seconds: {RESTART}; if a task is that slow, for example in an evaluation, '
    assert any(f'{slow}raise --cluster_timeout' in run.error(task) for task in run.processes)
    assert not any('Traceback' in run.log(task) for task in run.processes)


def test_a_server_that_hangs_ends_the_others_after_the_timeout(silent):
    run = silent['server']
    assert run.wait('chief0', 'worker0') == [1, 1]
    assert [run.error(task) for task in ('chief0', 'worker0')] == [run.loss('ps', 'does not answer')] * 2


def test_a_loss_that_is_not_finite_ends_all_with_a_line(train):
    run = train(2, '--schedule=train', '--hparams=batch_size=12,optimizer=sgd,learning_rate=1e30')
    assert run.wait() == [1, 1]
    for task in run.processes:
        assert re.match(r'trainer.py: the loss of (a step after )?step 2 is (nan|inf): lower learning_rate', run.error(task))
        assert 'Traceback' not in run.log(task)


def test_differently_started_tasks_name_the_difference(train, tmp_path):
    flags = {'worker0': [f'--hparams={HPARAMS.replace("0.05", "0.06")}'], 'worker1': ['--warm_start_from=/nowhere']}
    other = {'worker0': [f'--data_dir={tiny_data.write(tmp_path / "other", seed=1)}']}
    run, of_data = train(3, only=flags), train(2, only=other)
    assert run.wait() == [2, 2, 2] and of_data.wait() == [2, 2]
    assert 'worker 0 has learning_rate=0.06, but chief has learning_rate=0.05: ' in run.error('chief0')
    assert 'chief has learning_rate=0.05, but worker 0 has learning_rate=0.06: ' in run.error('worker0')
    assert 'chief has warm_start_from="not given", but worker 1 has warm_start_from="given": ' in run.error('worker1')
    what = 'has the checksum of the training data=.*'
    assert re.match(f'trainer.py: worker 0 {what}, but chief {what}', of_data.error('chief0'))
