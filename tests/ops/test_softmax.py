"""Probabilities from logits."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.check_gradient import check_gradient
from common.ops.softmax import log_prob_from_logits, softmax
from tests.evaluated import evaluate

LOGITS = np.random.RandomState(0).normal(size=[5, 3, 4])


@pytest.mark.parametrize('dims', [-1, 1, [1, 2], [2]])
def test_the_definition_of_softmax(dims):
    axis = tuple(dims) if isinstance(dims, list) else dims
    expected = np.exp(LOGITS) / np.exp(LOGITS).sum(axis, keepdims=True)
    np.testing.assert_allclose(evaluate(lambda x: softmax(x, dims), LOGITS), expected, rtol=1e-6)
    np.testing.assert_allclose(evaluate(lambda x: log_prob_from_logits(x, dims), LOGITS), np.log(expected), rtol=1e-6)


def test_softmax_over_all_dimensions_of_the_batch_too(session):
    probabilities = session.run(softmax(tf.constant(LOGITS), [0, 1, 2]))
    np.testing.assert_allclose(probabilities, np.exp(LOGITS) / np.exp(LOGITS).sum(), rtol=1e-6)


def test_softmax_of_large_logits_does_not_overflow():
    logits = np.array([[1000, 0, -1000], [-1e30, -1e30, -1e30], [1e30, 1e30, 0]], np.float32)
    third = 1 / 3
    np.testing.assert_allclose(evaluate(softmax, logits), [[1, 0, 0], [third] * 3, [0.5, 0.5, 0]], rtol=1e-6)
    log_prob = evaluate(log_prob_from_logits, logits)
    np.testing.assert_allclose(log_prob[0], [0, -1000, -2000])  # Not -inf, as the log of the softmax is.
    np.testing.assert_allclose(log_prob[1], np.log([third] * 3), rtol=1e-6)


def test_the_gradients_of_softmax():
    assert check_gradient(lambda x: softmax(x, [0, 1]), [LOGITS[0]]) < 1e-6
    assert check_gradient(log_prob_from_logits, [LOGITS[0]]) < 1e-6


def test_the_gradient_of_softmax_of_large_logits_is_finite(session):
    logits = tf.constant([1000.0, 0.0])
    (gradient,) = tf.gradients(log_prob_from_logits(logits)[1], logits)
    np.testing.assert_array_equal(session.run(gradient), [-1, 1])
