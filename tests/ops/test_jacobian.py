"""Jacobians against ones computed by hand, in NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.jacobian import batch_jacobian, jacobian
from tests.evaluated import evaluate

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=[5, 2, 3])
W = RANDOM.normal(size=[2, 3, 4, 6])


def fn(x):
    """tanh of a linear function of each example, [batch, 2, 3] -> [batch, 4, 6]."""
    return tf.tanh(tf.einsum('bij,ijkl->bkl', x, tf.constant(W)))


# d tanh(xW)_kl / d x_ij = (1 - tanh(xW)_kl^2) W_ijkl
EXPECTED = (1 - np.tanh(np.einsum('bij,ijkl->bkl', X, W)) ** 2)[:, :, :, None, None] * W.transpose(2, 3, 0, 1)


def test_batch_jacobian_is_of_any_rank():
    found = evaluate(lambda x: batch_jacobian(fn(x), x), X)
    assert found.shape == (5, 4, 6, 2, 3)
    np.testing.assert_allclose(found, EXPECTED, rtol=1e-6)
    np.testing.assert_allclose(evaluate(lambda x: batch_jacobian(tf.reduce_sum(tf.square(x), [1, 2]), x), X), 2 * X)
    np.testing.assert_allclose(evaluate(lambda x: batch_jacobian(tf.square(x), x), X[:, 0, 0]), 2 * X[:, 0, 0])


@pytest.mark.parametrize('batch', [X.shape[0], None])
def test_jacobian_also_holds_the_derivatives_between_examples(session, batch):
    x = tf.placeholder(tf.float64, [batch, 2, 3])
    found = session.run(jacobian(fn(x), x), {x: X})
    assert found.shape == (5, 4, 6, 5, 2, 3)
    for i in range(5):
        np.testing.assert_allclose(found[i, :, :, i], EXPECTED[i], rtol=1e-6)
        assert not np.delete(found[i], i, axis=2).any()
    scalar = tf.constant(3.0)
    assert session.run(jacobian(scalar**2, scalar)) == 6


def test_jacobian_within_towers():
    found = evaluate(lambda x: tf.map_fn(lambda example: jacobian(tf.square(example), example), x), X[:, 0])
    np.testing.assert_allclose(found, np.stack([np.diag(2 * x) for x in X[:, 0]]))


def test_jacobian_is_zero_where_nothing_depends_on_the_input(session):
    x, y = tf.constant(X), tf.ones([5, 2])
    assert session.run(jacobian(y, x)).shape == (5, 2, 5, 2, 3)
    assert not session.run(batch_jacobian(y, x)).any()


def test_jacobian_of_an_empty_batch_or_of_no_outputs_is_empty(session):
    x = tf.placeholder(tf.float64, [None, 2, 3])
    assert session.run(batch_jacobian(fn(x), x), {x: X[:0]}).shape == (0, 4, 6, 2, 3)
    assert session.run(jacobian(fn(x), x), {x: X[:0]}).shape == (0, 4, 6, 0, 2, 3)
    x = tf.constant(X)
    assert session.run(jacobian(x[:0], x)).shape == (0, 2, 3, 5, 2, 3)
    assert session.run(batch_jacobian(x[:, :0], x)).shape == (5, 0, 3, 2, 3)


def test_the_graph_of_a_jacobian_does_not_grow_with_the_outputs():
    def size(units):
        with tf.Graph().as_default() as graph:
            x = tf.ones([2, 3])
            batch_jacobian(tf.tanh(x @ tf.ones([3, units])), x)
            return len(graph.get_operations())

    assert size(2) == size(200)
