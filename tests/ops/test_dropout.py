"""Dropout: its share, its scale, and what its draws depend on."""

import numpy as np
import tensorflow.compat.v1 as tf

from common.ops.dropout import dropout
from common.training.parallel import make_parallel
from tests.evaluated import CPUS

ONES = np.ones([1000, 10], np.float32)


def draw(step=0, seed=1, name='layer', drop_rate=0.25, is_training=True):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(seed)
        with tf.name_scope(name):
            dropped = dropout(tf.constant(ONES), drop_rate, is_training)
        session.run(tf.assign(tf.train.get_or_create_global_step(), step))
        return session.run(dropped)


def test_dropout_drops_a_share_and_scales_the_rest_up():
    dropped = draw()
    assert set(np.unique(dropped)) == {0, np.float32(1 / 0.75)}
    assert abs((dropped == 0).mean() - 0.25) < 0.02
    assert abs(dropped.mean() - 1) < 0.03


def test_dropout_drops_nothing_outside_training_or_at_rate_zero():
    np.testing.assert_array_equal(draw(is_training=False), ONES)
    np.testing.assert_array_equal(draw(drop_rate=0.0), ONES)


def test_dropout_repeats_itself_after_a_restart_at_a_step():
    np.testing.assert_array_equal(draw(step=7), draw(step=7))


def test_dropout_drops_other_elements_at_another_step_seed_or_layer():
    first = draw()
    for other in (draw(step=1), draw(seed=2), draw(name='other')):
        assert abs((first == other).mean() - (0.75**2 + 0.25**2)) < 0.02  # As independent draws agree.


def test_the_gradient_passes_where_dropout_drops_nothing(session):
    x = tf.constant(ONES)
    dropped = dropout(x, 0.5, is_training=True)
    (gradient,) = tf.gradients(dropped, x)
    session.run(tf.global_variables_initializer())
    values, gradients = session.run([dropped, gradient])
    np.testing.assert_array_equal(gradients, values)


def test_dropout_drops_other_elements_in_each_tower_and_loop(session):
    def tower(x):
        repeated = [tf.while_loop(lambda i, y: i < 1, lambda i, y: (i + 1, dropout(x, 0.5, True)), [0, x])[1] for _ in range(2)]
        return {'loops': repeated, 'plain': [dropout(x, 0.5, True), dropout(x, 0.5, True)]}

    dropped = make_parallel(tower, CPUS, x=tf.constant(ONES[:900]))
    session.run(tf.global_variables_initializer())
    masks = [part for mask in tf.nest.flatten(session.run(dropped)) for part in np.split(mask, 3)]
    assert len(masks) == 12
    for i, mask in enumerate(masks):
        for other in masks[:i]:
            assert abs((mask == other).mean() - 0.5) < 0.05  # As independent draws agree.


def test_dropout_repeats_itself_in_every_iteration_of_a_loop_and_after_a_restart():
    def draw_in_loop():
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(1)
            drops = tf.map_fn(lambda x: dropout(x, 0.5, True), tf.constant(ONES[:4]))
            session.run(tf.global_variables_initializer())
            return session.run(drops)

    first = draw_in_loop()
    assert (first == first[:1]).all() and 0 < first.mean() < 2
    np.testing.assert_array_equal(first, draw_in_loop())


def test_dropout_takes_a_batch_of_unknown_size(session):
    x = tf.placeholder(tf.float32, [None, 10])
    dropped = dropout(x, 0.5, is_training=True)
    session.run(tf.global_variables_initializer())
    assert session.run(dropped, {x: ONES}).shape == (1000, 10)
