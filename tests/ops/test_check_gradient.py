"""The check of gradients finds wrong and missing ones, and no others."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.check_gradient import check_gradient

X = np.array([[0.3, -1.2], [2.0, 0.7]])


def test_right_gradients_pass_check_gradient():
    assert check_gradient(lambda x: tf.sin(x) * x, [X]) < 1e-5
    assert check_gradient(lambda x, y: x @ y, [X, X]) < 1e-9


def test_check_gradient_takes_float32_too():
    assert check_gradient(lambda x: tf.sin(x), [X.astype(np.float32)]) < 1e-3


def test_check_gradient_gives_the_largest_error_of_all_inputs():
    @tf.custom_gradient
    def wrong(x, y):
        return 2 * x + 3 * y, lambda gradient: (2 * gradient, 3.5 * gradient)

    np.testing.assert_allclose(check_gradient(wrong, [X, X]), 0.5, rtol=1e-6)


def test_check_gradient_counts_a_missing_gradient_as_zero():
    logits = np.array([[1.0, 3.0]])

    def cross_entropy(labels):
        return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=tf.constant(logits))

    # The derivative with respect to the labels is -log(softmax): log(1 + e^2) = 2.1269 for the first.
    np.testing.assert_allclose(check_gradient(cross_entropy, [np.array([[0.5, 0.5]])]), np.log(1 + np.exp(2)), rtol=1e-6)


def test_check_gradient_gives_variables_their_initial_values():
    assert check_gradient(lambda x: tf.layers.dense(x, 3, tf.tanh), [X]) < 1e-5


def test_check_gradient_does_not_take_nan_for_right():
    # The gradient of what tf.where does not choose is 0 times infinity.
    assert np.isnan(check_gradient(lambda x: tf.where(x < 1, x, x / (x - 1)), [np.array([1.0 - 1e-9, 1.0, 4.0])]))
    assert np.isnan(check_gradient(lambda x: tf.sqrt(x - 5), [np.array([1.0, 9.0])]))
    assert np.isnan(check_gradient(lambda x, y: tf.sqrt(x - 5) * y, [np.array([1.0]), np.array([1.0])]))


def test_check_gradient_refuses_inputs_in_which_the_difference_is_lost():
    with pytest.raises(ValueError, match='delta=0.001 is lost in 1000000.0 of the dtype float32'):
        check_gradient(lambda x: x, [np.float32([1e6])])


def test_check_gradient_refuses_whole_numbers():
    with pytest.raises(ValueError, match=r'inputs\[1\] has the dtype int64'):
        check_gradient(lambda x, y: x, [X, np.array([1])])
