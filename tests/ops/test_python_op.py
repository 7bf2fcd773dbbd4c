"""Python functions as ops."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.check_gradient import check_gradient
from common.ops.python_op import python_op
from tests.evaluated import evaluate

X = np.array([[-1.5, 0.5], [2.0, -0.25], [1.0, 3.0]])
relu = python_op(lambda x: np.maximum(x, 0), lambda x, gradient: gradient * (x > 0))


def dot(x, y):
    """Products of the rows of two inputs, the second's gradient scaled as nothing but this op would do it."""
    op = python_op(
        lambda x, y: (x * y).sum(1),
        lambda x, y, gradient: (gradient[:, None] * y, 10 * gradient[:, None] * x),
        lambda x, y: tf.TensorSpec(x.shape[:1], x.dtype),
    )
    return op(x, y)


def test_a_python_op_computes_what_its_functions_do_for_any_batch_and_in_towers(session):
    np.testing.assert_array_equal(evaluate(relu, X), np.maximum(X, 0))
    np.testing.assert_array_equal(evaluate(lambda x: tf.gradients(3 * relu(x), x)[0], X), 3 * (X > 0))
    np.testing.assert_array_equal(session.run(relu(X)), np.maximum(X, 0))
    assert check_gradient(relu, [X]) < 1e-6


def test_a_wrong_gradient_of_a_python_op_fails_the_check():
    wrong = python_op(lambda x: np.maximum(x, 0), lambda x, gradient: gradient)
    np.testing.assert_allclose(check_gradient(wrong, [X]), 1, rtol=1e-6)


def test_a_python_op_of_several_inputs_and_another_shape():
    np.testing.assert_allclose(evaluate(dot, X, X + 1), (X * (X + 1)).sum(1))
    gradients = evaluate(lambda x, y: tf.gradients(dot(x, y), [x, y]), X, X + 1)
    np.testing.assert_allclose(gradients, [X + 1, 10 * X])


def test_the_shape_of_a_python_op_is_known_when_the_graph_is_built(session):
    x = tf.placeholder(tf.float32, [None, 2])
    assert relu(x).shape.as_list() == [None, 2] and dot(x, x).shape.as_list() == [None]
    assert tf.gradients(relu(x), x)[0].shape.as_list() == [None, 2]


def test_no_gradient_of_a_python_op_is_a_gradient_of_zero(session):
    op = python_op(lambda x, y: x * y, lambda x, y, gradient: (gradient * y, None))
    x, y = tf.constant([3.0, 4.0]), tf.constant([5.0, 6.0])
    assert session.run(tf.gradients(op(x, y), [x, y])[0]).tolist() == [5, 6]
    assert session.run(tf.gradients(op(x, y), y)[0]).tolist() == [0, 0]
    alone = python_op(lambda x: x, lambda x, gradient: None)
    assert session.run(tf.gradients(alone(x), x)[0]).tolist() == [0, 0]


def test_an_input_of_whole_numbers_has_no_gradient_in_a_python_op(session):
    scale = python_op(lambda x, times: x * np.float32(times), lambda x, times, gradient: (gradient * np.float32(times), None))
    x, times = tf.constant([3.0, 4.0]), tf.constant([2, 5])
    assert session.run(scale(x, times)).tolist() == [6, 20]
    assert session.run(tf.gradients(scale(x, times), x)[0]).tolist() == [2, 5]


@pytest.mark.parametrize('batch', [3, None])
@pytest.mark.parametrize(
    'fn, grad_fn, message',
    [
        (lambda x: np.float32(x), lambda x, gradient: gradient, 'float'),
        (lambda x: x.ravel(), lambda x, gradient: x, 'not compatible'),
        (lambda x: x, lambda x, gradient: gradient.sum(0), 'assert_shape'),
        (lambda x: x, lambda x, gradient: gradient[:1], 'assert_shape'),
    ],
)
def test_a_python_op_that_returns_another_type_or_shape_is_an_error(session, batch, fn, grad_fn, message):
    x = tf.placeholder(tf.float64, [batch, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(tf.gradients(python_op(fn, grad_fn)(x) ** 2, x)[0], {x: X})
