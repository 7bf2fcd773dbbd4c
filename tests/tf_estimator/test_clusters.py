"""Estimators on several processes on loopback, with TF_CONFIG: a parameter server, or MultiWorkerMirroredStrategy."""

import contextlib
import json
import os
import re
import subprocess
import sys

import pytest

if sys.platform != 'linux':
    reason = 'Processes are forked after TensorFlow is imported, which has been tried on Linux only'
    pytest.skip(reason, allow_module_level=True)

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.distribute_config import DistributeConfig
from tensorflow_estimator.python.estimator import training

from tests import forked
from tests.cluster.tasks import addresses, tf_config, wait_until
from tests.tf_estimator.programs import RESTORED, SCRIPTS

# TensorFlow 2.15 has no evaluator beside a MultiWorkerMirroredStrategy in eager mode.
OPTIONS = () if RESTORED else ('graph',)


def descend(steps, workers, slope=0.0, momentum=0.0):
    """Returns the slope that the script learns: gradient descent on one example of each worker at a time."""
    examples = [[x for i, x in enumerate([1, 2, 3]) if i % workers == worker] for worker in range(workers)]
    for step in range(steps):
        x = np.float64([own[step % len(own)] for own in examples])
        momentum = 0.5 * momentum + np.mean(2 * x**2 * (slope - 2))
        slope -= 0.002 * momentum
    return slope


@pytest.fixture
def start():
    """Starts the tasks of jobs of a cluster: start(cluster, jobs, argument, ...) -> {(job, index): process}."""
    with contextlib.ExitStack() as stack:

        def call(cluster, jobs, *arguments):
            tasks = {}
            command = [sys.executable, os.path.join(SCRIPTS, 'multi_worker.py'), *map(str, arguments)]
            for job, index in [(name, index) for name in jobs for index in range(len(cluster[name]))]:
                environ = {**os.environ, 'TF_CONFIG': tf_config(cluster, job, index)}
                tasks[job, index] = forked.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                stack.callback(kill, tasks[job, index])
            return tasks

        yield call


def kill(task):
    task.kill()
    task.communicate()


def ended(tasks):
    """Waits for the tasks; returns {(job, index): (stdout's JSON lines, stderr)}."""
    outputs = {}
    for name, task in tasks.items():
        out, err = task.communicate(timeout=250)
        assert task.returncode == 0, f'{name}: {err}'
        outputs[name] = [json.loads(line) for line in out.splitlines()], err
    return outputs


def last_evaluation(err):
    """Returns the step and the slope of the last evaluation of a log."""
    step, slope = re.findall(r'Saving dict for global step (\d+): .*slope = ([-.e\d]+)', err)[-1]
    return int(step), float(slope)


def test_a_cluster_trains_on_its_parameter_server_which_ends_with_it_and_evaluates(start, tmp_path):
    cluster = addresses(ps=1, chief=1, evaluator=1, worker=1)
    tasks = start(cluster, ['ps'], tmp_path, 200, 'none')
    tasks |= start(cluster, ['chief', 'evaluator'], tmp_path, 200, 'none')
    wait_until((tmp_path / 'checkpoint').exists)  # A worker that comes before the chief is ready tries again after 30 seconds.
    outputs = ended(tasks | start(cluster, ['worker'], tmp_path, 200, 'none'))
    learned = pytest.approx(2, abs=0.01)
    for index, name in enumerate([('chief', 0), ('worker', 0)]):
        ((seen,), _) = outputs[name]
        task = [*name, index == 0, 2 * index]  # The evaluator is between them.
        assert seen == {'task': task, 'counts': [2, 1], 'device': '/job:ps/task:0', 'slope': learned}
    step, slope = last_evaluation(outputs['evaluator', 0][1])
    assert step >= 200 and slope == learned


def test_the_server_of_a_task_takes_the_session_config(monkeypatch, tmp_path):
    monkeypatch.setenv('TF_CONFIG', tf_config(addresses(ps=1, chief=1), 'ps'))
    options = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=3, device_filters=['/job:ps'])
    config = tf.estimator.RunConfig(str(tmp_path), session_config=options)
    estimator = tf.estimator.Estimator(lambda features: None, config=config)
    server = training._TrainingExecutor(estimator, tf.estimator.TrainSpec(dict), None)._start_std_server(config)
    assert server.server_def.default_session_config == tf.compat.v1.ConfigProto(intra_op_parallelism_threads=3)


