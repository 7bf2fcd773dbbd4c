"""The weights of all tasks are the same at each checkpoint, or all end with a line that names who differs."""

import re
import signal
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster import agreement
from estimator_trainer.common.cluster.agreement import CompareWeights, describe_difference
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.stop import StopInProgram
from estimator_trainer.common.training.minimize import Objective, minimize
from estimator_trainer.common.training.stochastic_average import with_averages
from estimator_trainer.hparams.defaults import DEFAULTS
from tests.cluster.conftest import HPARAMS, STEPS
from tests.cluster.tasks import RESTART, addresses
from tests.cluster.test_collectives import make_task, together
from tests.shared import assert_equal

RATE = 0.5


@pytest.mark.parametrize(
    'sums, text',
    [
        ([[1, 2], [1, 2], [1, 2]], ''),
        ([[1, 2], [1, 3], [1, 2]], 'b differs from the other tasks in y AFTER'),
        ([[1, 2], [1, 2], [4, 3], [0, 2], [1, 2]], 'c, d differ from the other tasks in x, y AFTER'),
        ([[1, 2], [1, 3]], 'a, b differ in y AFTER, and which of them is right cannot be known'),
        ([[1, 2], [1, 3], [1, 2], [1, 3]], 'a, b, c, d differ in y AFTER, and which of them is right cannot be known'),
    ],
)
def test_the_tasks_outside_of_the_majority_are_named_or_all_if_there_is_none(sums, text):
    found = describe_difference(np.array(sums), 'abcde'[: len(sums)], 'xy', 7)
    assert found == text.replace('AFTER', 'after step 7, which is not saved')


@pytest.mark.parametrize('dtype', ['bool', 'float16', 'float32', 'float64', 'int32', 'int64'])
def test_a_checksum_is_the_sum_of_the_bits_and_changes_with_any_of_them(session, dtype):
    values = np.random.RandomState(0).uniform(-9, 9, [7, 5]).astype(dtype)
    variable = tf.get_variable('v', initializer=tf.constant(values), trainable=False, use_resource=True)
    sums = agreement.checksums([variable, variable])[0]
    session.run(variable.initializer)
    words = {1: np.uint8, 2: np.uint16}.get(values.itemsize, np.uint32)
    assert session.run(sums).tolist() == [int(values.view(words).sum(dtype=words))] * 2
    changed = values.copy()
    changed.view(np.uint8)[3, 1] ^= 1
    variable.load(changed, session)
    assert session.run(sums)[0] != values.view(words).sum(dtype=words)


def test_weights_and_slots_are_compared_but_not_what_a_model_changes_by_its_own_examples(session):
    x = tf.placeholder(tf.float32, [4, 2])
    w = tf.get_variable('w', initializer=[[1.0], [2.0]])
    center = tf.get_variable('center', initializer=[0.0, 0.0])  # Trainable by mistake: no gradient, but an update.
    tf.layers.batch_normalization(x, training=True)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(center, x[0]))
    loss = tf.reduce_sum(tf.matmul(x - tf.stop_gradient(center), w))
    step = tf.train.get_or_create_global_step()
    own = agreement.own_variables(loss)
    tf.train.AdamOptimizer().minimize(loss, step, [w])
    names = [variable.op.name for variable in agreement.common_variables(own)]
    assert names == ['w', 'batch_normalization/gamma', 'batch_normalization/beta', 'w/Adam', 'w/Adam_1', 'global_step']


def test_averages_of_weights_are_compared_but_not_those_of_statistics_even_in_a_scope_of_a_weights_name(session):
    w = tf.get_variable('net', [4, 2])
    with tf.variable_scope('net'):
        net = tf.layers.batch_normalization(tf.matmul(tf.ones([3, 4]), w), center=False, scale=False, training=True)
    loss = tf.reduce_sum(net)
    own = agreement.own_variables(loss)
    step, params = tf.train.get_or_create_global_step(), types.SimpleNamespace(swa_start=2)
    with_averages(tf.train.GradientDescentOptimizer(RATE).minimize(loss, step), step, 1, params)
    assert 'net/batch_normalization/moving_mean/StochasticWeightAverage' in [v.op.name for v in tf.global_variables()]
    names = [variable.op.name for variable in agreement.common_variables(own)]
    assert names == ['net', 'net/StochasticWeightAverage', 'global_step']


def train_w(task, slopes, bad_step=None, cycle=1, period=4, batches=None):
    """Trains w, from 0, with the loss w * slope of the step; returns w and its accumulated gradients, or the error.

    After bad_step, changes a weight of the last task by its least bit. `batches` are those of the tasks, by their own input_fn.
    """
    with tf.Graph().as_default():
        step, count = tf.train.get_or_create_global_step(), tf.placeholder(tf.float32, [])
        w = tf.get_variable('w', initializer=[0.0, 1.0])
        loss = tf.reduce_sum(w) * count
        params = types.SimpleNamespace(
            **{**DEFAULTS, 'model': 'm', 'optimizer': 'sgd', 'batch_size': 9, 'gradient_accumulation_steps': cycle}
        )
        means = task.means(loss, params)
        train_op = minimize([Objective(loss, [w])], tf.constant(RATE), step, params, means=means)
        if batches:
            train_op = tf.group(train_op, agreement.count_batch(({'x': tf.constant(batches[task.index])}, None)))
        seen = []
        change = tf.assign(w, w * [1 + 2e-7, 1])
        ahead = types.SimpleNamespace(next_visible_step=lambda: len(seen) + 1)
        compare = CompareWeights(task, means, StopInProgram(), [period], ahead)
        watched = [variable[0] for variable in tf.global_variables() if variable.op.name.startswith('w')]
        hooks = [compare, Log(watched, seen, change if task.index == 2 else None, bad_step)]
        common = task.collectives.broadcast(tf.global_variables())
        start = tf.train.Scaffold(local_init_op=tf.group(tf.local_variables_initializer(), common))
        try:
            with tf.train.SingularMonitoredSession(hooks, start, task.target, task.session_config) as session:
                for slope in slopes[task.index]:
                    session.run(train_op, {count: slope})
        except RunError as error:
            return str(error)
        return np.array(seen)


