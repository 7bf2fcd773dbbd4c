"""Probabilities from logits, cross-entropy, entropy, and the divergence of Gaussians."""

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import losses
from tests.evaluated import evaluate

RANDOM = np.random.RandomState(0)
LOGITS = RANDOM.normal(size=[5, 3, 4])
LABELS = RANDOM.dirichlet(np.ones(4), size=[5, 3])
LOG_PROBS = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
MU_Q, LOG_VAR_Q, MU_P, LOG_VAR_P = RANDOM.normal(size=[4, 5, 3])


def test_softmax_is_the_share_of_the_exponentials_and_does_not_overflow(session):
    for dims, axis in ((-1, -1), (1, 1), ([1, 2], (1, 2)), ([2], 2)):
        expected = np.exp(LOGITS) / np.exp(LOGITS).sum(axis, keepdims=True)
        found = evaluate(lambda x, dims=dims: [losses.softmax(x, dims), losses.log_prob_from_logits(x, dims)], LOGITS)
        np.testing.assert_allclose(found, [expected, np.log(expected)], rtol=1e-6)
    logits = tf.constant([[1000, 0, -1000], [-1e30, -1e30, -1e30], [1e30, 1e30, 0]], tf.float32)
    log_prob = losses.log_prob_from_logits(logits)
    (gradient,) = tf.gradients(log_prob[0, 1], logits)
    probabilities, log_prob, gradient = session.run([losses.softmax(logits), log_prob, gradient])
    np.testing.assert_allclose(probabilities, [[1, 0, 0], [1 / 3] * 3, [0.5, 0.5, 0]], rtol=1e-6)
    np.testing.assert_allclose(log_prob[0], [0, -1000, -2000])  # Not -inf, as the log of the softmax is.
    np.testing.assert_allclose(log_prob[1], np.log([1 / 3] * 3), rtol=1e-6)
    assert gradient[0].tolist() == [-1, 1, 0]


def test_cross_entropy_is_the_mean_of_minus_the_log_probabilities_and_entropy_that_of_the_distribution_with_itself(session):
    np.testing.assert_allclose(evaluate(losses.softmax_cross_entropy, LABELS, LOGITS), -(LABELS * LOG_PROBS).sum(-1), rtol=1e-6)
    logits = tf.constant([1000.0, 0.0])
    loss = losses.softmax_cross_entropy(tf.constant([0.5, 0.5]), logits)
    value, gradient = session.run([loss, tf.gradients(loss, logits)[0]])
    assert value == 500 and gradient.tolist() == [0.5, -0.5]
    log_probs = LOGITS - np.log(np.exp(LOGITS).sum((1, 2), keepdims=True))
    for dims, log_p, axis in ((-1, LOG_PROBS, -1), ([1, 2], log_probs, (1, 2))):
        found = evaluate(lambda x, dims=dims: losses.softmax_entropy(x, dims), LOGITS)
        np.testing.assert_allclose(found, -(np.exp(log_p) * log_p).sum(axis), rtol=1e-6)
    entropy = evaluate(losses.softmax_entropy, np.array([[1000, 0, 0, 0], [7, 7, 7, 7]], np.float32))
    np.testing.assert_allclose(entropy, [0, np.log(4)], atol=1e-7, rtol=1e-6)


def kl(mu_q, log_var_q, mu_p, log_var_p):
    return losses.gaussian_kl((mu_q, log_var_q), (mu_p, log_var_p))


def test_gaussian_kl_is_the_integral_of_the_definition_takes_plain_numbers_and_is_exact_for_small_differences(session):
    x = np.linspace(-30, 30, 20001)[:, None, None]

    def log_density(mu, log_var):
        return -0.5 * ((x - mu) ** 2 / np.exp(log_var) + log_var + np.log(2 * np.pi))

    def integral(*arguments):
        log_q, log_p = log_density(*arguments[:2]), log_density(*arguments[2:])
        return np.sum(np.exp(log_q) * (log_q - log_p), (0, 2)) * 0.003

    for log_var_q in (LOG_VAR_Q, LOG_VAR_Q[:, :1]):  # The latter is one variance for all dimensions.
        found = evaluate(kl, MU_Q, log_var_q, MU_P, LOG_VAR_P)
        np.testing.assert_allclose(found, integral(MU_Q, log_var_q, MU_P, LOG_VAR_P), rtol=1e-6)
    found = evaluate(lambda mu, log_var: losses.gaussian_kl((mu, log_var)), MU_Q, LOG_VAR_Q)
    np.testing.assert_allclose(found, integral(MU_Q, LOG_VAR_Q, 0 * MU_P, 0 * LOG_VAR_P), rtol=1e-6)
    np.testing.assert_allclose(evaluate(kl, MU_Q, LOG_VAR_Q, MU_Q, LOG_VAR_Q), np.zeros(5), atol=1e-12)
    assert session.run(losses.gaussian_kl(([2, 2], 0))) == 4  # By hand: (1 + 4 - 1 - 0) / 2, twice.
    log_var = np.float32([[1e-4], [-1e-4], [3e-5]])
    exact = 0.5 * (np.expm1(np.float64(log_var)) - log_var)[:, 0]  # About log_var^2 / 4.
    np.testing.assert_allclose(session.run(losses.gaussian_kl((0 * log_var, log_var))), exact, rtol=0.2)
