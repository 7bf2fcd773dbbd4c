"""What a training step does to the weights, against NumPy."""

import time
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.training import optimizer
from hparams.defaults import DEFAULTS

RATE = 0.1


def make_params(**changes):
    return types.SimpleNamespace(
        **{
            **DEFAULTS,
            'model': 'm',
            'momentum': 0.5,
            'adam_beta1': 0.8,
            'adam_beta2': 0.9,
            'adam_epsilon': 1e-3,
            'rmsprop_decay': 0.8,
            'rmsprop_epsilon': 1e-3,
            **changes,
        }
    )


def make_step(loss, rate=RATE, **changes):
    step = tf.train.get_or_create_global_step()
    return optimizer.minimize(loss, tf.trainable_variables(), tf.constant(rate), step, make_params(**changes))


# Each rule yields the weight after each of three steps, for the loss 0.5 w^2, whose gradient is w.


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


def adamw():
    return adam()  # But for its decay, below.


def adagrad():
    w, total = 2.0, 0.1
    for _ in range(3):
        total += w * w
        w -= RATE * w / np.sqrt(total)
        yield w


def rmsprop():
    w, mean_square = 2.0, 1.0
    for _ in range(3):
        mean_square = 0.8 * mean_square + 0.2 * w * w
        w -= RATE * w / np.sqrt(mean_square + 1e-3)
        yield w


def ftrl():
    """(H. B. McMahan et al.: Ad Click Prediction: a View from the Trenches, 2013, algorithm 1, with beta = 0.)"""
    w, z, n = 2.0, 0.0, 0.1
    for _ in range(3):
        sigma = (np.sqrt(n + w * w) - np.sqrt(n)) / RATE
        z, n = z + w - sigma * w, n + w * w
        w = 0.0 if abs(z) <= 0.2 else -(z - np.sign(z) * 0.2) / (np.sqrt(n) / RATE + 2 * 0.3)
        yield w


RULES = [sgd, momentum, adam, adamw, adagrad, rmsprop, ftrl]


@pytest.mark.parametrize('rule', RULES)
def test_three_steps_follow_the_rule_of_the_optimizer(session, rule):
    w = tf.get_variable('w', initializer=2.0)
    train = make_step(0.5 * tf.square(w), optimizer=rule.__name__, ftrl_l1=0.2, ftrl_l2=0.3)
    session.run(tf.global_variables_initializer())
    for expected in rule():
        session.run(train)
        assert session.run(w) == pytest.approx(expected, rel=1e-5)
    assert session.run(tf.train.get_global_step()) == 3


def test_every_optimizer_has_its_rule():
    assert {rule.__name__ for rule in RULES} == set(optimizer.OPTIMIZERS)


def linear_loss(**constants):
    """Returns a loss of a matrix and a vector, with these gradients."""
    return tf.add_n(
        [
            tf.reduce_sum(tf.constant(gradient) * tf.get_variable(name, initializer=tf.ones_like(gradient)))
            for name, gradient in constants.items()
        ]
    )


def weights(session):
    return {v.op.name: session.run(v) for v in tf.trainable_variables()}


@pytest.mark.parametrize('name', ['sgd', 'adam'])
def test_weight_decay_goes_through_the_gradient_and_spares_vectors(session, name):
    train = make_step(linear_loss(matrix=[[3.0, -4.0]], vector=[2.0]), optimizer=name, weight_decay=0.5)
    session.run(tf.global_variables_initializer())
    session.run(train)
    if name == 'sgd':
        expected = {'matrix': [[1 - 0.1 * 3.5, 1 + 0.1 * 3.5]], 'vector': [0.8]}
    else:  # Adam's first step has nearly the length of the rate, whatever the gradient.
        root = np.sqrt(0.1)
        expected = {
            'matrix': [[1 - 0.1 * root * 3.5 / (root * 3.5 + 1e-3), 1 + 0.1 * root * 3.5 / (root * 3.5 + 1e-3)]],
            'vector': [1 - 0.1 * root * 2 / (root * 2 + 1e-3)],
        }
    for key, value in weights(session).items():
        np.testing.assert_allclose(value, expected[key], rtol=1e-5)


