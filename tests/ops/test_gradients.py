"""Gradients: Jacobians, checks by finite differences, gradients of ops and of Python functions."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import losses
from estimator_trainer.common.ops.debug import batch_jacobian, check_gradient, jacobian
from estimator_trainer.common.ops.layers import conv_stack, dropout
from estimator_trainer.common.ops.python_op import python_op
from tests.evaluated import evaluate, graph_size

RANDOM = np.random.RandomState(0)
BATCH, W = RANDOM.normal(size=[5, 2, 3]), RANDOM.normal(size=[2, 3, 4, 6])
X = np.array([[0.3, -1.2], [2.0, 0.7], [-1.5, 3.0]])
LOGITS, LABELS = RANDOM.normal(size=[3, 4]), RANDOM.dirichlet(np.ones(4), size=3)
# d tanh(xW)_kl / d x_ij = (1 - tanh(xW)_kl^2) W_ijkl
JACOBIAN = (1 - np.tanh(np.einsum('bij,ijkl->bkl', BATCH, W)) ** 2)[:, :, :, None, None] * W.transpose(2, 3, 0, 1)
OPS = {
    'cross-entropy': (losses.softmax_cross_entropy, LABELS, LOGITS),
    'dropout': (lambda x: dropout(x, 0.5, True), X),
    'entropy': (losses.softmax_entropy, LOGITS),
    'gaussian_kl': (lambda *x: losses.gaussian_kl(x[:2], x[2:]), *RANDOM.normal(size=[4, 3, 2])),
    'jacobian': (lambda x: batch_jacobian(tf.tanh(x), x), X),
    # Without pooling, which is not smooth where two pixels are almost equal, as those of random kernels may be.
    'layers': (lambda x: conv_stack(x, [2], False, pool_size=1, activation=tf.tanh), RANDOM.normal(size=[1, 4, 4, 3])),
    'log-probabilities': (losses.log_prob_from_logits, LOGITS),
    'softmax': (lambda x: losses.softmax(x, [0, 1]), LOGITS),
}
relu = python_op(lambda x: np.maximum(x, 0), lambda x, gradient: gradient * (x > 0))


def fn(x):
    """tanh of a linear function of each example, [batch, 2, 3] -> [batch, 4, 6]."""
    return tf.tanh(tf.einsum('bij,ijkl->bkl', x, tf.constant(W)))


def test_jacobians_are_of_any_rank_and_work_in_towers():
    np.testing.assert_allclose(evaluate(lambda x: batch_jacobian(fn(x), x), BATCH), JACOBIAN, rtol=1e-6)
    np.testing.assert_allclose(evaluate(lambda x: batch_jacobian(tf.reduce_sum(x**2, [1, 2]), x), BATCH), 2 * BATCH)
    np.testing.assert_allclose(evaluate(lambda x: batch_jacobian(x**2, x), BATCH[:, 0, 0]), 2 * BATCH[:, 0, 0])
    found = evaluate(lambda x: tf.map_fn(lambda example: jacobian(tf.square(example), example), x), X)
    np.testing.assert_allclose(found, np.stack([np.diag(2 * x) for x in X]))


@pytest.mark.parametrize('batch', [5, None])
def test_jacobian_also_holds_the_derivatives_between_examples(session, batch):
    x = tf.placeholder(tf.float64, [batch, 2, 3])
    found = session.run(jacobian(fn(x), x), {x: BATCH})
    assert found.shape == (5, 4, 6, 5, 2, 3)
    for i in range(5):
        np.testing.assert_allclose(found[i, :, :, i], JACOBIAN[i], rtol=1e-6)
        assert not np.delete(found[i], i, axis=2).any()
    scalar = tf.constant(3.0)
    assert session.run(jacobian(scalar**2, scalar)) == 6


def test_jacobian_is_zero_without_a_dependency_empty_without_examples_or_outputs_and_its_graph_does_not_grow_with_them(session):
    x, y, of_any_batch = tf.constant(BATCH), tf.ones([5, 2]), tf.placeholder(tf.float64, [None, 2, 3])
    assert session.run(jacobian(y, x)).shape == (5, 2, 5, 2, 3)
    assert not session.run(batch_jacobian(y, x)).any()
    assert session.run(batch_jacobian(fn(of_any_batch), of_any_batch), {of_any_batch: BATCH[:0]}).shape == (0, 4, 6, 2, 3)
    assert session.run(jacobian(fn(of_any_batch), of_any_batch), {of_any_batch: BATCH[:0]}).shape == (0, 4, 6, 0, 2, 3)
    assert session.run(jacobian(x[:0], x)).shape == (0, 2, 3, 5, 2, 3)
    assert session.run(batch_jacobian(x[:, :0], x)).shape == (5, 0, 3, 2, 3)

    def build(units):
        x = tf.ones([2, 3])
        batch_jacobian(tf.tanh(x @ tf.ones([3, units])), x)

    assert graph_size(build, 2) == graph_size(build, 200)


@pytest.mark.parametrize('name', OPS)
def test_the_gradient_of_an_op_is_right(name):
    op, *inputs = OPS[name]
    assert check_gradient(op, inputs) < 1e-5


def test_right_gradients_of_any_precision_pass_and_the_largest_error_of_all_inputs_is_given():
    assert check_gradient(lambda x, y: x @ y, [X[:2], X[:2]]) < 1e-9
    assert check_gradient(lambda x: tf.sin(x), [X.astype(np.float32)]) < 1e-3
    assert check_gradient(lambda x: tf.layers.dense(x, 3, tf.tanh), [X]) < 1e-5  # Variables have their initial values.
    assert check_gradient(lambda x: x, [np.zeros([0, 3])]) == 0
    wrong = python_op(lambda x, y: 2 * x + 3 * y, lambda x, y, gradient: (2 * gradient, 3.5 * gradient))
    np.testing.assert_allclose(check_gradient(wrong, [X, X]), 0.5, rtol=1e-6)
    missing = check_gradient(lambda x, y: x + 7 * tf.stop_gradient(y), [X, X])
    np.testing.assert_allclose(missing, 7, rtol=1e-6)  # Counts as zero.


def test_nan_is_not_taken_for_right_and_inputs_that_have_no_difference_quotient_are_refused():
    # The gradient of what tf.where does not choose is 0 times infinity.
    assert np.isnan(check_gradient(lambda x: tf.where(x < 1, x, x / (x - 1)), [np.array([1.0 - 1e-9, 1.0, 4.0])]))
    assert np.isnan(check_gradient(lambda x, y: tf.sqrt(x - 5) * y, [np.array([1.0]), np.array([1.0])]))
    with pytest.raises(ValueError, match='delta=0.001 is lost in 1000000.0 of the dtype float32'):
        check_gradient(lambda x: x, [np.float32([1e6])])
    with pytest.raises(ValueError, match=r'inputs\[1\] has the dtype int64'):
        check_gradient(lambda x, y: x, [X, np.array([1])])


def test_a_python_op_computes_what_its_functions_do_and_may_have_several_inputs_and_another_known_shape(session):
    np.testing.assert_array_equal(evaluate(relu, X), np.maximum(X, 0))
    np.testing.assert_array_equal(evaluate(lambda x: tf.gradients(3 * relu(x), x)[0], X), 3 * (X > 0))
    np.testing.assert_array_equal(session.run(relu(X)), np.maximum(X, 0))
    dot = python_op(
        lambda x, y: (x * y).sum(1),
        lambda x, y, gradient: (gradient[:, None] * y, 10 * gradient[:, None] * x),
        lambda x, y: tf.TensorSpec(x.shape[:1], x.dtype),
    )
    np.testing.assert_allclose(evaluate(dot, X, X + 1), (X * (X + 1)).sum(1))
    gradients = evaluate(lambda x, y: tf.gradients(dot(x, y), [x, y]), X, X + 1)
    np.testing.assert_allclose(gradients, [X + 1, 10 * X])
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 2])
        assert relu(x).shape.as_list() == [None, 2] and dot(x, x).shape.as_list() == [None]
        assert tf.gradients(relu(x), x)[0].shape.as_list() == [None, 2]


def test_no_gradient_of_a_python_op_is_one_of_zero_whole_numbers_have_none_and_other_types_or_shapes_are_errors(session):
    x, times = tf.constant([3.0, 4.0]), tf.constant([2, 5])
    scale = python_op(lambda x, times: x * np.float32(times), lambda x, times, gradient: (gradient * np.float32(times), None))
    assert session.run(scale(x, times)).tolist() == [6, 20]
    assert session.run(tf.gradients(scale(x, times), x)[0]).tolist() == [2, 5]
    assert session.run(tf.gradients(scale(tf.ones([2]), x), x)[0]).tolist() == [0, 0]
    alone = python_op(lambda x: x, lambda x, gradient: None)
    assert session.run(tf.gradients(alone(x), x)[0]).tolist() == [0, 0]
    for fn, grad_fn, message in (
        (lambda x: np.float32(x), lambda x, gradient: gradient, 'float'),
        (lambda x: x.ravel(), lambda x, gradient: x, 'not compatible'),
        (lambda x: x, lambda x, gradient: gradient.sum(0), 'assert_shape'),
        (lambda x: x, lambda x, gradient: gradient[:1], 'assert_shape'),
    ):
        x = tf.placeholder(tf.float64, [None, 2])
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(tf.gradients(python_op(fn, grad_fn)(x) ** 2, x)[0], {x: X})
