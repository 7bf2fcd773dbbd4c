"""Collective ops between the servers of several tasks, here in threads of one process."""

import concurrent.futures
import json
import signal
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster import collectives, synchronous, tf_config, watch
from estimator_trainer.common.cluster import task as cluster_task
from estimator_trainer.common.cluster.probe import ANSWERS, LOST, UNREACHABLE
from estimator_trainer.common.cluster.task import ConnectionLost
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.stop import StopInProgram
from tests import forked
from tests.cluster.tasks import addresses
from tests.shared import ROOT

COUNT = 3
EVEN, UNEVEN = (2, 2, 2), (3, 2, 2)  # Numbers of examples of the tasks.


def make_task(cluster, job, index, timeout=60.0):
    return synchronous.SynchronousTask(tf_config.ClusterConfig(cluster, job, index), timeout, None)


@pytest.fixture(scope='module')
def tasks():
    """A chief and two workers."""
    cluster = addresses(chief=1, worker=COUNT - 1)
    return [make_task(cluster, *trainer) for trainer in (('chief', 0), ('worker', 0), ('worker', 1))]


def together(tasks, function):
    """Calls a function of a task in a thread per task; returns the results."""
    with concurrent.futures.ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(function, tasks))


def evaluate(tasks, build, runs=1):
    """Returns the values of the tensors of `build(task)` for each task, over several runs."""

    def evaluate_one(task):
        with tf.Graph().as_default():
            tensors = build(task)
            with tf.Session(task.target, config=task.session_config) as session:
                session.run(tf.global_variables_initializer())
                return [session.run(tensors) for _ in range(runs)]

    return together(tasks, evaluate_one)


def test_the_values_of_all_examples_are_in_the_order_of_the_batch(tasks):
    def build(task):
        return task.whole(tf.range(7.0)[task.index :: COUNT], 7)

    assert [run.tolist() for (run,) in evaluate(tasks, build)] == [[*range(7)]] * COUNT


def test_losses_and_votes_are_averaged_where_a_program_accumulates_gradients_itself(tasks):
    def build(task):
        params = types.SimpleNamespace(batch_size=9, gradient_accumulation_steps=4)
        means = task.means(tf.constant(float(task.index)), params)
        assert not means([], tf.identity) and means.votes is not means.vote
        return [means.loss, means.votes]

    assert evaluate(tasks, build) == [[[1.0, 0.0]]] * COUNT


def test_dense_tensors_of_any_shape_and_dtype_are_averaged_over_the_examples(tasks):
    shapes = [('float32', []), ('float64', [2, 3]), ('float32', [4]), ('float32', [0, 2]), ('float64', [])]
    random = np.random.RandomState(0)
    values = [[random.normal(size=shape).astype(dtype) for dtype, shape in shapes] for _ in range(COUNT)]
    for chosen, sizes in (([0], EVEN), ([0, 1, 2, 3, 4], EVEN), ([0, 1, 2, 3, 4], UNEVEN)):  # Of one dtype, and of two.

        def build(task, chosen=chosen, sizes=sizes):
            mine = [tf.constant(values[task.index][i]) for i in chosen]
            return task.collectives.mean(mine, sum(sizes) / sizes[task.index])

        found = evaluate(tasks, build)
        for (means,) in found:
            for mean, first, i in zip(means, found[0][0], chosen, strict=True):
                assert (mean.dtype, list(mean.shape)) == shapes[i] and (mean == first).all()
                np.testing.assert_allclose(mean, np.average([value[i] for value in values], 0, sizes), rtol=1e-5)


@pytest.mark.parametrize('sizes', [EVEN, UNEVEN])
def test_sparse_tensors_with_different_numbers_of_rows_are_averaged_in_each_step(tasks, sizes):
    rows = [[[3, 1, 3], [], [0]], [[2], [2, 2, 2, 4], []], [[], [], []]]  # Per task, in each step.

    def build(task):
        step = tf.get_variable('step', initializer=-1)
        with tf.control_dependencies([tf.assign_add(step, 1)]):
            mine = tf.gather(tf.ragged.constant([each[task.index] for each in rows], tf.int64), step.read_value())
        values = tf.cast(mine[:, tf.newaxis], tf.float32) * [1.0, 10.0] + float(task.index)
        (mean,) = task.collectives.mean(
            [tf.IndexedSlices(values, mine, tf.constant([5, 2], tf.int64))], sum(sizes) / sizes[task.index]
        )
        return mean

    found = evaluate(tasks, build, runs=len(rows))
    for results in found:
        for given, mean in zip(rows, results, strict=True):
            expected, dense = np.zeros([5, 2]), np.zeros([5, 2])
            for task, mine in enumerate(given):
                for row in mine:
                    expected[row] += np.array([row + task, 10 * row + task]) * sizes[task] / sum(sizes)
            np.add.at(dense, mean.indices, mean.values)
            np.testing.assert_allclose(dense, expected, rtol=1e-6)
            assert set(mean.indices) == set(sum(given, []))  # A lazy optimizer would update additional rows.


