"""Learning rates and weight updates, compared with NumPy and hand calculations."""

import functools
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.training import learning_rate, optimizer
from estimator_trainer.common.training.minimize import Objective, minimize
from estimator_trainer.hparams.defaults import DEFAULTS
from tests.shared import refused

RATE = 0.1
SETTINGS = {'model': 'm', 'momentum': 0.5, 'adam_beta1': 0.8, 'adam_beta2': 0.9, 'adam_epsilon': 1e-3}
SETTINGS |= {'rmsprop_decay': 0.8, 'rmsprop_epsilon': 1e-3, 'ftrl_l1': 0.2, 'ftrl_l2': 0.3}
# Of a run of 1000 steps.
RATES = {'learning_rate': 0.1, 'decay_steps': 100, 'decay_rate': 0.5, 'cycle_steps': 40, 'initial_lr_factor': 0.2}
TABLES = [
    # Schedule, settings, {step: rate}.
    ('constant', {}, {0: 0.1, 5000: 0.1}),
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


def make_params(**changes):
    return types.SimpleNamespace(**{**DEFAULTS, **SETTINGS, **changes})


def make_step(loss, rate=RATE, loss_scaling=False, **changes):
    step, rate = tf.train.get_or_create_global_step(), tf.convert_to_tensor(rate)
    return minimize([Objective(loss, tf.trainable_variables())], rate, step, make_params(**changes), loss_scaling)


def run_step(session, train):
    """Returns {name: flat list} of the weights."""
    session.run(tf.global_variables_initializer())
    session.run(train)
    return {v.op.name: np.ravel(session.run(v)) for v in tf.trainable_variables()}


@pytest.mark.parametrize('schedule, changes, table', TABLES)
def test_a_schedule_has_the_rates_of_its_table(session, schedule, changes, table):
    step = tf.placeholder(tf.int64, [])
    rate = learning_rate.learning_rate(step, 1000, make_params(learning_rate_schedule=schedule, **RATES, **changes))
    assert rate.dtype == tf.float32 and set(learning_rate.RATE_SCHEDULES) == {name for name, _, _ in TABLES}
    found = [session.run(rate, {step: value}) for value in table]
    np.testing.assert_allclose(found, [*table.values()], rtol=1e-5, atol=3e-7)


# A rule returns the weight and the state after step t for the loss 0.5 w^2, whose gradient is w.
def sgd(t, w):
    return (w - RATE * w,)


def momentum(t, w, velocity=0.0):
    velocity = 0.5 * velocity + w
    return w - RATE * velocity, velocity


def adam(t, w, m=0.0, v=0.0, decay=0.0):
    m, v = 0.8 * m + 0.2 * w, 0.9 * v + 0.1 * w * w
    # The form of the paper's section 2, whose epsilon TensorFlow takes.
    step = RATE * np.sqrt(1 - 0.9**t) / (1 - 0.8**t) * m / (np.sqrt(v) + 1e-3)
    return w - RATE * decay * w - step, m, v


def adagrad(t, w, total=0.1):
    return w - RATE * w / np.sqrt(total + w * w), total + w * w


def rmsprop(t, w, mean_square=1.0):
    mean_square = 0.8 * mean_square + 0.2 * w * w
    return w - RATE * w / np.sqrt(mean_square + 1e-3), mean_square


def ftrl(t, w, z=0.0, n=0.1):
    """(H. B. McMahan et al.: Ad Click Prediction: a View from the Trenches, 2013, algorithm 1, with beta = 0.)"""
    sigma = (np.sqrt(n + w * w) - np.sqrt(n)) / RATE
    z, n = z + w - sigma * w, n + w * w
    return 0.0 if abs(z) <= 0.2 else -(z - np.sign(z) * 0.2) / (np.sqrt(n) / RATE + 2 * 0.3), z, n


RULES = {rule.__name__: rule for rule in (sgd, momentum, adam, adagrad, rmsprop, ftrl)}
RULES['adamw'] = functools.partial(adam, decay=0.5)


@pytest.mark.parametrize('name', optimizer.OPTIMIZERS)
def test_three_steps_follow_the_rule_of_the_optimizer(session, name):
    w, state = tf.get_variable('w', initializer=[[2.0]]), (2.0,)
    decay = 0.5 if name == 'adamw' else 0.0
    train = make_step(0.5 * tf.reduce_sum(tf.square(w)), optimizer=name, weight_decay=decay)
    session.run(tf.global_variables_initializer())
    for t in (1, 2, 3):
        session.run(train)
        state = RULES[name](t, *state)
        assert session.run(w)[0, 0] == pytest.approx(state[0], rel=1e-5)
    assert session.run(tf.train.get_global_step()) == 3


def linear_loss(**gradients):
    products = [gradient * tf.get_variable(name, initializer=tf.ones_like(gradient)) for name, gradient in gradients.items()]
    return tf.add_n([tf.cast(tf.reduce_sum(product), tf.float32) for product in products])


@pytest.mark.parametrize('name, slopes, factor', [('sgd', [3.5, -3.5], 1), ('adam', [3.5, -3.5], 1), ('adamw', [3, -4], 0.95)])
def test_weight_decay_goes_through_the_gradient_but_for_adamw_and_spares_vectors(session, name, slopes, factor):
    found = run_step(session, make_step(linear_loss(matrix=[[3.0, -4.0]], vector=[2.0]), optimizer=name, weight_decay=0.5))
    rule = sgd if name == 'sgd' else adam
    for weights, weight, slope in ((found['matrix'], factor, np.array(slopes)), (found['vector'], 1, 2.0)):
        np.testing.assert_allclose(weights, weight + rule(1, slope)[0] - slope, rtol=1e-5)


@pytest.mark.parametrize('dtype, limit, scale', [(np.float32, 2.5, 0.5), (np.float64, 2.5, 0.5), (np.float64, 10.0, 1.0)])
def test_gradients_of_any_types_are_clipped_to_a_norm_of_all_which_is_drawn(session, dtype, limit, scale):
    loss = linear_loss(a=np.float32([[3]]), b=dtype([4]))
    found = run_step(session, make_step(loss, optimizer='sgd', gradient_clip_norm=limit))
    np.testing.assert_allclose([*found['a'], *found['b']], [1 - 0.3 * scale, 1 - 0.4 * scale], rtol=1e-6)
    summary = tf.Summary.FromString(session.run(tf.summary.merge_all()))
    assert [(value.tag, value.simple_value) for value in summary.value] == [('gradient_norm', 5)]


@pytest.mark.parametrize('name', ['sgd', 'momentum'])  # Whose gradients are made dense, and stay sparse.
def test_the_norm_counts_a_row_that_is_used_twice_once(session, name):
    rows = tf.get_variable('rows', initializer=[[1.0], [1.0]])
    train = make_step(tf.reduce_sum(tf.gather(rows, [0, 0, 1]) * [[1.0], [2.0], [4.0]]), optimizer=name, gradient_clip_norm=2.5)
    np.testing.assert_allclose(run_step(session, train)['rows'], [1 - 0.1 * 1.5, 1 - 0.1 * 2], rtol=1e-6)
    assert tf.Summary.FromString(session.run(tf.summary.merge_all())).value[0].simple_value == 5  # Of 1 + 2 and 4.


def train_rows(name, count, device=None, **changes):
    """Returns the first three of `count` weights after steps whose losses are linear in some of them, and the types of ops."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        with tf.device(device):
            rows = tf.get_variable('rows', [count, 1], initializer=tf.ones_initializer())
        ids = tf.placeholder(tf.int32, [None])
        train = make_step(tf.reduce_sum(tf.gather(rows, ids)), optimizer=name, **changes)
        ops = {op.type for op in graph.get_operations()}
        if device:
            return None, ops
        session.run(tf.global_variables_initializer())
        for used in ([0, 1, 0], [1], [0]):
            session.run(train, {ids: used})
        return session.run(rows[:3, 0]), ops


@pytest.mark.parametrize('name', ['sgd', 'adam', 'adamw', 'adagrad'])
def test_embeddings_are_trained_alike_whatever_their_size(name):
    (small, small_ops), (most, most_ops), (large, large_ops) = (train_rows(name, count) for count in (3, 2**18, 2**18 + 1))
    np.testing.assert_allclose(small, large, rtol=1e-6)
    assert small[0] < 1 and small[1] < 1 and small[2] == 1
    # Only sparse gradients need this op, as those for parameter servers are at any size.
    updates_all_rows = name.startswith('adam')
    assert ['Unique' in ops for ops in (small_ops, most_ops, large_ops)] == [False, False, not updates_all_rows]
    remote_ops = train_rows(name, 3, '/job:ps/task:0')[1]
    assert 'Unique' in remote_ops
    if updates_all_rows:  # By one op or by many.
        clipped, clipped_ops = train_rows(name, 2**18 + 1, gradient_clip_norm=1e9)
        np.testing.assert_allclose(clipped, large, rtol=1e-6)
        assert 'Unique' in clipped_ops
        assert ['ResourceApplyAdam' in ops for ops in (large_ops, clipped_ops, remote_ops)] == [True, True, False]


@pytest.mark.parametrize('name', ['momentum', 'rmsprop'])
def test_rows_of_an_embedding_that_are_not_used_rest(name):
    assert 'Unique' in train_rows(name, 3)[1]  # A dense gradient, of 0, would move them.


@pytest.mark.parametrize(
    'changes, rows',
    [
        ({'optimizer': 'adamw', 'weight_decay': 0.1}, [0, 1]),
        ({'optimizer': 'rmsprop', 'weight_decay': 0.1, 'ema_decay': 0.9, 'gradient_clip_norm': 0.5}, [1, 1]),
    ],
)
def test_three_accumulated_steps_equal_one_of_their_mean_and_each_has_its_rate(changes, rows):
    found = []
    for slopes, count in (([1, -5, 7, 4, 3, 2], 3), ([1, 3], 1)):
        with tf.Graph().as_default(), tf.Session() as session:
            slope, rate = tf.placeholder(tf.float32, []), tf.identity(RATE)
            w = tf.get_variable('w', initializer=[[1.0], [2.0]])
            loss = slope * tf.reduce_sum(tf.gather(w, rows))
            train = make_step(loss, rate, gradient_accumulation_steps=count, **changes)
            # Not only by the ops of tf.cond, which do not run in each step.
            assert rate.op in {op for tensor in train.inputs for op in tensor.op.control_inputs}
            session.run(tf.global_variables_initializer())
            found.append([session.run([train, w], {slope: value}) and session.run(w[:, 0]) for value in slopes])
    first, second = found[1]
    np.testing.assert_allclose(found[0], [[1, 2], [1, 2], first, first, first, second], rtol=1e-6)
    assert np.abs(first - [1, 2]).max() > 1e-2 and (second != first).any()


@pytest.mark.parametrize('unused', [[], ['w']])
def test_a_loss_without_variables_is_refused(unused):
    def make():
        for name in unused:
            tf.get_variable(name, initializer=1.0)
        make_step(tf.constant(1.0))

    assert refused(make) == '--model=m: its loss depends on no variable that could be trained'


@pytest.mark.parametrize('is_scaled, expected', [(False, 2.0), (True, 1.9)])
def test_loss_scaling_keeps_gradients_that_float16_would_lose(session, is_scaled, expected):
    w = tf.get_variable('w', initializer=2.0)
    loss = tf.cast(tf.cast(w, tf.float16), tf.float32) * 1e-8
    found = run_step(session, make_step(loss, 1e7, is_scaled, optimizer='sgd'))
    assert found['w'] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize('accumulation', [1, 2])
@pytest.mark.parametrize(
    'name, slopes, weights, scales',
    [
        # 1e36, times the scale, is no float32. By hand: w = 2 - 0.1 * 3, then velocity 0.5 * 3 + 5.
        ('momentum', [3.0, 1e36, 5.0], [1.7, 1.7, 1.05], [2**15, 2**14, 2**14]),
        # Nor does the weight decay then. Adam's first step is the rate, whatever the gradient.
        ('adamw', [1e36, 1e5], [2.0, 2.0 * (1 - 0.1 * 0.5) - 0.1], [2**14, 2**14]),
    ],
)
def test_loss_scaling_passes_over_gradients_that_are_not_finite(session, name, slopes, weights, scales, accumulation):
    w = tf.get_variable('w', initializer=[[2.0]])
    slope = tf.placeholder(tf.float32, [])
    decay = 0.5 if name == 'adamw' else 0.0
    changes = {'optimizer': name, 'weight_decay': decay, 'gradient_accumulation_steps': accumulation}
    train = make_step(tf.reduce_sum(w) * slope, RATE, True, **changes)
    scale = next(variable for variable in tf.global_variables() if variable.op.name == 'current_loss_scale')
    session.run(tf.global_variables_initializer())
    for value, weight, factor in zip(slopes, weights, scales, strict=True):
        for _ in range(accumulation):
            session.run(train, {slope: value})
        assert session.run(w)[0, 0] == pytest.approx(weight, rel=1e-4) and session.run(scale) == factor
    assert session.run(tf.train.get_global_step()) == len(slopes) * accumulation
