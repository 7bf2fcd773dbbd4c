"""Schedules against tables of numbers worked out by hand."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common import learning_rate
from common.errors import UsageError


def table(session, steps, total_steps=1000, **changes):
    params = types.SimpleNamespace(**{'learning_rate': 0.1, 'learning_rate_schedule': 'constant', 'warmup_steps': 0,
                                      'decay_steps': 100, 'decay_rate': 0.5, **changes})
    step = tf.placeholder(tf.int64, [])
    rate = learning_rate.learning_rate(step, total_steps, params)
    assert rate.dtype == tf.float32
    return [session.run(rate, {step: value}) for value in steps]


def test_constant(session):
    np.testing.assert_allclose(table(session, [0, 1, 999, 5000]), [0.1] * 4, rtol=1e-6)


def test_exponential_halves_every_decay_steps(session):
    rates = table(session, [0, 50, 100, 300], learning_rate_schedule='exponential')
    np.testing.assert_allclose(rates, [0.1, 0.1 / 2**0.5, 0.05, 0.0125], rtol=1e-5)


def test_cosine_falls_to_zero_at_the_end(session):
    rates = table(session, [0, 250, 500, 750, 1000, 2000], learning_rate_schedule='cosine')
    np.testing.assert_allclose(rates, [0.1, 0.0853553, 0.05, 0.0146447, 0, 0], atol=1e-7)


def test_warmup_is_linear_and_ends_at_the_full_rate(session):
    rates = table(session, [0, 1, 4, 8, 9, 10, 50], warmup_steps=10)
    np.testing.assert_allclose(rates, [0.01, 0.02, 0.05, 0.09, 0.1, 0.1, 0.1], rtol=1e-6)


def test_cosine_begins_after_the_warmup(session):
    rates = table(session, [0, 99, 100, 550, 1000], learning_rate_schedule='cosine', warmup_steps=100)
    np.testing.assert_allclose(rates, [0.001, 0.1, 0.1, 0.05, 0], atol=1e-7)


def test_an_unknown_schedule_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match='linear is not one of constant, exponential, cosine'):
        learning_rate.check(types.SimpleNamespace(learning_rate_schedule='linear'))
