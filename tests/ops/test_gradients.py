"""The gradients of the ops are right, by finite differences; and the check of that finds wrong and missing ones."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.asserts import assert_finite, assert_shape
from common.ops.batch_gather import batch_gather
from common.ops.batch_normalization import batch_normalization
from common.ops.check_gradient import check_gradient
from common.ops.cross_entropy import softmax_cross_entropy, softmax_entropy
from common.ops.dropout import dropout
from common.ops.gaussian_kl import gaussian_kl
from common.ops.jacobian import batch_jacobian
from common.ops.layers import conv_stack, dense_stack
from common.ops.leaky_relu import leaky_relu
from common.ops.merge import merge
from common.ops.print_tensor import print_tensor
from common.ops.random_shift import random_shift
from common.ops.shape import reshape
from common.ops.softmax import log_prob_from_logits, softmax

RANDOM = np.random.RandomState(0)
X = np.array([[0.3, -1.2], [2.0, 0.7]])
LOGITS, LABELS = RANDOM.normal(size=[3, 4]), RANDOM.dirichlet(np.ones(4), size=3)
IMAGES = RANDOM.normal(size=[1, 4, 4, 3])
OPS = {
    'assert': (lambda x: tf.square(assert_shape(assert_finite(x), [2, 2])), X),
    'batch gather': (lambda x: tf.square(batch_gather(x, tf.constant([[0, 0], [1, 1]]))), X),
    'cross-entropy': (softmax_cross_entropy, LABELS, LOGITS),
    'dropout': (lambda x: dropout(x, 0.5, True), X),
    'entropy': (softmax_entropy, LOGITS),
    'gaussian_kl': (lambda *x: gaussian_kl(x[:2], x[2:]), *RANDOM.normal(size=[4, 3, 2])),
    'jacobian': (lambda x: batch_jacobian(tf.tanh(x), x), X),
    'layers': (lambda x: dense_stack(x, [2], False, activation=tf.tanh), X),
    'layers of images': (lambda x: conv_stack(x, [2], False, activation=tf.tanh), IMAGES),
    'leaky ReLU': (leaky_relu, X),
    'log-probabilities': (log_prob_from_logits, LOGITS),
    'merge': (lambda *x: merge(x, 3, tf.tanh), IMAGES, IMAGES[:, :1, :1]),
    'print': (lambda x: tf.square(print_tensor(x)), X),
    'reshape': (lambda x: tf.square(reshape(x, [0, [1, 2], 3])), IMAGES),
    'shift': (lambda x: random_shift(x, 1, True), IMAGES),
    'softmax': (lambda x: softmax(x, [0, 1]), LOGITS),
}


@pytest.mark.parametrize('name', OPS)
def test_the_gradient_of_an_op_is_right(name):
    op, *inputs = OPS[name]
    assert check_gradient(op, inputs) < 1e-5


@pytest.mark.parametrize('fused', [True, False])
def test_the_gradient_of_batch_normalization_is_right(fused):
    images = RANDOM.normal(size=[2, 2, 2, 3]).astype(np.float32)
    error = check_gradient(
        lambda x: tf.reduce_sum(batch_normalization(x, True, fused=fused) * images[::-1]), [images], delta=1e-2
    )
    assert error < 5e-3


def test_right_gradients_of_any_precision_pass():
    assert check_gradient(lambda x, y: x @ y, [X, X]) < 1e-9
    assert check_gradient(lambda x: tf.sin(x), [X.astype(np.float32)]) < 1e-3
    assert check_gradient(lambda x: tf.layers.dense(x, 3, tf.tanh), [X]) < 1e-5  # Variables have their initial values.


def test_the_largest_error_of_all_inputs_is_given():
    @tf.custom_gradient
    def wrong(x, y):
        return 2 * x + 3 * y, lambda gradient: (2 * gradient, 3.5 * gradient)

    np.testing.assert_allclose(check_gradient(wrong, [X, X]), 0.5, rtol=1e-6)


def test_a_missing_gradient_counts_as_zero():
    logits = np.array([[1.0, 3.0]])

    def cross_entropy(labels):
        return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=tf.constant(logits))

    # The derivative with respect to the labels is -log(softmax): log(1 + e^2) = 2.1269 for the first.
    np.testing.assert_allclose(check_gradient(cross_entropy, [np.array([[0.5, 0.5]])]), np.log(1 + np.exp(2)), rtol=1e-6)


@pytest.mark.parametrize(
    'op, inputs',
    [
        # The gradient of what tf.where does not choose is 0 times infinity.
        (lambda x: tf.where(x < 1, x, x / (x - 1)), [np.array([1.0 - 1e-9, 1.0, 4.0])]),
        (lambda x: tf.sqrt(x - 5), [np.array([1.0, 9.0])]),
        (lambda x, y: tf.sqrt(x - 5) * y, [np.array([1.0]), np.array([1.0])]),
    ],
)
def test_nan_is_not_taken_for_right(op, inputs):
    assert np.isnan(check_gradient(op, inputs))


def test_inputs_that_have_no_difference_quotient_are_refused():
    with pytest.raises(ValueError, match='delta=0.001 is lost in 1000000.0 of the dtype float32'):
        check_gradient(lambda x: x, [np.float32([1e6])])
    with pytest.raises(ValueError, match=r'inputs\[1\] has the dtype int64'):
        check_gradient(lambda x, y: x, [X, np.array([1])])
    assert check_gradient(lambda x: x, [np.zeros([0, 3])]) == 0
