"""The order of a training step's reads and changes of variables."""

import time

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.training import exact_program


def test_changes_of_variables_wait_for_reads_that_do_not_need_them():
    def wait():
        time.sleep(0.1)
        return np.float32(0)

    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()
        weight = tf.get_variable('weight', [], initializer=tf.zeros_initializer())
        seen = tf.get_variable('seen', [4], initializer=tf.zeros_initializer())
        with tf.control_dependencies([tf.numpy_function(wait, [], tf.float32)]):
            early = [tf.cast(step.read_value(), tf.float32), weight.read_value()]
        changes = tf.group(step.assign_add(1), weight.assign_add(2.0))
        with tf.control_dependencies([changes]):
            late = [tf.cast(step.read_value(), tf.float32), weight.read_value()]
        train_op = seen.assign(tf.stack(early + late)).op
        exact_program.read_before_changes(train_op)
        session.run(tf.global_variables_initializer())
        session.run(train_op)
        np.testing.assert_array_equal(session.run(seen), [0, 0, 1, 2])
