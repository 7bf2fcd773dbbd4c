"""Clusters with parameter servers: real processes, which train asynchronously."""

import concurrent.futures
import contextlib
import json
import signal
import types

import pytest
import tensorflow.compat.v1 as tf

from common.cluster.asynchronous import AsynchronousTask, ParameterServer
from common.cluster.placement import LeastLoaded
from common.cluster.tf_config import ClusterConfig
from common.errors import UsageError
from tests.cluster.conftest import HPARAMS, RESTART, STEPS
from tests.cluster.tasks import addresses
from tests.shared import assert_equal

pytestmark = pytest.mark.slow

LONG = (f'--train_steps={6 * STEPS}', '--save_checkpoints_steps=100', '--save_summary_steps=10')


@pytest.mark.parametrize(
    'count, expected',
    [(1, [0, 0, 0, 0, 0]), (2, [0, 1, 1, 1, 1]), (3, [0, 1, 2, 2, 2])],
)
def test_each_variable_goes_to_the_server_with_the_fewest_bytes(count, expected):
    chosen = []
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(count, ps_strategy=LeastLoaded(count))):
        for i, (shape, dtype) in enumerate(
            [([10, 10], tf.float32), ([20], tf.float64), ([], tf.int64), ([3], tf.float32), ([2], tf.float32)]
        ):
            variable = tf.get_variable(f'v{i}', shape, dtype, use_resource=True, trainable=False)
            chosen.append(tf.DeviceSpec.from_string(variable.device).task)
    assert chosen == expected


def test_a_server_that_hangs_ends_the_others_after_the_timeout(train):
    cluster = addresses(chief=1, worker=1, ps=1)
    run = train(2, '--cluster_timeout=5', '--train_steps=5000', servers=1, cluster=cluster, environ={'TINY_SECONDS': '0.03'})
    run.wait_for_step('chief0', 3)
    run.processes['ps0'].send_signal(signal.SIGSTOP)
    try:
        assert [run.processes[task].wait(60) for task in ('chief0', 'worker0')] == [1, 1]
    finally:
        run.kill()
    for task in ('chief0', 'worker0'):
        assert f'ps 0 ({cluster["ps"][0]}) does not answer; its own log may say why' in run.error(task)


def test_a_chief_alone_trains_as_one_process_and_resumes_exactly(train, tmp_path):
    """Also: a signal to the parameter server stops the training."""
    flags = ['--schedule=train', f'--hparams={HPARAMS},ema_decay=0.9,uses_words=true']
    alone = train(1, *flags)
    run = train(1, *flags, servers=1, directory=tmp_path, environ={'TINY_SECONDS': '0.05'})
    run.wait_for_step('chief0', 3)
    run.processes['ps0'].send_signal(signal.SIGTERM)
    assert run.wait() == [143, 143]
    assert 3 < run.weights()['global_step'] < STEPS
    resumed = train(1, *flags, servers=1, directory=tmp_path)
    assert alone.wait() == [0] and resumed.wait() == [0, 0]
    assert_equal(resumed.weights(), alone.weights(), 1e-6)


def test_a_worker_that_has_ended_is_not_named_as_lost():
    cluster = addresses(chief=1, worker=1, ps=1)
    server = ParameterServer(ClusterConfig(cluster, 'ps', 0), 60)
    assert str(server.loss()) == f'chief ({cluster["chief"][0]}) is lost; its own log may say why: {RESTART}'


def test_a_worker_that_is_lost_and_started_again_stops_nobody(train):
    run = train(2, *LONG, servers=2, environ={'TINY_SECONDS': '0.03'})
    run.wait_for('worker0', 'Running local_init_op')
    run.wait_for_step('chief0', 20)
    run.processes['worker0'].send_signal(signal.SIGKILL)
    run.processes['worker0'].wait()
    run.wait_for_step('chief0', 90)
    run.start('worker')
    assert run.wait() == [0, 0, 0, 0]
    results = [run.result(f'{job}0') for job in ('chief', 'worker')]
    assert all(6 * STEPS <= result['global_step'] <= 6 * STEPS + 2 for result in results)
    assert results[0]['eval']['loss'] < 0.1  # 0.9 before the first step.


@pytest.mark.parametrize('lost, left', [('ps0', ['chief0', 'worker0']), ('chief0', ['worker0', 'ps0'])])
def test_a_lost_chief_or_server_ends_the_others(train, lost, left):
    cluster = addresses(chief=1, worker=1, ps=1)
    run = train(2, '--train_steps=5000', cluster=cluster, environ={'TINY_SECONDS': '0.03'})
    run.wait_for('worker0', 'Running local_init_op')
    run.processes[lost].send_signal(signal.SIGKILL)
    assert dict(zip(run.processes, run.wait())) == {lost: -signal.SIGKILL, **dict.fromkeys(left, 1)}
    name = {'ps0': 'ps 0', 'chief0': 'chief'}[lost]
    for task in left:
        assert run.error(task).startswith(f'trainer.py: {name} ({cluster[lost[:-1]][0]})')
        assert run.error(task).endswith(f' is lost; its own log may say why: {RESTART}')


