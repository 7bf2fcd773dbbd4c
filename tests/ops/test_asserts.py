"""Checks that really run."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.asserts import assert_finite, assert_shape
from common.ops.check_gradient import check_gradient
from tests.evaluated import evaluate

X = np.ones([4, 3])


def test_asserts_pass_on_what_is_right_unchanged():
    np.testing.assert_array_equal(evaluate(lambda x: assert_shape(assert_finite(x), [None, 3]), X), X)


def test_an_asserted_shape_that_is_known_to_be_wrong_is_an_error_at_once():
    with tf.Graph().as_default(), pytest.raises(ValueError):
        assert_shape(tf.constant(X), [4, 2])
    with tf.Graph().as_default(), pytest.raises(ValueError):
        assert_shape(tf.constant(X), [4, 3, 1])


def test_an_asserted_shape_that_is_unknown_is_checked_when_the_result_is_used(session):
    x = tf.placeholder(tf.float32, None)
    checked = 2 * assert_shape(x, [None, 3])
    assert checked.shape.as_list() == [None, 3]
    assert session.run(checked, {x: X}).shape == (4, 3)
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(checked, {x: X[:, :2]})


def test_asserted_sizes_may_be_tensors(session):
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None])
    checked = assert_shape(x, [tf.shape(y)[0], 3])
    assert session.run(checked, {x: X, y: np.zeros(4)}).shape == (4, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match='Dimension 0'):
        session.run(checked, {x: X, y: np.zeros(5)})


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_an_error_that_says_where(session, bad):
    x = tf.placeholder(tf.float32, [None], name='x')
    for checked, name in ((assert_finite(x), 'x:0'), (assert_finite(x, 'the loss'), 'the loss')):
        assert session.run(2 * checked, {x: [1, 2]}).tolist() == [2, 4]
        with pytest.raises(tf.errors.InvalidArgumentError, match=name):
            session.run(2 * checked, {x: [1, bad]})


def test_asserts_run_in_towers_too():
    with pytest.raises(tf.errors.InvalidArgumentError):
        evaluate(assert_finite, np.array([1, 2, np.nan]))


def test_gradients_pass_through_asserts():
    assert check_gradient(lambda x: tf.square(assert_shape(assert_finite(x), [4, 3])), [X]) < 1e-6