def test_the_decay_of_adamw_is_decoupled_and_of_the_weights_as_they_were(session):
    train = make_step(linear_loss(matrix=[[3.0, -4.0]], vector=[2.0]), optimizer='adamw', weight_decay=0.5)
    session.run(tf.global_variables_initializer())
    session.run(train)
    root = np.sqrt(0.1)
    found = weights(session)
    np.testing.assert_allclose(
        found['matrix'],
        [[1 - 0.1 * 0.5 - 0.1 * root * 3 / (root * 3 + 1e-3), 1 - 0.1 * 0.5 + 0.1 * root * 4 / (root * 4 + 1e-3)]],
        rtol=1e-5,
    )
    np.testing.assert_allclose(found['vector'], [1 - 0.1 * root * 2 / (root * 2 + 1e-3)], rtol=1e-5)


def test_adamw_decays_after_the_gradients_are_computed(session):
    w = tf.get_variable('w', initializer=[[2.0]])
    train = make_step(0.5 * tf.reduce_sum(tf.square(w)), optimizer='adamw', weight_decay=0.5)
    session.run(tf.global_variables_initializer())
    m, v, value = 0.0, 0.0, 2.0
    for t in (1, 2, 3):
        m, v = 0.8 * m + 0.2 * value, 0.9 * v + 0.1 * value**2
        value -= 0.1 * 0.5 * value + 0.1 * np.sqrt(1 - 0.9**t) / (1 - 0.8**t) * m / (np.sqrt(v) + 1e-3)
        session.run(train)
        assert session.run(w)[0, 0] == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize('limit, scale', [(2.5, 0.5), (10.0, 1.0)])
def test_gradients_are_clipped_to_a_norm_of_all_together(session, limit, scale):
    train = make_step(linear_loss(a=[[3.0]], b=[4.0]), optimizer='sgd', gradient_clip_norm=limit)
    session.run(tf.global_variables_initializer())
    session.run(train)
    found = weights(session)
    np.testing.assert_allclose([found['a'][0, 0], found['b'][0]], [1 - 0.1 * 3 * scale, 1 - 0.1 * 4 * scale], rtol=1e-6)


def test_gradients_of_several_types_are_clipped_together(session):
    a, b = tf.get_variable('a', initializer=[[1.0]]), tf.get_variable('b', initializer=tf.constant([1.0], tf.float64))
    loss = tf.reduce_sum(a * 3) + tf.cast(tf.reduce_sum(b * 4), tf.float32)
    train = make_step(loss, optimizer='sgd', gradient_clip_norm=2.5)
    session.run(tf.global_variables_initializer())
    summary = tf.Summary.FromString(session.run(tf.summary.merge_all()))
    assert [value.simple_value for value in summary.value if value.tag == 'gradient_norm'] == [5]
    session.run(train)
    found = weights(session)
    np.testing.assert_allclose([found['a'][0, 0], found['b'][0]], [1 - 0.1 * 3 / 2, 1 - 0.1 * 4 / 2], rtol=1e-6)


def test_the_norm_of_the_gradients_before_clipping_is_drawn(session):
    make_step(linear_loss(a=[[3.0]], b=[4.0]), gradient_clip_norm=1.0)
    session.run(tf.global_variables_initializer())
    summary = tf.Summary.FromString(session.run(tf.summary.merge_all()))
    assert [(value.tag, value.simple_value) for value in summary.value] == [('gradient_norm', 5)]


@pytest.mark.parametrize('name', ['sgd', 'momentum'])  # The first has dense gradients, the second one's stay sparse.
def test_the_norm_counts_a_row_that_is_used_twice_once(session, name):
    rows = tf.get_variable('rows', initializer=[[1.0], [1.0]])
    train = make_step(tf.reduce_sum(tf.gather(rows, [0, 0, 1]) * [[1.0], [2.0], [4.0]]), optimizer=name, gradient_clip_norm=2.5)
    session.run(tf.global_variables_initializer())
    summary = tf.Summary.FromString(session.run(tf.summary.merge_all()))
    assert summary.value[0].simple_value == 5  # Of 1 + 2 and 4.
    session.run(train)
    np.testing.assert_allclose(session.run(rows), [[1 - 0.1 * 1.5], [1 - 0.1 * 2]], rtol=1e-6)


