"""MultiWorkerMirroredStrategy over processes on loopback, with TF_CONFIG."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.distribute.distribute_config import DistributeConfig

from tests import forked
from tests.cluster.tasks import addresses, tf_config
from tests.tf_estimator.programs import RESTORED, SCRIPTS, not_on_2_15, set_tf_config

# TensorFlow 2.15 has no evaluator beside a MultiWorkerMirroredStrategy in eager mode.
OPTIONS = () if RESTORED else ('graph',)


def descend(steps, workers, slope=0.0, momentum=0.0):
    """Returns the slope that the script learns: gradient descent on one example of each worker at a time."""
    examples = [[x for i, x in enumerate([1, 2, 3]) if i % workers == worker] for worker in range(workers)]
    for step in range(steps):
        x = np.float64([own[step % len(own)] for own in examples])
        momentum = 0.5 * momentum + np.mean(2 * x**2 * (slope - 2))
        slope -= 0.02 * momentum
    return slope


def start(cluster, job, index, *arguments):
    environ = {**os.environ, 'TF_CONFIG': tf_config(cluster, job, index)}
    command = [sys.executable, os.path.join(SCRIPTS, 'multi_worker.py'), *map(str, arguments)]
    return forked.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextlib.contextmanager
def started(cluster, *arguments):
    """Starts all tasks of a cluster; yields {(job, index): process}, and ends what is left of them."""
    tasks = {}
    try:
        for job, own in cluster.items():
            for index in range(len(own)):
                tasks[job, index] = start(cluster, job, index, *arguments)
        yield tasks
    finally:
        for task in tasks.values():
            task.kill()
            task.communicate()


def ended(tasks):
    """Waits for the tasks; returns {(job, index): (stdout's JSON lines, stderr)}."""
    outputs = {}
    for name, task in tasks.items():
        out, err = task.communicate(timeout=120)
        assert task.returncode == 0, f'{name}: {err}'
        outputs[name] = [json.loads(line) for line in out.splitlines()], err
    return outputs


def test_three_workers_learn_from_the_examples_of_all(tmp_path):
    with started(addresses(worker=3), tmp_path, 10, 'graph') as tasks:
        outputs = ended(tasks)
    for index in range(3):
        ((seen,), _) = outputs['worker', index]
        assert seen == {
            'input': [index, 3],
            'task': ['worker', index, index == 0, index],
            'counts': [3, 0],
            'slope': pytest.approx(descend(10, workers=3), rel=1e-5),
        }


def test_with_a_mirrored_strategy_the_chief_alone_trains_on_the_devices_of_all(tmp_path):
    with started(addresses(chief=1, worker=1), tmp_path, 10, 'graph', 'one client') as tasks:
        ((seen,), _) = ended({'chief': tasks['chief', 0]})['chief']
        assert tasks['worker', 0].poll() is None  # It serves until it is stopped.
    assert seen == {
        'input': [1, 2],  # It is called for each task; this is the last.
        'task': [None, None, True, 0],
        'counts': [2, 0],
        'slope': pytest.approx(descend(10, workers=2), rel=1e-5),
    }


def test_killed_tasks_go_on_from_the_checkpoint_and_the_evaluator_evaluates(tmp_path):
    cluster = addresses(chief=1, worker=1)
    with started(cluster, tmp_path, 10**7, *OPTIONS) as tasks:
        for _ in range(1200):
            if tf.train.latest_checkpoint(tmp_path) or any(task.poll() is not None for task in tasks.values()):
                break
            time.sleep(0.1)
        for task in tasks.values():
            assert task.poll() is None, task.communicate()
            task.send_signal(signal.SIGKILL)
    saved = tf.train.load_checkpoint(tf.train.latest_checkpoint(tmp_path))
    step = int(saved.get_tensor('global_step'))
    slope, momentum = (float(saved.get_tensor(name)) for name in ('slope', 'slope/Momentum'))

    with started({**cluster, 'evaluator': addresses(evaluator=1)['evaluator']}, tmp_path, step + 4, *OPTIONS) as tasks:
        outputs = ended(tasks)
    expected = pytest.approx(descend(4, 2, slope, momentum), rel=1e-5)
    for index, name in enumerate([('chief', 0), ('worker', 0)]):
        ((seen,), _) = outputs[name]
        assert (seen['input'], seen['counts'], seen['slope']) == ([index, 2], [2, 0], expected)
    evaluations = re.findall(r'Saving dict for global step (\d+): .*slope = ([-.e\d]+)', outputs['evaluator', 0][1])
    assert evaluations[-1][0] == str(step + 4)
    assert float(evaluations[-1][1]) == expected


def test_train_and_evaluate_is_the_only_way_over_several_machines(monkeypatch, tmp_path):
    set_tf_config(monkeypatch, {'chief': ['a:1'], 'worker': ['b:1']}, 'chief')
    config = tf.estimator.RunConfig(str(tmp_path), train_distribute=tf.distribute.OneDeviceStrategy('/cpu:0'))
    estimator = tf.estimator.Estimator(lambda features, labels, mode: None, config=config)
    with pytest.raises(ValueError, match='train_and_evaluate|STANDALONE_CLIENT'):
        estimator.train(lambda: None, steps=1)


def test_strategies_of_experimental_distribute_are_those_of_the_run_config():
    one, other = tf.distribute.OneDeviceStrategy('/cpu:0'), tf.distribute.OneDeviceStrategy('/cpu:0')
    config = tf.estimator.RunConfig(experimental_distribute=DistributeConfig(one, other))
    assert (config.train_distribute, config.eval_distribute) == (one, other)
    with pytest.raises(ValueError, match='train_distribute'):
        tf.estimator.RunConfig(train_distribute=other, experimental_distribute=DistributeConfig(one))


@not_on_2_15
def test_a_remote_cluster_is_refused_with_the_cure():
    remote = DistributeConfig(tf.distribute.OneDeviceStrategy('/cpu:0'), remote_cluster={'worker': ['a:1']})
    with pytest.raises(ValueError, match='remote_cluster needs TensorFlow 2.15 or older: start the program once'):
        tf.estimator.RunConfig(experimental_distribute=remote)
