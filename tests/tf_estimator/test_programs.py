"""Programs on several devices, and on a cluster of processes."""

import contextlib
import json
import os
import re
import socket
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import pytest
import tensorflow as tf

from tests.tf_estimator.programs import SCRIPTS, finish, launch, set_tf_config, unlike_info
from tests.tf_estimator.slope import loss_after, slope_after

pytestmark = pytest.mark.slow


def test_a_mirrored_strategy_learns_from_the_examples_of_all_devices(tmp_path):
    code, out, err = finish(launch(os.path.join(SCRIPTS, 'mirrored.py'), str(tmp_path)))
    assert code == 0, err
    learned = {'slope': slope_after(3), 'loss': loss_after(3), 'global_step': 3}
    assert json.loads(out) == {'devices': ['CPU:0', 'CPU:1'], **learned}
    assert not unlike_info(err)


def test_tf_config_makes_a_run_config_of_a_cluster(monkeypatch):
    set_tf_config(monkeypatch, {'chief': ['a:1'], 'worker': ['b:1', 'c:1'], 'ps': ['d:1']}, 'worker', 1)
    config = tf.estimator.RunConfig()
    assert (config.task_type, config.task_id, config.is_chief) == ('worker', 1, False)
    assert (config.num_worker_replicas, config.num_ps_replicas, config.global_id_in_cluster) == (3, 1, 2)
    assert config.master == 'grpc://c:1'


def wait_for(is_ready, process):
    """Waits until a function returns True, or a process has ended, or a minute is over."""
    for _ in range(600):
        if is_ready() or process.poll() is not None:
            return
        time.sleep(0.1)


def is_listening(address):
    host, _, port = address.rpartition(':')
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0


@contextlib.contextmanager
def cluster(model_dir):
    """Starts a cluster of one task a job, and ends what is left of it; yields {job: process}."""
    jobs = ['ps', 'chief', 'evaluator', 'worker']
    with contextlib.ExitStack() as stack:
        sockets = {job: stack.enter_context(socket.socket()) for job in jobs if job != 'evaluator'}
        for unused in sockets.values():
            unused.bind(('127.0.0.1', 0))
        addresses = {job: [f'127.0.0.1:{unused.getsockname()[1]}'] for job, unused in sockets.items()}
    tasks = {}
    try:
        for job in jobs:
            if job == 'worker':  # If it comes before the chief is ready, it tries again only after 30 seconds.
                wait_for((model_dir / 'checkpoint').exists, tasks['chief'])
            tf_config = json.dumps({'cluster': addresses, 'task': {'type': job, 'index': 0}})
            tasks[job] = launch(os.path.join(SCRIPTS, 'cluster_task.py'), str(model_dir), TF_CONFIG=tf_config)
            if job == 'ps':  # A chief that comes before it says so in lines of many formats.
                wait_for(lambda: is_listening(addresses['ps'][0]), tasks['ps'])
        yield tasks
    finally:
        for task in tasks.values():
            task.kill()
            task.communicate()


def test_a_cluster_trains_on_its_parameter_server_and_evaluates(tmp_path):
    with cluster(tmp_path) as tasks:
        ended = {job: finish(tasks[job]) for job in ('chief', 'worker', 'evaluator')}
        assert tasks['ps'].poll() is None  # A parameter server of tf.estimator does not end by itself.
    for job, (code, out, err) in ended.items():
        assert code == 0, f'{job}: {err}'
        # The Estimator itself warns of an evaluation before the first checkpoint.
        assert all(re.match('WARNING:tensorflow:(?!From )', line) for line in unlike_info(err)), err
        assert out == ('slope on \n' * out.count('\n') if job == 'evaluator' else 'slope on /job:ps/task:0\n')
    evaluations = re.findall(r'Saving dict for global step (\d+): .*loss = ([-.e\d]+)', ended['evaluator'][2])
    assert int(evaluations[-1][0]) >= 200
    assert float(evaluations[-1][1]) < 1e-4
    assert tf.train.load_variable(str(tmp_path), 'slope') == pytest.approx(2, abs=0.01)