class Log(tf.train.SessionRunHook):
    def __init__(self, watched, seen, change, bad_step):
        self._watched, self._seen, self._change, self._bad_step = watched, seen, change, bad_step

    def after_run(self, context, values):
        self._seen.append(context.session.run(self._watched))
        if self._change is not None and len(self._seen) == self._bad_step:
            context.session.run(self._change)


@pytest.fixture(scope='module')
def cluster():
    return addresses(chief=1, worker=2)


@pytest.fixture(scope='module')
def tasks(cluster):
    return [make_task(cluster, *trainer) for trainer in (('chief', 0), ('worker', 0), ('worker', 1))]


@pytest.mark.parametrize('bad_step, found_at', [(2, 4), (4, 6), (6, 6)])
def test_a_task_with_another_least_bit_is_named_by_all_before_the_next_checkpoint(tasks, cluster, bad_step, found_at):
    """Also one before the last checkpoint, at the end; what changes after a comparison is found by the next."""
    found = together(tasks, lambda task: train_w(task, np.ones([3, 6]), bad_step))
    start = f'worker 1 ({cluster["worker"][1]}) differs from the other tasks in w after step {found_at}, which is not saved: '
    assert all(text.startswith(start) and text.endswith(RESTART) for text in found)


@pytest.mark.parametrize('bad', [[[3, 4], [1, 2]], [['1', '2'], ['3', '5']]])
def test_a_task_with_other_batches_is_named_after_the_first_step(tasks, cluster, bad):
    good = np.array([[1, 2], [3, 4]]).astype(np.array(bad).dtype).tolist()
    assert not isinstance(together(tasks, lambda task: train_w(task, np.ones([3, 2]), batches=[good] * 3))[0], str)
    found = together(tasks, lambda task: train_w(task, np.ones([3, 6]), batches=[good, good, bad]))
    start = f'worker 1 ({cluster["worker"][1]}) differs from the other tasks in the batches after step 1, which is not saved: '
    assert all(text.startswith(f'{start}input_fn() must make the same batches in each task') for text in found)


def test_accumulated_gradients_are_sent_once_for_an_update_and_shared_before_a_checkpoint_between(tasks):
    """Three tasks have 3 of 9 examples each; of cycles of three steps, checkpoints come after steps 4 and 8."""
    slopes = np.random.RandomState(0).normal(size=[3, 8]).astype(np.float32)
    found = together(tasks, lambda task: train_w(task, slopes, cycle=3))
    mean = slopes.mean(0)
    updates = -RATE * mean[:6].reshape(2, 3).mean(1)
    expected = [0, 0, updates[0], updates[0], updates[0], *[updates.sum()] * 3]
    for (weights, sums), own in zip((values.T for values in found), slopes):
        assert (weights == found[0][:, 0]).all()
        np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-7)
        expected_sums = [own[0], own[:2].sum(), 0, mean[3], mean[3] + own[4], 0, own[6], mean[6:].sum()]
        np.testing.assert_allclose(sums, expected_sums, rtol=1e-5, atol=1e-6)


def test_a_bias_that_changes_in_one_task_ends_all_and_the_checkpoint_is_not_saved(train):
    run = train(3, '--schedule=train', environs={'worker0': {'TINY_BAD_STEP': '25'}})
    assert run.wait() == [1, 1, 1]
    text = r'trainer.py: worker 0 \(\S+\) differs from the other tasks in bias(, \S+)* after step 40, which is not saved: '
    assert all(re.match(text, run.error(task)) and 'Traceback' not in run.log(task) for task in run.processes)
    assert int(run.weights()['global_step']) == 20


def test_a_cluster_that_accumulates_gradients_resumes_to_the_same_bits(train, tmp_path):
    """Of cycles of three steps, with a checkpoint every five; 13 examples are 7 and 6, and each task has two towers.

    From step 4 on, the weights are averaged, and the chief recomputes the statistics of batch norm.
    """
    hparams = f'{HPARAMS.replace("12", "13")},gradient_accumulation_steps=3,normalizes=true,swa_start=4,swa_every=3'
    flags = (f'--hparams={hparams}', '--num_towers=2')
    flags += ('--schedule=train', '--save_checkpoints_steps=5')
    expected = train(2, *flags)
    slow = {'directory': tmp_path, 'environ': {'TINY_SECONDS': '1'}}
    stopped = train(2, *flags, **slow)
    stopped.wait_for('chief0', 'step = 6')
    stopped.send('worker0', signal.SIGTERM)
    assert (expected.wait(), stopped.wait()) == ([0, 0], [143, 143])
    step = int(stopped.weights()['global_step'])
    assert 6 < step < STEPS and (step % 3 == 0 or step % 5 == 0)
    killed = train(2, *flags, **slow)
    killed.wait_for_step('chief0', 26)
    killed.send('worker0', signal.SIGKILL)
    assert killed.wait() == [1, -signal.SIGKILL]
    last = train(2, *flags, directory=tmp_path)
    assert last.wait() == [0, 0]
    assert_equal(last.weights(), expected.weights())
    assert 'are means over 8 batches of training data' in last.log('chief0')
    assert 'batches of training data' not in last.log('worker0')
    assert last.weights()['hidden/StochasticWeightAverage'].dtype == np.float64
