"""Schedules against tables of numbers worked out by hand."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training import learning_rate
from hparams.defaults import DEFAULTS

SETTINGS = {'learning_rate': 0.1, 'decay_steps': 100, 'decay_rate': 0.5, 'cycle_steps': 40, 'initial_lr_factor': 0.2}


def make_params(**changes):
    return types.SimpleNamespace(**{**DEFAULTS, **SETTINGS, **changes})


TABLES = [
    # Schedule, settings, {step: rate} of a training of 1000 steps.
    ('constant', {}, {0: 0.1, 1: 0.1, 999: 0.1, 5000: 0.1}),
    ('constant', {'warmup_steps': 10}, {0: 0.01, 1: 0.02, 4: 0.05, 8: 0.09, 9: 0.1, 10: 0.1, 50: 0.1}),
    ('exponential', {}, {0: 0.1, 50: 0.1 / 2**0.5, 100: 0.05, 300: 0.0125}),
    ('cosine', {}, {0: 0.1, 250: 0.0853553, 500: 0.05, 750: 0.0146447, 1000: 0, 2000: 0}),
    ('cosine', {'warmup_steps': 100}, {0: 0.001, 99: 0.1, 100: 0.1, 550: 0.05, 1000: 0}),
    ('piecewise', {'piecewise_boundaries': (30, 60), 'piecewise_factors': (0.5, 2.0)}, {29: 0.1, 30: 0.05, 59: 0.05, 60: 0.2}),
    ('piecewise', {'piecewise_boundaries': (), 'piecewise_factors': ()}, {0: 0.1, 500: 0.1}),
    ('cyclic', {}, {0: 0.02, 10: 0.06, 20: 0.1, 30: 0.06, 40: 0.02, 50: 0.06, 60: 0.1, 100: 0.1}),
    ('one_cycle', {'warmup_fraction': 0.25}, {0: 0.02, 125: 0.06, 250: 0.1, 625: 0.05, 1000: 0, 2000: 0}),
    # It may only fall, or only rise.
    ('one_cycle', {'warmup_fraction': 0.0}, {0: 0.02, 1: 0.1, 1000: 0}),
    ('one_cycle', {'warmup_fraction': 1.0}, {0: 0.02, 500: 0.06, 1000: 0.1}),
]


@pytest.mark.parametrize('schedule, changes, table', TABLES)
def test_a_schedule_has_the_rates_of_its_table(session, schedule, changes, table):
    step = tf.placeholder(tf.int64, [])
    rate = learning_rate.learning_rate(step, 1000, make_params(learning_rate_schedule=schedule, **changes))
    assert rate.dtype == tf.float32 and set(learning_rate.RATE_SCHEDULES) == {name for name, _, _ in TABLES}
    found = [session.run(rate, {step: value}) for value in table]
    np.testing.assert_allclose(found, [*table.values()], rtol=1e-5, atol=3e-7)


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'learning_rate_schedule': 'linear'},
            'learning_rate_schedule=linear is not one of constant, exponential, piecewise, ',
        ),
        ({'piecewise_boundaries': (10,)}, r'piecewise_boundaries=\[10\] must be steps .*, as many as .*=\[0.1, 0.01\]'),
        ({'piecewise_boundaries': (20, 10)}, r'piecewise_boundaries=\[20, 10\] must be steps in ascending order'),
        ({'piecewise_boundaries': (20, 20)}, r'piecewise_boundaries=\[20, 20\] must be steps in ascending order'),
        ({'warmup_fraction': 1.5}, 'warmup_fraction=1.5 and initial_lr_factor=0.2 must be at most 1'),
        ({'initial_lr_factor': 2.0}, 'warmup_fraction=.* and initial_lr_factor=2.0 must be at most 1'),
    ],
)
def test_a_learning_rate_schedule_that_does_not_fit_is_refused(changes, message):
    learning_rate.check(make_params(warmup_fraction=1.0, initial_lr_factor=1.0))
    with pytest.raises(UsageError, match=f'^{message}'):
        learning_rate.check(make_params(**changes))
