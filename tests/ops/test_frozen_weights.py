"""The weights of a checkpoint in another graph: its averages, without training or saving, and mistakes."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.frozen_weights import frozen_weights
from tests.shared import refused


@pytest.fixture
def checkpoint(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        kernel = tf.get_variable('dense/kernel', initializer=[[1.0], [2.0]])
        tf.get_variable('dense/bias', initializer=[3.0])
        average = tf.train.ExponentialMovingAverage(0.5).apply([kernel])
        session.run(tf.global_variables_initializer())
        session.run(average)
        kernel.load([[5.0], [8.0]], session)
        return tf.train.Saver().save(session, str(tmp_path / 'model.ckpt'))


def layer(checkpoint, depth=2, name='dense'):
    with frozen_weights('other', checkpoint):
        return tf.layers.dense(tf.ones([1, depth]), 1, name=name)


def test_a_layer_has_the_averages_of_the_checkpoint_and_is_neither_trained_nor_saved(session, checkpoint):
    own = tf.get_variable('own', [])
    outputs = [layer(checkpoint), layer(checkpoint)]  # They share the weights.
    assert tf.global_variables() == tf.trainable_variables() == [own]
    assert sorted(variable.op.name for variable in tf.local_variables()) == ['other/dense/bias', 'other/dense/kernel']
    session.run(tf.local_variables_initializer())
    np.testing.assert_array_equal(session.run(outputs), [[[1 + 2 + 3]]] * 2)


def test_a_layer_has_stochastic_averages(session, tmp_path):
    with tf.Graph().as_default(), tf.Session() as other:
        for name, value in (('dense/kernel', 1.0), ('dense/kernel/StochasticWeightAverage', 3.0), ('dense/bias', 5.0)):
            tf.get_variable(name, initializer=[[value]] if 'kernel' in name else [value])
        other.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(other, str(tmp_path / 'model.ckpt'))
    output = layer(path, depth=1)
    session.run(tf.local_variables_initializer())
    np.testing.assert_array_equal(session.run(output), [[3 + 5]])


def test_a_checkpoint_that_does_not_fit_is_one_line(checkpoint, tmp_path):
    assert refused(layer, checkpoint, 3) == f'{checkpoint}: dense/kernel has the shape [2, 1], not [3, 1]'
    assert refused(layer, checkpoint, name='last') == f'{checkpoint}: has no variable last/kernel'
    assert refused(layer, f'{tmp_path}/gone').startswith(f'{tmp_path}/gone: cannot be read: ')
