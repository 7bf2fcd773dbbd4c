"""Schedules against tables of numbers worked out by hand."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training import learning_rate
from hparams.defaults import DEFAULTS


def make_params(**changes):
    return types.SimpleNamespace(**{**DEFAULTS, 'learning_rate': 0.1, 'decay_steps': 100, 'decay_rate': 0.5, **changes})


def table(session, steps, total_steps=1000, **changes):
    params = make_params(**changes)
    step = tf.placeholder(tf.int64, [])
    rate = learning_rate.learning_rate(step, total_steps, params)
    assert rate.dtype == tf.float32
    return [session.run(rate, {step: value}) for value in steps]


def test_a_constant_rate_stays_as_it_is(session):
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


def test_piecewise_is_multiplied_from_each_boundary_on(session):
    rates = table(
        session,
        [0, 29, 30, 59, 60, 5000],
        learning_rate_schedule='piecewise',
        piecewise_boundaries=(30, 60),
        piecewise_factors=(0.5, 2.0),
    )
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.05, 0.05, 0.2, 0.2], rtol=1e-6)


def test_piecewise_without_boundaries_is_constant(session):
    rates = table(session, [0, 500], learning_rate_schedule='piecewise', piecewise_boundaries=(), piecewise_factors=())
    np.testing.assert_allclose(rates, [0.1, 0.1], rtol=1e-6)


def test_cyclic_goes_up_and_down_in_straight_lines(session):
    rates = table(
        session, [0, 10, 20, 30, 40, 50, 60, 100], learning_rate_schedule='cyclic', cycle_steps=40, initial_lr_factor=0.2
    )
    np.testing.assert_allclose(rates, [0.02, 0.06, 0.1, 0.06, 0.02, 0.06, 0.1, 0.1], rtol=1e-5)


def test_one_cycle_rises_for_its_share_and_falls_to_zero(session):
    rates = table(
        session, [0, 125, 250, 625, 1000, 2000], learning_rate_schedule='one_cycle', warmup_fraction=0.25, initial_lr_factor=0.2
    )
    np.testing.assert_allclose(rates, [0.02, 0.06, 0.1, 0.05, 0, 0], atol=1e-7)


@pytest.mark.parametrize('share, expected', [(0.0, [0.02, 0.1, 0]), (1.0, [0.02, 0.02, 0.1])])
def test_one_cycle_may_only_fall_or_only_rise(session, share, expected):
    rates = table(session, [0, 1, 1000], learning_rate_schedule='one_cycle', warmup_fraction=share, initial_lr_factor=0.2)
    np.testing.assert_allclose(rates, expected, atol=1e-6)


def test_every_learning_rate_schedule_has_its_table():
    assert set(learning_rate.RATE_SCHEDULES) == {'constant', 'exponential', 'piecewise', 'cosine', 'cyclic', 'one_cycle'}


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'learning_rate_schedule': 'linear'},
            'linear is not one of constant, exponential, piecewise, cosine, cyclic, one_cycle',
        ),
        (
            {'piecewise_boundaries': (10,)},
            r'piecewise_boundaries=\[10\] must be steps in ascending order, as many as '
            r'piecewise_factors=\[0.1, 0.01\]',
        ),
        ({'piecewise_boundaries': (20, 10)}, 'ascending order'),
        ({'warmup_fraction': 1.5}, 'warmup_fraction=1.5 and initial_lr_factor=0.04 must be at most 1'),
        ({'initial_lr_factor': 2.0}, 'initial_lr_factor=2.0 must be at most 1'),
    ],
)
def test_a_learning_rate_schedule_that_does_not_fit_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        learning_rate.check(make_params(**changes))
