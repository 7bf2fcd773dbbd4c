"""The leaky rectifier."""

import numpy as np

from common.ops.check_gradient import check_gradient
from common.ops.leaky_relu import leaky_relu
from tests.evaluated import evaluate

INPUTS = np.array([-10, -1, 0, 0.5, 3], np.float32)


def test_leaky_relu_leaks_a_tenth_of_what_is_negative():
    np.testing.assert_allclose(evaluate(leaky_relu, INPUTS), [-1, -0.1, 0, 0.5, 3])


def test_leaky_relu_with_another_slope():
    np.testing.assert_allclose(evaluate(lambda x: leaky_relu(x, 0.5), INPUTS), [-5, -0.5, 0, 0.5, 3])


def test_the_gradient_of_leaky_relu():
    assert check_gradient(leaky_relu, [np.array([-10, -1, 0.5, 3])]) < 1e-6
