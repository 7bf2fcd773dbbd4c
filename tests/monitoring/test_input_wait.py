"""The time that a training waits for its input."""

import time

import numpy as np
import tensorflow.compat.v1 as tf

from common.monitoring.summaries import measure_wait


def test_the_input_wait_is_the_time_from_the_beginning_of_a_step_to_its_batch(session):
    def wait(number):
        time.sleep(0.05)
        return number

    numbers = tf.data.Dataset.range(9).map(lambda number: tf.numpy_function(wait, [number], tf.int64))
    batches = tf.data.make_initializable_iterator(numbers)
    waited, count_wait = measure_wait({'x': batches.get_next()})
    session.run([tf.local_variables_initializer(), batches.initializer])
    begun = time.perf_counter()
    for _ in range(3):
        session.run(count_wait)
    assert 0.1 < session.run(waited) <= time.perf_counter() - begun
    time.sleep(0.1)  # Between steps there is no waiting, and the next batch is made ready.
    before = session.run(waited)
    session.run(count_wait)
    assert session.run(waited) < before + 0.04
    session.run(tf.variables_initializer(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)))
    assert session.run(waited) == 0


def test_the_input_wait_of_a_batch_with_sparse_parts_is_measured(session):
    waited, count_wait = measure_wait({'x': tf.sparse.from_dense(np.eye(2))})
    session.run(tf.local_variables_initializer())
    session.run(count_wait)
    assert session.run(waited) >= 0
