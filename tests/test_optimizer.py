"""Each optimizer against three steps worked out in NumPy, with the gradient of 0.5 w^2, which is w."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common import optimizer
from common.errors import UsageError

PARAMS = types.SimpleNamespace(momentum=0.5, adam_beta1=0.8, adam_beta2=0.9, adam_epsilon=1e-3)
RATE = 0.1


def sgd():
    w = 2.0
    for _ in range(3):
        w -= RATE * w
        yield w


def momentum():
    w, velocity = 2.0, 0.0
    for _ in range(3):
        velocity = 0.5 * velocity + w
        w -= RATE * velocity
        yield w


def adam():
    w, m, v = 2.0, 0.0, 0.0
    for t in (1, 2, 3):
        m = 0.8 * m + 0.2 * w
        v = 0.9 * v + 0.1 * w * w
        # The form of the paper's section 2, whose epsilon TensorFlow takes.
        w -= RATE * np.sqrt(1 - 0.9**t) / (1 - 0.8**t) * m / (np.sqrt(v) + 1e-3)
        yield w


@pytest.mark.parametrize('rule', [sgd, momentum, adam])
def test_three_steps_follow_the_rule(session, rule):
    params = types.SimpleNamespace(optimizer=rule.__name__, **vars(PARAMS))
    w = tf.get_variable('w', initializer=2.0)
    train = optimizer.make_optimizer(tf.constant(RATE), params).minimize(0.5 * tf.square(w))
    session.run(tf.global_variables_initializer())
    for expected in rule():
        session.run(train)
        assert session.run(w) == pytest.approx(expected, rel=1e-5)


def test_the_rules_above_cover_every_optimizer():
    assert set(optimizer.OPTIMIZERS) == {'sgd', 'momentum', 'adam'}


def test_an_unknown_optimizer_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match='lion is not one of adam, momentum, sgd'):
        optimizer.check(types.SimpleNamespace(optimizer='lion'))