def test_what_runs_in_each_step_or_before_each_checkpoint_starts_no_thread_for_a_timeout():
    found = collectives.Collectives(COUNT, 0, 60.0)
    with tf.Graph().as_default() as graph:
        slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0], tf.int64), tf.constant([5, 2], tf.int64))
        found.mean([tf.ones([2]), slices], COUNT)
        found.mean_if(tf.constant(True), [tf.get_variable('v', [2])], [tf.constant(0.0)], COUNT)
        found.gather(tf.ones([1]), is_watched=True)
        found.maximum(tf.ones([1]), is_watched=True)
        found.maximum(tf.ones([1]))
        timeouts = [op.get_attr('timeout_seconds') for op in graph.get_operations() if op.type.startswith('Collective')]
    assert timeouts == [0] * 7 + [60]


def test_variables_take_the_values_of_the_first_task_and_one_of_a_dtype_that_is_not_broadcast_is_named(tasks):
    def build(task):
        values = np.float32([[task.index, 1]]), np.int64(task.index + 7), tf.constant(task.index == 0)
        variables = [tf.get_variable(name, initializer=value) for name, value in zip('abc', values)]
        initial = [tf.identity(variable) for variable in variables]
        with tf.control_dependencies(initial), tf.control_dependencies([task.collectives.broadcast(variables)]):
            return initial, [variable.read_value() for variable in variables]

    for index, (((*_, is_first), (a, b, c)),) in enumerate(evaluate(tasks, build)):
        assert is_first == (index == 0)
        assert a.tolist() == [[0, 1]] and b == 7 and c
    with tf.Graph().as_default():
        words = tf.get_variable('words', initializer=tf.constant(['a']), trainable=False)
        with pytest.raises(UsageError, match='the variable words is of string, which the tasks of a cluster cannot exchange'):
            tasks[0].collectives.broadcast([words])


def meet(task, **facts):
    try:
        task.meet({'batch_size': '12', **facts})
    except (UsageError, RunError) as error:
        return str(error)
    finally:
        task.end_watch()


def test_tasks_exchange_texts_meet_if_they_were_started_alike_and_name_a_difference(tasks):
    texts = ['', 'ä' * 1000, '{"a": 1}']
    assert together(tasks, lambda task: task.exchange(texts[task.index])) == [texts] * COUNT
    assert together(tasks, meet) == [None] * COUNT
    found = together(tasks, lambda task: meet(task, **({'batch_size': '24'} if task.index == 2 else {})))
    for name, message in zip(['chief', 'worker 0'], found):
        assert message.startswith(f'worker 1 has batch_size=24, but {name} has batch_size=12: start all tasks with the same ')
    assert found[2].startswith('chief has batch_size=12, but worker 1 has batch_size=24: ')
    found = together(tasks, lambda task: meet(task, **({'more': '1'} if task.index == 1 else {})))
    assert all('more=1' in message and 'more=None' in message for message in found)
    found = together(tasks, lambda task: task.leave() if task.is_chief else task.start(lambda: {'data': '1'}))
    assert found == [None, False, False]  # The chief has nothing to train.


MEET = """
import json, os, sys
from tests.cluster import test_collectives

tasks = [test_collectives.make_task(*task) for task in json.loads(sys.argv[1])]
print(json.dumps(test_collectives.together(tasks[:int(sys.argv[2])], test_collectives.meet)), flush=True)
os._exit(0)
"""


def meet_in_vain(tasks, count):
    """Returns the first tasks' messages; in a separate process, which a collective op may crash at its timeout."""
    process = forked.run([sys.executable, '-c', MEET, json.dumps(tasks), str(count)], cwd=ROOT)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize('others', [(0, 1), (0, 2, 1)])
