"""Tensors of an input_fn in a synchronous cluster, in a bare graph."""

from tf_estimator.exact import keys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.training import exact_program, skipped_input
from tests.shared import refused

NUMBERS = np.arange(12)


def batches():
    return tf.data.Dataset.from_tensor_slices(NUMBERS).shuffle(12).repeat().batch(4)


def one_shot(params):
    """Adds random numbers, and the values of another iterator."""
    first, second = (tf.data.make_one_shot_iterator(batches()).get_next() for _ in range(2))
    return {'x': first + second, 'noise': tf.random.normal([4])}, first


def with_initializer(params):
    iterator = tf.data.make_initializable_iterator(batches())
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator.get_next()


def dataset(params):
    return batches()


def constant(params):
    return tf.constant(NUMBERS)


def looked_up(params):
    known = tf.lookup.KeyValueTensorInitializer(NUMBERS[:6], NUMBERS[6:])
    return tf.lookup.StaticVocabularyTable(known, num_oov_buckets=2).lookup(one_shot(params)[1])


def made(input_fn, task, start, steps=2):
    """Returns the batches of a task of some steps."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.set_random_seed(task)
        tensors = exact_program.resumed(input_fn, seed=1)()
        if isinstance(tensors, tf.data.Dataset):
            iterator = tf.data.make_initializable_iterator(tensors)
            tf.add_to_collection(skipped_input.STARTS, iterator.initializer)
            tensors = iterator.get_next()
        step, state = tf.train.get_global_step(), exact_program.ProgramState('', None)
        state.begin()
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        session.run(step.assign(start))
        state.after_create_session(session, None)
        state.restore(session)
        graph.finalize()
        key, found = keys.fed_key(graph), []
        for number in range(start, start + steps):
            found.append(session.run({'caller': tensors}, {} if key is None else {key: number})['caller'])
        return found


@pytest.mark.parametrize('input_fn', [one_shot, with_initializer, dataset, constant, looked_up])
def test_each_task_makes_the_batches_of_a_step_whenever_it_begins(input_fn):
    expected = tf.nest.flatten(made(input_fn, 0, 0, 4)[2:])
    found = tf.nest.flatten(made(input_fn, 1, 2))
    assert len(found) == len(expected) and all(np.array_equal(*pair) for pair in zip(found, expected))


def queue(params):
    return tf.train.batch([tf.train.string_input_producer(['a']).dequeue()], 4)


def function(params):
    return tf.numpy_function(lambda: np.float32(1), [], tf.float32)


def twice(params):
    iterator = tf.data.make_one_shot_iterator(batches())
    return iterator.get_next(), iterator.get_next()


def structure(params):
    iterator = tf.data.Iterator.from_structure(tf.int64, [None])
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.make_initializer(batches()))
    return iterator.get_next()


def fed(params):
    dataset = tf.data.Dataset.from_tensor_slices(tf.placeholder(tf.int64, [None]))
    return tf.data.make_initializable_iterator(dataset).get_next()


@pytest.mark.parametrize(
    'input_fn, name',
    [
        (queue, 'FIFOQueueV2, QueueDequeueManyV2'),
        (function, 'PyFunc'),
        (twice, 'several get_next()'),
        (structure, 'Iterator'),
        (fed, 'tf.placeholder'),
    ],
)
def test_tensors_that_may_depend_on_something_else_than_the_step_are_refused(input_fn, name):
    with tf.Graph().as_default():
        message = refused(exact_program.resumed(input_fn, seed=1))
    assert name in message and message.endswith('a synchronous cluster needs a tf.data.Dataset')


def test_values_that_are_no_tensors_are_constants():
    batch = {'array': NUMBERS, 'number': 3, 'none': None}
    with tf.Graph().as_default() as graph:
        assert exact_program.resumed(lambda params: batch, seed=1)() is batch
        assert not graph.get_collection(skipped_input.STARTS)


def test_other_iterators_are_as_ever():
    with tf.Graph().as_default(), tf.Session() as session, skipped_input.skipping(tf.constant(2, tf.int64)) as found:
        pass
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()) == 0 and not found
