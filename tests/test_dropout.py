"""Dropout: its share, its scale, and what its draws depend on."""

import numpy as np
import tensorflow.compat.v1 as tf

from common.ops.dropout import dropout

ONES = np.ones([1000, 10], np.float32)


def draw(step=0, seed=1, name='layer', drop_rate=0.25, is_training=True):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(seed)
        with tf.name_scope(name):
            dropped = dropout(tf.constant(ONES), drop_rate, is_training)
        session.run(tf.assign(tf.train.get_or_create_global_step(), step))
        return session.run(dropped)


def test_a_share_is_dropped_and_the_rest_scaled_up():
    dropped = draw()
    assert set(np.unique(dropped)) == {0, np.float32(1 / 0.75)}
    assert abs((dropped == 0).mean() - 0.25) < 0.02
    assert abs(dropped.mean() - 1) < 0.03


def test_nothing_is_dropped_outside_training_or_at_rate_zero():
    np.testing.assert_array_equal(draw(is_training=False), ONES)
    np.testing.assert_array_equal(draw(drop_rate=0.0), ONES)


def test_a_restart_at_the_same_step_drops_the_same():
    np.testing.assert_array_equal(draw(step=7), draw(step=7))


def test_another_step_seed_or_layer_drops_others():
    first = draw()
    for other in (draw(step=1), draw(seed=2), draw(name='other')):
        assert abs((first == other).mean() - (0.75**2 + 0.25**2)) < 0.02  # As independent draws agree.


def test_the_gradient_passes_where_nothing_was_dropped(session):
    x = tf.constant(ONES)
    dropped = dropout(x, 0.5, is_training=True)
    gradient, = tf.gradients(dropped, x)
    session.run(tf.global_variables_initializer())
    values, gradients = session.run([dropped, gradient])
    np.testing.assert_array_equal(gradients, values)


def test_the_batch_may_be_unknown(session):
    x = tf.placeholder(tf.float32, [None, 10])
    dropped = dropout(x, 0.5, is_training=True)
    session.run(tf.global_variables_initializer())
    assert session.run(dropped, {x: ONES}).shape == (1000, 10)
