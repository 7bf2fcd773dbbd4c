"""Cross-entropy and entropy."""

import numpy as np
import tensorflow.compat.v1 as tf

from common.ops.check_gradient import check_gradient
from common.ops.cross_entropy import softmax_cross_entropy, softmax_entropy
from tests.evaluated import evaluate

RANDOM = np.random.RandomState(0)
LOGITS = RANDOM.normal(size=[5, 3, 4])
LABELS = RANDOM.dirichlet(np.ones(4), size=[5, 3])
LOG_PROBS = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))


def test_the_definition_of_cross_entropy():
    np.testing.assert_allclose(evaluate(softmax_cross_entropy, LABELS, LOGITS), -(LABELS * LOG_PROBS).sum(-1), rtol=1e-6)


def test_cross_entropy_of_large_logits_is_exact(session):
    logits, labels = tf.constant([1000.0, 0.0]), tf.constant([0.5, 0.5])
    loss = softmax_cross_entropy(labels, logits)
    value, gradient = session.run([loss, tf.gradients(loss, logits)[0]])
    assert value == 500
    np.testing.assert_array_equal(gradient, [0.5, -0.5])


def test_the_gradients_of_cross_entropy_with_respect_to_logits_and_labels():
    assert check_gradient(softmax_cross_entropy, [LABELS[0], LOGITS[0]]) < 1e-6


def test_the_definition_of_entropy():
    np.testing.assert_allclose(evaluate(softmax_entropy, LOGITS), -(np.exp(LOG_PROBS) * LOG_PROBS).sum(-1), rtol=1e-6)


def test_entropy_over_several_dimensions():
    logits = LOGITS.reshape(5, 12)
    expected = evaluate(softmax_entropy, logits)
    np.testing.assert_allclose(evaluate(lambda x: softmax_entropy(x, [1, 2]), LOGITS), expected, rtol=1e-6)


def test_entropy_of_certain_and_of_equal_outcomes():
    entropy = evaluate(softmax_entropy, np.array([[1000, 0, 0, 0], [7, 7, 7, 7]], np.float32))
    np.testing.assert_allclose(entropy, [0, np.log(4)], atol=1e-7, rtol=1e-6)


def test_the_gradient_of_entropy():
    assert check_gradient(softmax_entropy, [LOGITS[0]]) < 1e-6


def test_adam_maximises_entropy_to_equal_probabilities(session):
    logits = tf.get_variable('logits', initializer=[3.0, -1.0, 0.5, 0.0, 2.0])
    train_op = tf.train.AdamOptimizer(0.1).minimize(-softmax_entropy(logits))
    session.run(tf.global_variables_initializer())
    for _ in range(300):
        session.run(train_op)
    np.testing.assert_allclose(session.run(tf.nn.softmax(logits)), [0.2] * 5, atol=1e-4)
