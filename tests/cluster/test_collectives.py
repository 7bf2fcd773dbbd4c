"""Collective ops between the servers of several tasks, here in threads of one process."""

import concurrent.futures

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.cluster.synchronous import SynchronousTask
from common.cluster.tf_config import ClusterConfig
from common.errors import RunError, UsageError
from tests.cluster.tasks import addresses

COUNT = 3
TIMEOUT = 60.0
ABORTED = "Graph execution error:\n\nDetected at node 'CollectiveReduce'\nCollective ops is aborted by: "


@pytest.fixture(scope='module')
def tasks():
    """A chief and two workers."""
    cluster = addresses(chief=1, worker=COUNT - 1)
    return [
        SynchronousTask(ClusterConfig(cluster, *trainer), TIMEOUT, None) for trainer in ClusterConfig(cluster, '', 0).trainers
    ]


def together(tasks, function):
    """Returns what a function of a task returns for each, called in a thread for each."""
    with concurrent.futures.ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(function, tasks))


def evaluate(tasks, build, runs=1):
    """Returns for each task what the tensors are that `build(task)` makes, in each of some runs."""

    def evaluate_one(task):
        with tf.Graph().as_default():
            tensors = build(task)
            with tf.Session(task.target, config=task.session_config) as session:
                session.run(tf.global_variables_initializer())
                return [session.run(tensors) for _ in range(runs)]

    return together(tasks, evaluate_one)


def test_dense_tensors_of_any_shape_and_dtype_are_averaged(tasks):
    shapes = [('float32', []), ('float64', [2, 3]), ('float32', [4]), ('float32', [0, 2]), ('float64', [])]
    values = [
        [np.random.RandomState([task, i]).normal(size=shape).astype(dtype) for i, (dtype, shape) in enumerate(shapes)]
        for task in range(COUNT)
    ]
    found = evaluate(tasks, lambda task: task.collectives.mean([tf.constant(value) for value in values[task.index]]))
    for ((means),) in found:
        for i, (mean, (dtype, shape)) in enumerate(zip(means, shapes, strict=True)):
            assert (mean.dtype, list(mean.shape)) == (dtype, shape)
            np.testing.assert_allclose(mean, np.mean([value[i] for value in values], 0), rtol=1e-5)
            assert (mean == found[0][0][i]).all()


def test_sparse_tensors_with_different_numbers_of_rows_are_averaged_in_each_step(tasks):
    rows = [
        [[3, 1, 3], [], [0]],  # Of the tasks, in each step.
        [[2], [2, 2, 2, 4], []],
        [[], [], []],
    ]

    def build(task):
        step = tf.get_variable('step', initializer=-1)
        with tf.control_dependencies([tf.assign_add(step, 1)]):
            mine = tf.gather(tf.ragged.constant([each[task.index] for each in rows], tf.int64), step.read_value())
        values = tf.cast(mine[:, tf.newaxis], tf.float32) * [1.0, 10.0] + float(task.index)
        (mean,) = task.collectives.mean([tf.IndexedSlices(values, mine, tf.constant([5, 2], tf.int64))])
        return mean

    found = evaluate(tasks, build, runs=len(rows))
    for results in found:
        for given, mean in zip(rows, results, strict=True):
            expected, dense = np.zeros([5, 2]), np.zeros([5, 2])
            for task, mine in enumerate(given):
                for row in mine:
                    expected[row] += np.array([row + task, 10 * row + task]) / COUNT
            np.add.at(dense, mean.indices, mean.values)
            np.testing.assert_allclose(dense, expected, rtol=1e-6)
            assert set(mean.indices) == set(sum(given, []))  # Rows of no one would count for a lazy optimizer.


def test_variables_of_any_dtype_take_the_values_of_the_first_task(tasks):
    def build(task):
        variables = [
            tf.get_variable('a', initializer=np.float32([[task.index, 1]])),
            tf.get_variable('b', initializer=np.int64(task.index + 7)),
            tf.get_variable('c', initializer=tf.constant(task.index == 0)),
        ]
        initial = [tf.identity(variable) for variable in variables]
        with tf.control_dependencies(initial), tf.control_dependencies([task.collectives.broadcast(variables)]):
            return initial, [variable.read_value() for variable in variables]

    for index, (((*_, is_first), (a, b, c)),) in enumerate(evaluate(tasks, build)):
        assert is_first == (index == 0)
        assert a.tolist() == [[0, 1]] and b == 7 and c


