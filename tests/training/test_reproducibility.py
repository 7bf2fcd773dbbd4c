"""The numbers of a step depend on nothing that is only shown at some steps."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.training.reproducibility import shared_ops


def _ops(show):
    """Returns the shared ops, by name, of a step: a is a product, b its sum with a bias, c the sum of b and x."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3])
        a = tf.matmul(x, tf.get_variable('w', [3, 3]), name='a')
        b = tf.nn.bias_add(a, tf.get_variable('bias', [3]), name='b')
        c = tf.add(b, x, name='c')
        loss = tf.reduce_sum(tf.nn.relu(c, name='d'))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return [op.name for op in shared_ops(train_op, [show(a, b, c)])]


def test_a_tensor_that_a_summary_shows_is_not_fused_with_its_only_user():
    assert _ops(lambda a, b, c: tf.summary.histogram('b', b)) == ['b']
    assert sorted(_ops(lambda a, b, c: tf.concat([a, tf.sqrt(c)], 0))) == ['a', 'c']


def test_what_nothing_shows_or_is_made_for_showing_is_free():
    assert _ops(lambda a, b, c: tf.constant(1)) == _ops(lambda a, b, c: tf.sqrt(tf.placeholder(tf.float32))) == []


@pytest.mark.parametrize('first, second', [('sub', 'sub'), ('div', 'div'), ('pow', 'div')])
def test_the_bits_of_a_step_are_the_same_where_a_tensor_between_two_constants_is_shown(first, second):
    apply = {'sub': lambda x: x - 0.3, 'div': lambda x: x / 0.3, 'pow': lambda x: x**3}
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable('w', initializer=np.random.RandomState(0).randn(37).astype(np.float32), use_resource=True)
        a = apply[first](w * w)
        gradient = tf.gradients(tf.reduce_sum(apply[second](a) ** 2), w)[0]
        shown = tf.reduce_mean(a)
        kept = shared_ops(gradient.op, [shown])
        session.run(w.initializer)
        alone, beside = session.run([gradient, kept])[0], session.run([gradient, kept, shown])[0]
        assert np.array_equal(alone, beside)