def test_a_signal_to_the_chief_stops_all_and_the_evaluator_evaluates_what_it_saved(train, tmp_path):
    run = train(2, *LONG, servers=1, evaluators=1, directory=tmp_path, environ={'TINY_SECONDS': '0.03'})
    run.wait_for_step('chief0', 20)
    run.processes['chief0'].send_signal(signal.SIGTERM)
    run.wait_for('evaluator0', 'Saving dict')
    run.processes['evaluator0'].send_signal(signal.SIGTERM)
    assert run.wait() == [143] * 4
    saved = int(run.weights()['global_step'])
    assert 20 < saved < 6 * STEPS
    resumed = train(2, *LONG, servers=1, evaluators=1, directory=tmp_path)
    assert resumed.wait() == [0] * 4
    assert 'Restoring parameters from' in resumed.log('chief0')  # Its name may be an earlier step's.
    assert resumed.result('evaluator0') == json.loads((run.output_dir / 'results.json').read_text())
    assert 'Saving dict' not in resumed.log('chief0')


def test_a_signal_to_a_worker_while_the_chief_evaluates_brings_no_further_evaluation(train):
    slow = {'chief0': {'TINY_SECONDS': '0.5'}, 'worker0': {'TINY_SECONDS': '0.05'}}
    run = train(2, '--train_steps=5000', '--save_checkpoints_steps=5', servers=1, environs=slow)
    run.wait_for('chief0', 'Restoring parameters')
    run.processes['worker0'].send_signal(signal.SIGTERM)
    assert run.wait() == [143] * 3
    assert run.log('chief0').count('Saving dict') == 1


def test_early_stopping_stops_the_workers(train):
    flags = ['--early_stopping_patience=1', '--early_stopping_min_delta=100', '--eval_every_steps=5', '--train_steps=5000']
    run = train(2, *flags, servers=1, environ={'TINY_SECONDS': '0.01'})
    assert run.wait() == [0, 0, 0]
    assert run.result()['global_step'] < 5000 and 'Stopping early' in run.log('chief0')


def test_a_server_of_another_training_is_refused_and_one_whose_chief_leaves_ends():
    cluster = addresses(chief=1, ps=1)
    other = {**addresses(chief=1), 'ps': cluster['ps']}
    server = ParameterServer(ClusterConfig(cluster, 'ps', 0), 60)
    chief, stranger = (AsynchronousTask(ClusterConfig(hosts, 'chief', 0), 60, None) for hosts in (cluster, other))
    no_signal = types.SimpleNamespace(received=None, defer_signals=contextlib.nullcontext)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        serving = pool.submit(server.serve, no_signal)
        try:
            chief.meet({'learning_rate': '0.1'})
            with pytest.raises(UsageError) as error:
                stranger.meet({'learning_rate': '0.2'})
        finally:
            stranger.end_watch()
            chief.leave()
        hosts = [' '.join([*hosts['chief'], *hosts['ps']]) for hosts in (cluster, other)]
        assert str(error.value).startswith(
            f'ps 0 has TF_CONFIG={hosts[0]}, but chief has TF_CONFIG={hosts[1]}: start all tasks'
        )
        assert serving.result(60) == 0


@pytest.mark.parametrize(
    'flag, name',
    [
        ('--steps_per_loop=2', '--steps_per_loop'),
        (f'--hparams={HPARAMS},gradient_accumulation_steps=2', 'gradient_accumulation_steps'),
    ],
)
def test_what_needs_all_tasks_in_each_step_is_refused(train, flag, name):
    run = train(1, flag, servers=1)
    assert run.wait() == [2, 2]
    for task in run.processes:
        assert (
            run.error(task) == f'trainer.py: {name} does not go with parameter servers: omit it, or leave ps out of the cluster'
        )


def test_a_loss_that_is_not_finite_ends_a_worker_with_a_line(train):
    run = train(2, '--train_steps=5000', '--hparams=batch_size=12,optimizer=sgd,learning_rate=1e30', servers=1)
    assert run.wait()[:2] == [1, 1]
    assert any('lower learning_rate' in run.error(task) for task in ('chief0', 'worker0'))
    assert not any('Traceback' in run.log(task) for task in run.processes)