def train_rows(name, count, device=None):
    """Returns the first three of `count` weights after steps whose losses are linear in some of them, and the types of ops."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        with tf.device(device):
            rows = tf.get_variable('rows', [count, 1], initializer=tf.ones_initializer())
        ids = tf.placeholder(tf.int32, [None])
        train = make_step(tf.reduce_sum(tf.gather(rows, ids)), optimizer=name)
        if not device:
            session.run(tf.global_variables_initializer())
            for used in ([0, 1, 0], [1], [0]):
                session.run(train, {ids: used})
            return session.run(rows)[:3, 0], {op.type for op in graph.get_operations()}
        return None, {op.type for op in graph.get_operations()}


@pytest.mark.parametrize('name', ['sgd', 'adam', 'adamw', 'adagrad'])
def test_embeddings_are_trained_alike_whatever_their_size(name):
    (small, small_ops), (large, large_ops) = (train_rows(name, count) for count in (3, 2**18 + 1))
    np.testing.assert_allclose(small, large, rtol=1e-6)
    assert small[0] < 1 and small[1] < 1 and small[2] == 1
    assert 'Unique' in large_ops and 'Unique' not in small_ops  # Which only sparse gradients need.


@pytest.mark.parametrize('name', ['momentum', 'rmsprop'])
def test_rows_of_an_embedding_that_are_not_used_rest(name):
    with_rest, _ = train_rows(name, 3)
    # By hand: row 0 is used twice in the first step, and once in the third one; row 1 in the first two.
    velocity_0, velocity_1 = (2.0, 2 * 0.5 + 1), (1.0, 1 * 0.5 + 1)
    mean_0, mean_1 = (0.8 + 0.2 * 4, 0.8 * (0.8 + 0.2 * 4) + 0.2), (1.0, 1.0)
    expected = {
        'momentum': [1 - RATE * sum(velocity_0), 1 - RATE * sum(velocity_1), 1],
        'rmsprop': [
            1 - RATE * sum(g / np.sqrt(mean + 1e-3) for g, mean in zip((2, 1), mean_0)),
            1 - RATE * sum(1 / np.sqrt(mean + 1e-3) for mean in mean_1),
            1,
        ],
    }
    np.testing.assert_allclose(with_rest, expected[name], rtol=1e-5)


def test_gradients_for_parameter_servers_have_only_the_rows_that_are_used():
    _, ops = train_rows('adam', 3, '/job:ps/task:0')
    assert 'Unique' in ops


X = np.random.RandomState(0).normal(size=[24, 3]).astype(np.float32)
Y = np.random.RandomState(1).normal(size=[24, 1]).astype(np.float32)


def train_on_batches(size, sparse=False, **changes):
    """Returns the weights after training on X and Y in batches of `size`, from weights that are always the same."""
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
        rows = tf.get_variable('embedding', initializer=np.eye(3, dtype=np.float32))
        shifted = x + (tf.gather(rows, tf.argmax(x, 1)) if sparse else rows[0])
        loss = tf.reduce_mean(tf.square(tf.layers.dense(shifted, 1, kernel_initializer=tf.ones_initializer()) - y))
        train = make_step(loss, **changes)
        session.run(tf.global_variables_initializer())
        for start in range(0, len(X), size):
            session.run(train, {x: X[start : start + size], y: Y[start : start + size]})
        return session.run(tf.trainable_variables())


@pytest.mark.parametrize('sparse', [False, True])
@pytest.mark.parametrize(
    'changes',
    [
        {'optimizer': 'sgd'},
        {'optimizer': 'adam', 'gradient_clip_norm': 0.5},
        {'optimizer': 'adamw', 'weight_decay': 0.1},
        {'optimizer': 'rmsprop', 'weight_decay': 0.1, 'ema_decay': 0.9},
    ],
)
def test_three_accumulated_steps_equal_one_of_three_times_the_batch(changes, sparse):
    small = train_on_batches(2, sparse, gradient_accumulation_steps=3, **changes)
    large = train_on_batches(6, sparse, **changes)
    for a, b, start in zip(small, large, (np.eye(3), np.ones([3, 1]), [0])):
        np.testing.assert_allclose(a, b, atol=1e-6)
        assert np.abs(a - start).max() > 1e-2


def test_accumulated_gradients_change_nothing_before_their_last_step(session):
    w = tf.get_variable('w', initializer=2.0)
    train = make_step(0.5 * tf.square(w), optimizer='sgd', gradient_accumulation_steps=3)
    session.run(tf.global_variables_initializer())
    found = []
    for _ in range(6):
        session.run(train)
        found.append(session.run(w))
    np.testing.assert_allclose(found, [2, 2, 1.8, 1.8, 1.8, 1.62], rtol=1e-6)


def test_a_step_that_only_accumulates_shows_its_own_learning_rate(session):
    w = tf.get_variable('w', initializer=2.0, use_resource=True)
    step = tf.train.get_or_create_global_step()
    late = tf.py_func(lambda: time.sleep(0.2), [], [])
    with tf.control_dependencies([late]):
        rate = tf.cast(step.read_value() + 1, tf.float32)
    params = make_params(optimizer='sgd', gradient_accumulation_steps=4)
    train = optimizer.minimize(tf.square(w), [w], rate, step, params)
    session.run(tf.global_variables_initializer())
    assert [session.run([rate, train])[0] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'optimizer': 'lion'}, 'lion is not one of adam, adamw, adagrad, ftrl, momentum, rmsprop, sgd'),
        ({'ema_decay': 1.0}, 'ema_decay=1.0 must be less than 1'),
        ({'adam_beta1': 1.0}, 'adam_beta1=1.0 must be less than 1'),
        (
            {'optimizer': 'ftrl', 'learning_rate_schedule': 'cosine'},
            'optimizer=ftrl needs a constant learning rate: give lear',
        ),
        ({'optimizer': 'ftrl', 'warmup_steps': 1}, 'optimizer=ftrl needs a constant learning rate'),
        ({'optimizer': 'adagrad', 'adagrad_initial_accumulator': 0.0}, 'adagrad_initial_accumulator=0.0 must be more than 0'),
    ],
)
def test_wrong_options_of_the_optimizer_are_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        optimizer.check(make_params(**changes))


@pytest.mark.parametrize('has_variable', [False, True])
def test_a_loss_without_variables_is_refused(session, has_variable):
    if has_variable:
        tf.get_variable('unused', initializer=1.0)
    with pytest.raises(UsageError, match='--model=m: its loss depends on no variable'):
        make_step(tf.constant(1.0))


def test_loss_scaling_keeps_gradients_that_float16_would_lose(session):
    w = tf.get_variable('w', initializer=2.0)
    loss = tf.cast(tf.cast(w, tf.float16), tf.float32) * 1e-8
    step = tf.train.get_or_create_global_step()
    train_ops = [
        optimizer.minimize(loss, [w], tf.constant(1e7), step, make_params(optimizer='sgd'), loss_scaling=scaling)
        for scaling in (False, True)
    ]
    for train_op, expected in zip(train_ops, (2.0, 1.9)):
        session.run(tf.global_variables_initializer())
        session.run(train_op)
        assert session.run(w) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize('accumulation', [1, 2])
def test_loss_scaling_passes_over_gradients_that_are_not_finite(session, accumulation):
    w = tf.get_variable('w', initializer=2.0)
    slope = tf.placeholder(tf.float32, [])
    step = tf.train.get_or_create_global_step()
    train_op = optimizer.minimize(
        w * slope,
        [w],
        tf.constant(RATE),
        step,
        make_params(optimizer='momentum', gradient_accumulation_steps=accumulation),
        loss_scaling=True,
    )
    (scale,) = (variable for variable in tf.global_variables() if variable.op.name == 'current_loss_scale')
    session.run(tf.global_variables_initializer())
    # The second slope, times the scale, is no float32. By hand: w = 2 - 0.1 * 3, then velocity 0.5 * 3 + 5.
    for value, weight, factor in ((3.0, 1.7, 2**15), (1e36, 1.7, 2**14), (5.0, 1.05, 2**14)):
        for _ in range(accumulation):
            session.run(train_op, {slope: value})
        assert session.run(w) == pytest.approx(weight, rel=1e-6) and session.run(scale) == factor
    assert session.run(step) == 3 * accumulation


@pytest.mark.parametrize('accumulation', [1, 2])
def test_weights_do_not_decay_at_a_step_that_loss_scaling_passes_over(session, accumulation):
    w = tf.get_variable('w', initializer=[[2.0]])
    slope = tf.placeholder(tf.float32, [])
    step = tf.train.get_or_create_global_step()
    train_op = optimizer.minimize(
        tf.reduce_sum(w) * slope,
        [w],
        tf.constant(RATE),
        step,
        make_params(optimizer='adamw', weight_decay=0.5, gradient_accumulation_steps=accumulation),
        loss_scaling=True,
    )
    session.run(tf.global_variables_initializer())
    # The first slope, times the scale, is no float32. Adam's first step is the rate, whatever the gradient.
    for value, weight in ((1e36, 2.0), (1e5, 2.0 * (1 - 0.1 * 0.5) - 0.1)):
        for _ in range(accumulation):
            session.run(train_op, {slope: value})
        assert session.run(w)[0, 0] == pytest.approx(weight, rel=1e-4)
