"""The divergence of Gaussians."""

import numpy as np

from common.ops.check_gradient import check_gradient
from common.ops.gaussian_kl import gaussian_kl
from tests.evaluated import evaluate

RANDOM = np.random.RandomState(0)
MU_Q, LOG_VAR_Q, MU_P, LOG_VAR_P = RANDOM.normal(size=[4, 5, 3])


def kl(mu_q, log_var_q, mu_p, log_var_p):
    return gaussian_kl((mu_q, log_var_q), (mu_p, log_var_p))


def test_gaussian_kl_is_the_integral_of_the_definition():
    x = np.linspace(-30, 30, 200001)

    def log_density(x, mu, log_var):
        return -0.5 * ((x - mu) ** 2 / np.exp(log_var) + log_var + np.log(2 * np.pi))

    found = evaluate(kl, MU_Q, LOG_VAR_Q, MU_P, LOG_VAR_P)
    for i in range(5):
        expected = 0
        for d in range(3):
            log_q = log_density(x, MU_Q[i, d], LOG_VAR_Q[i, d])
            log_p = log_density(x, MU_P[i, d], LOG_VAR_P[i, d])
            expected += np.sum(np.exp(log_q) * (log_q - log_p)) * (x[1] - x[0])
        np.testing.assert_allclose(found[i], expected, rtol=1e-6)


def test_gaussian_kl_is_against_a_unit_gaussian_by_default():
    found = evaluate(lambda mu, log_var: gaussian_kl((mu, log_var)), MU_Q, LOG_VAR_Q)
    np.testing.assert_allclose(found, evaluate(kl, MU_Q, LOG_VAR_Q, 0 * MU_P, 0 * LOG_VAR_P), rtol=1e-6)
    # By hand: (1 + 4 - 1 - 0) / 2 for the mean 2 and the variance 1, twice.
    assert evaluate(lambda mu: gaussian_kl((mu, 0.0)), np.array([[2.0, 2.0]])) == [4]


def test_gaussian_kl_takes_one_variance_for_all_dimensions():
    one = LOG_VAR_Q[:, :1]
    np.testing.assert_allclose(
        evaluate(kl, MU_Q, one, MU_P, LOG_VAR_P), evaluate(kl, MU_Q, np.repeat(one, 3, 1), MU_P, LOG_VAR_P), rtol=1e-6
    )


def test_gaussian_kl_is_zero_for_equal_gaussians_and_not_negative():
    np.testing.assert_allclose(evaluate(kl, MU_Q, LOG_VAR_Q, MU_Q, LOG_VAR_Q), np.zeros(5), atol=1e-12)
    assert (evaluate(kl, MU_Q, LOG_VAR_Q, MU_P, LOG_VAR_P) > 0).all()


def test_gaussian_kl_of_small_differences_of_float32_is_exact():
    log_var = np.float32([[1e-4], [-1e-4], [3e-5]])
    exact = 0.5 * (np.expm1(np.float64(log_var)) - log_var)[:, 0]  # About log_var^2 / 4.
    np.testing.assert_allclose(evaluate(lambda log_var: gaussian_kl((0 * log_var, log_var)), log_var), exact, rtol=0.2)


def test_gaussian_kl_takes_plain_numbers_too(session):
    assert session.run(gaussian_kl(([2, 2], 0))) == 4


def test_the_gradients_of_gaussian_kl():
    assert check_gradient(kl, [MU_Q, LOG_VAR_Q, MU_P, LOG_VAR_P]) < 1e-5