def test_another_cluster_of_one_task_is_an_error_of_all(others):
    """Covers missing tasks and another order."""
    cluster = addresses(worker=3)
    other = {'worker': [cluster['worker'][i] for i in others]}
    found = meet_in_vain([(cluster if i else other, 'worker', i, 10.0) for i in range(3)], 3)
    start, cause = 'TF_CONFIG: worker', 'another task has another one: give all the same'
    assert all(found) and any(message.startswith(start) and cause in message for message in found)


def test_tasks_that_are_not_there_or_do_not_answer_are_named_after_the_timeout():
    cluster = addresses(chief=1, worker=2)
    first, second = cluster['worker']
    task = make_task(cluster, 'chief', 0, 1.0)
    missing, cure = f'worker 0 ({first}), worker 1 ({second})', 'check that it runs and that its address is right'
    reached = f'cannot be reached from chief ({cluster["chief"][0]}) for 1 seconds (--cluster_timeout)'
    assert meet(task) == f'TF_CONFIG: {missing} {reached}: {cure}'
    assert str(task.loss()).startswith(f'{missing} are lost; their own logs may say why: restart all tasks')
    port = cluster['chief'][0].rpartition(':')[2]
    with pytest.raises(RunError, match=f'TF_CONFIG: chief cannot listen on port {port}: end the process that uses it'):
        make_task(cluster, 'chief', 0)
    cluster = addresses(worker=2)
    (message,) = meet_in_vain([(cluster, 'worker', i, 2.0) for i in range(2)], 1)
    assert 'another task has not answered for 2 seconds: restart all tasks' in message


@pytest.mark.parametrize(
    'states, text',
    [
        ([UNREACHABLE, UNREACHABLE, ANSWERS], 'the connection to {} was lost for 40 s: all tasks restart from the latest ch'),
        ([UNREACHABLE, LOST], 'the connection to {} was lost for 20 s: all tasks restart from the latest ch'),  # It restarts.
        ([UNREACHABLE] * 10, '{} cannot be reached from chief ({own}); its own log may say why: restart all tasks to resume'),
        ([LOST], '{} is lost; its own log may say why: restart all tasks to resume'),
    ],
)
def test_tasks_restart_by_themselves_if_a_host_returns_within_the_timeout(monkeypatch, states, text):
    cluster = addresses(chief=1, worker=1)
    (address,), (own,), left = cluster['worker'], cluster['chief'], iter(states)
    task = make_task(cluster, 'chief', 0)
    now = [1000.0]  # Each look takes 20 seconds.

    def ask(unused_addresses):
        now[0] += 20
        return {address: next(left)}

    monkeypatch.setattr(watch, 'probe_all', ask)
    clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: None)
    monkeypatch.setattr(watch, 'time', clock)
    monkeypatch.setattr(cluster_task, 'time', clock)
    task.set_deadline(1)
    task.complete_step()
    assert str(task.loss()).startswith(text.format(f'worker 0 ({address})', own=own))


def test_an_error_after_the_reset_of_a_session_is_a_loss(monkeypatch):
    task = make_task(addresses(chief=1, worker=1), 'chief', 0)
    monkeypatch.setattr(task, 'loss', lambda error: RunError('it is lost'))
    error = tf.errors.InternalError(None, None, 'Invalid variable reference.')
    with pytest.raises(tf.errors.InternalError), task.naming_lost_tasks():
        raise error
    monkeypatch.setattr(tf.Session, 'reset', lambda *unused: None)
    task._on_loss()
    with pytest.raises(RunError, match='it is lost'), task.naming_lost_tasks():
        raise error


def test_a_task_that_has_received_a_signal_ends_rather_than_restarts(monkeypatch):
    task = make_task(addresses(chief=1, worker=1), 'chief', 0)
    monkeypatch.setattr(task, 'loss', lambda error: ConnectionLost('for 25 s'))
    seen = []
    monkeypatch.setattr(cluster_task, 'restart_process', lambda error, environ: seen.append(str(error)))
    monkeypatch.setattr(cluster_task, 'exit_process', lambda code: seen.append(code))
    task._end_process()
    with StopInProgram() as stop:
        stop.hear(signal.SIGTERM)
        task._end_process()
    assert seen[0] == 'for 25 s' and seen[2] == 128 + signal.SIGTERM
