"""Clusters with parameter servers: real processes, which train asynchronously."""

import concurrent.futures
import contextlib
import signal
import types

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster import asynchronous, watch
from estimator_trainer.common.cluster.probe import ANSWERS, LOST, UNREACHABLE
from estimator_trainer.common.cluster.tf_config import ClusterConfig
from tests.cluster.conftest import HPARAMS, STEPS
from tests.cluster.tasks import addresses, wait_until
from tests.shared import assert_equal, failed, refused

ENDLESS = ('--train_steps=100000', '--save_summary_steps=10')


def test_each_variable_goes_to_the_server_with_the_fewest_bytes():
    shapes = [('float32', 10, 10), ('float64', 20), ('int64',), ('float32', 3), ('float32', 40), ('int64',)]
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(3, ps_strategy=asynchronous.LeastLoaded(3))):
        variables = [tf.get_variable(f'v{i}', shape, dtype, use_resource=True) for i, (dtype, *shape) in enumerate(shapes)]
    chosen = [tf.DeviceSpec.from_string(variable.device).task for variable in variables]
    assert chosen == [0, 1, 2, 2, 2, 1]  # Of 400, 160 and 180 bytes, the last one goes to the second.


def test_a_chief_alone_trains_as_one_process_and_resumes_exactly_after_a_stop_and_a_loss(train, tmp_path):
    """Also: a signal to the parameter server stops training, and its loss ends the chief."""
    flags = ['--schedule=train', f'--hparams={HPARAMS},ema_decay=0.9,uses_words=true', '--save_checkpoints_steps=5']
    alone = train(1, *flags)
    slow = {'servers': 1, 'directory': tmp_path, 'environ': {'TINY_SECONDS': '1'}}
    run = train(1, *flags, **slow)
    run.wait_for_step('chief0', 3)
    run.send('ps0', signal.SIGTERM)
    assert run.wait() == [143, 143]
    step = run.weights()['global_step']
    assert 3 < step < STEPS
    run = train(1, *flags, **slow)
    run.wait_for_step('chief0', step + 6)
    run.send('ps0', signal.SIGKILL)
    assert run.wait() == [1, -signal.SIGKILL]
    assert run.error('chief0') == run.loss('ps')
    assert step < run.weights()['global_step'] < STEPS
    resumed = train(1, *flags, servers=1, directory=tmp_path)
    assert alone.wait() == [0] and resumed.wait() == [0, 0]
    assert_equal(resumed.weights(), alone.weights(), 1e-6)


def test_a_lost_and_restarted_worker_stops_nobody(train, tmp_path):
    """Also: early stopping of the chief stops the worker."""
    stopping = ('--early_stopping_patience=2', '--early_stopping_min_delta=100', '--save_checkpoints_steps=100')
    environ = {'TINY_SECONDS': '0.03', 'TINY_EVALUATION': str(tmp_path / 'returned')}
    run = train(2, *ENDLESS, *stopping, servers=2, environ=environ)
    run.wait_for('worker0', 'Running local_init_op')
    run.wait_for_step('chief0', 20)
    run.send('worker0', signal.SIGKILL)
    run.processes['worker0'].wait()
    run.wait_for_step('chief0', 90)
    run.start('worker')
    run.wait_for('worker0', 'Done running local_init_op')
    (tmp_path / 'returned').touch()
    assert run.wait() == [0, 0, 0, 0]
    results = [run.result(f'{job}0') for job in ('chief', 'worker')]
    assert all(300 <= result['global_step'] < 100000 for result in results) and 'Stopping early' in run.log('chief0')
    assert results[0]['eval']['loss'] < 0.1  # 0.9 before the first step.


def test_a_lost_chief_ends_the_others_which_do_not_name_a_previously_lost_worker(train):
    run = train(3, *ENDLESS, servers=1, environ={'TINY_SECONDS': '0.03'})
    run.wait_for('worker0', 'Running local_init_op')
    for task in ('worker1', 'chief0'):
        run.send(task, signal.SIGKILL)
        run.processes[task].wait()
    assert run.wait() == [-signal.SIGKILL, 1, -signal.SIGKILL, 1]
    assert run.error('ps0') == run.loss('chief')
    # The parameter server may have ended, too, before the worker asked.
    assert run.error('worker0').startswith('trainer.py: chief (') and 'worker 1' not in run.error('worker0')


def test_a_signal_to_a_worker_while_the_chief_evaluates_stops_all_and_they_resume(train, tmp_path):
    """Also: all end with 0 at the last step, which each task may exceed by one."""
    flags = [f'--train_steps={6 * STEPS}', '--save_summary_steps=10']
    environ = {'TINY_SECONDS': '1', 'TINY_EVALUATION': str(tmp_path / 'told')}
    run = train(2, *flags, '--save_checkpoints_steps=5', servers=1, directory=tmp_path, environ=environ)
    run.wait_for('chief0', 'Restoring parameters')
    run.send('worker0', signal.SIGTERM)
    wait_until(lambda: 'SIGTERM: stopping' in run.log('worker0'))
    (tmp_path / 'told').touch()
    assert run.wait() == [143] * 3
    assert run.log('chief0').count('Saving dict') == 1
    assert 5 <= int(run.weights()['global_step']) < 6 * STEPS
    resumed = train(2, *flags, '--save_checkpoints_steps=150', servers=1, directory=tmp_path)
    assert resumed.wait() == [0] * 3 and 'Restoring parameters from' in resumed.log('chief0')
    steps = [resumed.result(task)['global_step'] for task in ('chief0', 'worker0')]
    assert all(6 * STEPS <= step <= 6 * STEPS + 2 for step in steps)


def test_a_server_of_another_run_is_rejected_and_one_whose_chief_leaves_ends():
    cluster = addresses(chief=1, ps=1)
    other = {**cluster, **addresses(chief=1)}
    server = asynchronous.ParameterServer(ClusterConfig(cluster, 'ps', 0), 60)
    chief, stranger = (asynchronous.AsynchronousTask(ClusterConfig(hosts, 'chief', 0), 60, None) for hosts in (cluster, other))
    no_signal = types.SimpleNamespace(received=None, defer_signals=contextlib.nullcontext)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        serving = pool.submit(server.serve, no_signal)
        try:
            chief.meet({'learning_rate': '0.1'})
            error = refused(stranger.meet, {'learning_rate': '0.2'})
        finally:
            stranger.end_watch()
            chief.leave()
        theirs, mine = (' '.join([*hosts['chief'], *hosts['ps']]) for hosts in (cluster, other))
        assert error.startswith(f'ps 0 has TF_CONFIG={theirs}, but chief has TF_CONFIG={mine}: start all tasks')
        assert serving.result(60) == 0


def test_a_worker_that_has_finished_waits_for_an_answer_of_the_chief_or_tells_that_it_is_lost(monkeypatch):
    cluster, asked = addresses(chief=1, worker=1, ps=1), []
    (chief,), answers = cluster['chief'], iter([UNREACHABLE, ANSWERS, LOST, LOST, LOST, LOST, LOST])
    task = asynchronous.AsynchronousTask(ClusterConfig(cluster, 'worker', 0), 60, None)

    def ask(found):
        asked.extend(found)
        return {address: next(answers) if address == chief else ANSWERS for address in found}

    monkeypatch.setattr(watch, 'probe_all', ask)
    task.check_chief()
    assert asked == [chief, chief]
    monkeypatch.setattr(task._watch, '_addresses', [chief])
    assert failed(task.check_chief).startswith(f'chief ({chief}) is lost; its own log may say why: restart all tasks')