@pytest.mark.parametrize(
    ('task', 'cluster', 'options', 'warned'),
    [
        ('chief', {'chief': 1}, {}, 1),
        ('worker', {'chief': 1}, {}, 1),
        ('worker', {'chief': 1, 'ps': 1}, {}, 0),
        ('worker', {'chief': 1}, {'device_fn': lambda op: '/job:chief'}, 0),
        ('worker', {'master': 1}, {'train_distribute': tf.distribute.OneDeviceStrategy('/cpu:0')}, 0),
    ],
)
def test_tasks_that_train_without_a_parameter_server_are_warned(monkeypatch, tmp_path, caplog, task, cluster, options, warned):
    monkeypatch.setenv('TF_CONFIG', tf_config(addresses(worker=1, **cluster), task))
    config = tf.estimator.RunConfig(str(tmp_path), experimental_max_worker_delay_secs=0, **options)
    estimator = tf.estimator.Estimator(lambda features: None, config=config)
    monkeypatch.setattr(estimator, 'train', lambda **arguments: None)
    monkeypatch.setattr(training._TrainingExecutor, '_start_std_server', lambda self, config: None)
    specs = tf.estimator.TrainSpec(dict, 1), tf.estimator.EvalSpec(dict)
    getattr(training._TrainingExecutor(estimator, *specs), f'run_{task}')()
    text = 'TF_CONFIG has 2 tasks that train, but no parameter server'
    assert sum(text in message for message in caplog.messages) == warned


def test_workers_learn_from_the_examples_of_all_and_go_on_after_a_kill_and_the_evaluator_evaluates(start, tmp_path):
    cluster = addresses(worker=2, evaluator=1)  # The first worker is the chief.
    tasks = start({'worker': cluster['worker']}, ['worker'], tmp_path, 10**7, 'multi_worker', 'graph')
    wait_until(lambda: (tf.train.latest_checkpoint(tmp_path) or '-0')[-2:] != '-0')
    for task in tasks.values():
        kill(task)
    saved = tf.train.load_checkpoint(tf.train.latest_checkpoint(tmp_path))
    step = int(saved.get_tensor('global_step'))
    slope, momentum = (float(saved.get_tensor(name)) for name in ('slope', 'slope/Momentum'))
    assert step > 0 and slope == pytest.approx(descend(step, workers=2), rel=1e-5)

    outputs = ended(start(cluster, cluster, tmp_path, step + 4, 'multi_worker', *OPTIONS))
    expected = pytest.approx(descend(4, 2, slope, momentum), rel=1e-5)
    for index in range(2):
        ((seen,), _) = outputs['worker', index]
        task = ['worker', index, index == 0, 1 + index]  # The evaluator comes before them.
        assert seen == {'input': [index, 2], 'task': task, 'counts': [2, 0], 'slope': expected}
    assert last_evaluation(outputs['evaluator', 0][1]) == (step + 4, expected)


def test_train_and_evaluate_is_the_only_way_over_several_machines(monkeypatch, tmp_path):
    monkeypatch.setenv('TF_CONFIG', tf_config({'chief': ['a:1'], 'worker': ['b:1']}, 'chief'))
    config = tf.estimator.RunConfig(str(tmp_path), train_distribute=tf.distribute.OneDeviceStrategy('/cpu:0'))
    estimator = tf.estimator.Estimator(lambda features, labels, mode: None, config=config)
    with pytest.raises(ValueError, match='train_and_evaluate|STANDALONE_CLIENT'):
        estimator.train(lambda: None, steps=1)


def test_strategies_of_experimental_distribute_are_those_of_the_run_config():
    one, other = tf.distribute.OneDeviceStrategy('/cpu:0'), tf.distribute.OneDeviceStrategy('/cpu:0')
    config = tf.estimator.RunConfig(experimental_distribute=DistributeConfig(one, other))
    assert (config.train_distribute, config.eval_distribute) == (one, other)
