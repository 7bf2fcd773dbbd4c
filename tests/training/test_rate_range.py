"""The learning rate range test, on losses that are known."""

import math

import numpy as np
import pytest

from estimator_trainer.common.training import rate_range
from tests.shared import failed


def bowl(rate):
    """A loss of log10(rate) that is least, 1, at a rate of 0.01."""
    return 1 + (math.log10(rate) + 2) ** 2


def test_rates_rise_exponentially_and_the_smoothed_loss_is_a_mean_of_recent_ones():
    curve = rate_range.measure(lambda rate: 2.0, 8)
    np.testing.assert_allclose(curve.rate, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10])
    np.testing.assert_allclose(curve.smoothed, 2.0)  # Without bias to the 0 before the first step.
    curve = rate_range.measure(lambda rate: 0.0 if rate < 1e-5 else 1.0, 2)
    np.testing.assert_allclose(curve.smoothed[1], 0.05 / (1 - 0.95**2))


def test_the_rate_is_a_tenth_of_that_of_the_least_smoothed_loss():
    curve = rate_range.measure(bowl, 1000)
    assert curve.suggest() == pytest.approx(curve.rate[np.argmin(curve.smoothed)] / 10, rel=0.05)
    assert 0.001 < curve.suggest() < 0.002  # The smoothed loss lags behind.


def test_a_loss_that_diverges_ends_it():
    seen = []

    def step(rate):
        seen.append(rate)
        return 1e9 if rate > 0.1 else bowl(rate)

    curve = rate_range.measure(step, 200)
    assert len(curve.rate) == len(seen) < 200 and seen[-1] > 0.1 > seen[-2]
    assert np.isfinite(rate_range.measure(lambda rate: math.nan if rate > 1 else bowl(rate), 100).smoothed).all()


def test_a_loss_below_zero_diverges_as_one_above():
    assert len(rate_range.measure(lambda rate: -1 - rate, 100).rate) == 100
    assert len(rate_range.measure(lambda rate: -math.log10(rate) - 2, 100).rate) == 100  # From 4 to -3.
    above, below = (rate_range.measure(lambda rate, by=by: 1e9 if rate > 0.1 else bowl(rate) - by, 200) for by in (0, 30))
    assert len(below.rate) == len(above.rate) < 200 and below.suggest() == above.suggest()


def test_a_loss_that_does_not_fall_has_no_rate():
    assert failed(rate_range.measure(lambda rate: 1.0 + rate, 50).suggest).startswith('the loss has not fallen at any rate')
    assert failed(rate_range.measure, lambda rate: math.inf, 50) == 'the first loss is not finite: see --debug_numerics'