def test_a_variable_of_a_dtype_that_is_not_broadcast_is_named(tasks):
    with tf.Graph().as_default():
        words = tf.get_variable('words', initializer=tf.constant(['a']), trainable=False)
        with pytest.raises(UsageError, match='the variable words is of string, which the tasks of a cluster cannot exchange'):
            tasks[0].collectives.broadcast([words])


def test_texts_of_different_lengths_are_exchanged(tasks):
    texts = ['', 'ä' * 1000, '{"a": 1}']
    assert together(tasks, lambda task: task.exchange(texts[task.index])) == [texts] * COUNT


def meet(task, **facts):
    try:
        task.meet({'batch_size': '12', **facts})
    except (UsageError, RunError) as error:
        return str(error)
    finally:
        task.end_watch()


def test_tasks_that_were_started_alike_meet_and_each_names_a_difference(tasks):
    assert together(tasks, meet) == [None] * COUNT
    found = together(tasks, lambda task: meet(task, **({'batch_size': '24'} if task.index == 2 else {})))
    for name, message in zip(['chief', 'worker 0'], found):
        assert message.startswith(f'worker 1 has batch_size=24, but {name} has batch_size=12: start all tasks with the same ')
    assert found[2].startswith('chief has batch_size=12, but worker 1 has batch_size=24: ')
    found = together(tasks, lambda task: meet(task, **({'more': '1'} if task.index == 1 else {})))
    assert all('more=1' in message and 'more=None' in message for message in found)


@pytest.mark.parametrize('change', ['fewer tasks', 'another order'])
def test_another_cluster_of_one_task_is_an_error_of_all(change):
    cluster = addresses(worker=3)
    others = {'worker': cluster['worker'][:2] if change == 'fewer tasks' else [cluster['worker'][i] for i in (0, 2, 1)]}
    configs = [ClusterConfig(others if i == 0 else cluster, 'worker', i) for i in range(3)]
    found = together([SynchronousTask(config, 3.0, None) for config in configs], meet)
    assert all(found) and any(
        message.startswith('TF_CONFIG: worker') and 'another task has another one: give all the same' in message
        for message in found
    )


def test_tasks_that_are_not_there_are_named_after_the_timeout():
    cluster = addresses(chief=1, worker=2)
    first, second = cluster['worker']
    task = SynchronousTask(ClusterConfig(cluster, 'chief', 0), 1.0, None)
    missing = f'worker 0 ({first}), worker 1 ({second})'
    assert meet(task) == (
        f'TF_CONFIG: {missing} cannot be reached for 1 seconds (--cluster_timeout): check that it runs and that its address is '
        'right'
    )
    assert str(task.loss()).startswith(f'{missing} are lost; their own logs may say why: start all tasks again')
    port = cluster['chief'][0].rpartition(':')[2]
    with pytest.raises(RunError, match=f'TF_CONFIG: chief cannot listen on port {port}: end the process that uses it'):
        SynchronousTask(ClusterConfig(cluster, 'chief', 0), 1.0, None)


def test_a_task_that_does_not_answer_is_an_error_after_the_timeout():
    cluster = addresses(worker=2)
    first, _ = (SynchronousTask(ClusterConfig(cluster, 'worker', i), 2.0, None) for i in range(2))
    assert 'another task has not answered for 2 seconds: start all tasks again' in meet(first)


@pytest.mark.parametrize(
    'text, cause',
    [
        (ABORTED + "Graph execution error:\n\nDetected at node 'w'\nNan in: w\n\t [[{{node w}}]]", 'Nan in: w'),
        (ABORTED + 'Socket closed Additional GRPC error information', 'Socket closed'),
        (ABORTED + 'It is late\nThe error could be from a previous operation.\n\t [[{{node CollectiveReduce}}]]', 'It is late'),
    ],
)
def test_the_error_of_another_task_is_quoted_without_its_place(tasks, monkeypatch, text, cause):
    monkeypatch.setattr('time.sleep', lambda seconds: None)  # In which others see who is lost.
    error = str(tasks[0].loss(tf.errors.InternalError(None, None, text)))
    assert error.startswith(f'another task has failed ({cause}); its own log may say why: ')


def test_a_chief_that_leaves_tells_the_others(tasks):
    def start_or_leave(task):
        return task.leave() if task.is_chief else task.start({'data': '1'})

    assert together(tasks, start_or_leave) == [None, False, False]
