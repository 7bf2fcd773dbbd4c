"""Several losses, each with its own variables and optimizer, compared with calculations by hand."""

import math
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import graphs
from estimator_trainer.common.cluster.training_task import Means
from estimator_trainer.common.ops.layers import dropout
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.plugins.loss_contract import loss_steps, loss_variables
from estimator_trainer.common.training import saving
from estimator_trainer.common.training.minimize import Objective, minimize
from tests.linear import check_loop, make_estimator, train_in_session
from tests.shared import refused
from tests.training.test_optimizer import RATE, make_params

TURNS = {'second': 1, 'first': 2}  # Their order is that of the losses.
PARAMS = types.SimpleNamespace(model='m')


def game(features, labels, mode, params):
    """Two losses that each depend on both weights: a^2 b^2 / 2, with a penalty of decay a^2, and b^2 - a b."""
    a = tf.get_variable('a/w', initializer=[[1.0]], regularizer=lambda a: params.decay * tf.reduce_sum(a**2))[0, 0]
    b = tf.get_variable('b/w', initializer=[[2.0]])[0, 0]
    one = tf.ones_like(labels['y'])
    return {'y': one}, {'first': (a * b) ** 2 / 2 * one, 'second': (b * b - a * b) * one}


def make_model(steps=None, model=game, **functions):
    functions |= {'variables': lambda params: {'first': '^a/', 'second': ['^b', 'b/w$']}}
    functions |= {'loss_steps': lambda params: steps} if steps else {}
    return types.SimpleNamespace(model=model, **functions)


def by_hand(steps, turns=False, clip=np.inf, decay=0.0, penalty=0.0, factors=(1, 1), count=1, average=0.0):
    w, total = np.array([1.0, 2.0]), 0.0
    averages = w
    for step in range(steps):
        a, b = w
        total = total + np.array([a * b * b + 2 * penalty * a, 2 * b - a])
        if (step + 1) % count:
            continue
        mean, total = total / count, 0.0
        is_first = step // count % 3 < 2
        is_due = np.array([is_first, not is_first]) if turns else np.ones(2)
        change = mean / np.maximum(1, np.abs(mean) / clip) + decay * w
        w = w - 0.1 * np.array(factors) * change * is_due
        update = step // count
        average_decay = min(average, (1 + update) / (10 + update))
        averages = average_decay * averages + (1 - average_decay) * w
    return w, averages


@pytest.mark.parametrize('turns', [False, True])
@pytest.mark.parametrize(
    'text, settings',
    [
        ('', {}),
        (',gradient_clip_norm=1.5,weight_decay=0.3,ema_decay=0.25', {'clip': 1.5, 'decay': 0.3, 'average': 0.25}),
        (',decay=0.5,learning_rate_factors=[b:0.5]', {'penalty': 0.5, 'factors': (1, 0.5)}),
        (',gradient_accumulation_steps=3,ema_decay=0.9', {'count': 3, 'average': 0.9}),
    ],
)
def test_each_loss_changes_its_variables_together_or_in_turn(text, settings, turns):
    steps = 5 * settings.get('count', 1)
    found, curves = train_in_session(make_estimator('/nowhere', 2, make_model(turns and TURNS), text), steps)
    expected, averages = by_hand(steps, turns, **settings)
    assert [found['a/w'].item(), found['b/w'].item()] == pytest.approx(expected, rel=1e-5)
    if 'average' in settings:
        assert [found[f'{name}/w/ExponentialMovingAverage'].item() for name in 'ab'] == pytest.approx(averages, rel=1e-5)
    # Before the first step. The penalty's gradient is that of the first loss.
    norms = [curves[0][f'gradient_norm/{name}'] for name in ('first', 'second')]
    assert norms == pytest.approx([4 + 2 * settings.get('penalty', 0), 3])


def test_each_loss_has_an_optimizer_that_counts_its_own_updates(tmp_path):
    def train(text=''):
        return train_in_session(make_estimator(tmp_path, 0, make_model(TURNS), text, optimizer='adam'), 4)[0]

    found = train(',learning_rate_factors=[^b:0.5]')
    powers = {name: value.item() for name, value in found.items() if 'beta1_power' in name}
    expected = {'optimizer/first/beta1_power': 0.9**4, 'optimizer/second/beta1_power': 0.9**2}  # After one and before the next.
    assert powers == pytest.approx(expected)
    assert found['b/w'].item() == pytest.approx(2 - 0.05, rel=1e-4)  # Adam's first change is the rate.
    assert train()['b/w'].item() == pytest.approx(2 - 0.1, rel=1e-4)


def test_a_model_with_its_own_optimizer_has_one_per_loss(tmp_path):
    made = []

    def optimizer(rate, params):
        made.append(tf.train.MomentumOptimizer(rate, 0.5))
        return made[-1]

    train_in_session(make_estimator(tmp_path, 0, make_model(optimizer=optimizer)), 1)
    assert len({*made}) == len(made) == 2


def test_frozen_variables_rest_and_the_turns_of_the_others_stay(tmp_path):
    found, _ = train_in_session(make_estimator(tmp_path, 0, make_model(TURNS), options=Options(freeze='^a')), 2)
    assert [found['a/w'].item(), found['b/w'].item()] == [1, 2]
    found, _ = train_in_session(make_estimator(tmp_path, 0, make_model(TURNS), options=Options(freeze='^a')), 3)
    assert [found['a/w'].item(), found['b/w'].item()] == [1, pytest.approx(2 - 0.1 * 3)]


def noisy(features, labels, mode, params):
    predictions, losses = game(features, labels, mode, params)
    noise = dropout(labels['y'], 0.5, is_training=True)
    return predictions, {name: loss * (1 + noise) for name, loss in losses.items()}


def test_losses_in_turn_have_the_same_bits_in_a_loop_and_when_resumed(tmp_path):
    text = ',weight_decay=0.01,ema_decay=0.9,gradient_accumulation_steps=2,gradient_clip_norm=0.5'
    before, after = check_loop(make_estimator(tmp_path, 2, make_model(TURNS, noisy), text, optimizer='adamw'))
    assert (after['a/w'] != before['a/w']).all() and after['b/w'] != [[2.0]]


def make_step(losses, loss_scaling=False, means=None, **changes):
    """Returns the train_op of losses {name: scalar}, each over the variable of its name."""
    variables = {variable.op.name: variable for variable in tf.trainable_variables()}
    objectives = [Objective(loss, [variables[name]], name) for name, loss in losses.items()]
    step = tf.train.get_or_create_global_step()
    return minimize(objectives, tf.convert_to_tensor(RATE), step, make_params(optimizer='sgd', **changes), loss_scaling, means)


def make_weights():
    return [tf.get_variable(name, initializer=2.0) for name in 'ab']


def test_no_loss_is_applied_before_the_gradients_of_all_are_computed(session):
    a, b = make_weights()
    make_step({'a': a * b, 'b': tf.square(a) * b})
    # Checks the order in the graph, as runs rarely expose another one.
    updates = [op for op in session.graph.get_operations() if op.type == 'ResourceApplyGradientDescent']
    gradients = {op.inputs[2].op for op in updates}
    assert len(gradients) == 2 and all(gradients <= graphs.ancestors([op]) for op in updates)


def test_tasks_of_a_cluster_average_the_gradients_of_all_losses_at_once(session):
    a, b = make_weights()
    calls = []

    class Factors(Means):
        def __call__(self, gradients, merge):
            calls.append(gradients)
            return [gradient * factor for gradient, factor in zip(gradients, (10.0, 100.0), strict=True)]

    train = make_step({'a': 3 * a, 'b': 5 * b}, means=Factors(a))
    session.run(tf.global_variables_initializer())
    session.run(train)
    assert session.run([a, b]) == pytest.approx([2 - RATE * 30, 2 - RATE * 500]) and len(calls) == 1


@pytest.mark.parametrize('count', [1, 2])
def test_a_gradient_that_is_not_finite_skips_the_update_of_its_loss_only(session, count):
    a, b = make_weights()
    train = make_step({'a': a * 1e36, 'b': b * 3}, loss_scaling=True, gradient_accumulation_steps=count)
    scales = {name: f'optimizer/{name}/current_loss_scale' for name in 'ab'}
    known = {variable.op.name: variable for variable in tf.global_variables()}
    session.run(tf.global_variables_initializer())
    for _ in range(count):
        session.run(train)
    assert session.run([a, b]) == pytest.approx([2, 2 - RATE * 3])
    assert session.run([known[scales[name]] for name in 'ab']) == [2**14, 2**15]


@pytest.mark.parametrize('has_scaling', [True, False])
def test_sums_of_gradients_that_overflow_may_be_saved_only_if_the_update_skips_them(session, has_scaling):
    weights = make_weights()
    train = make_step({'a': weights[0] * math.inf}, loss_scaling=has_scaling, gradient_accumulation_steps=2)
    session.run(tf.global_variables_initializer())
    session.run(train)
    found = session.run(saving.are_finite())
    assert found['a'] and found.get('a/accumulated_gradient', 'left out') == ('left out' if has_scaling else False)


def test_what_variables_must_not_return_is_named(session):
    variables = [tf.get_variable(name, []) for name in ('a/w', 'b/w', 'c')]
    good = {'x': '^a', 'y': ['b', 'c']}

    def check(entries, losses=('x', 'y')):
        return loss_variables(types.SimpleNamespace(variables=lambda params: entries), losses, variables, PARAMS)

    assert check(good) == {'x': variables[:1], 'y': variables[1:]}
    for entries, message in (
        ([], ' must return its entries as a dict, not a list of 0'),
        ({**good, 'xs': 'a'}, ' names a loss xs, but model() returns x, y, did you mean x?'),
        ({'x': '.'}, ' has no entry for the loss y of model()'),
        ({**good, 'x': 3}, ': x must be a regular expression, or a list of such, not 3'),
        ({**good, 'x': []}, ': x must be a regular expression, or a list of such, not []'),
        ({**good, 'x': ['a', 3]}, ": x must be a regular expression, or a list of such, not ['a', 3]"),
        ({**good, 'x': '(a'}, ': (a is not a regular expression: missing ), unterminated subpattern at position 0'),
        ({**good, 'x': ['a', 'A']}, ': A, of the loss x, matches none of the trainable variables: a/w, b/w, c'),
        ({**good, 'y': 'b'}, ': no loss is for the variable c: it must be that of one loss'),
        ({**good, 'x': 'w'}, ': the losses x, y are all for the variable b/w: it must be that of one loss'),
    ):
        assert refused(check, entries) == f'--model=m: variables(){message}'
    message = '--model=m: variables() needs losses with names: model() must return them as a dict'
    assert refused(check, good, ['']) == message


def test_what_loss_steps_must_not_return_is_named():
    def check(steps):
        return loss_steps(types.SimpleNamespace(loss_steps=lambda params: steps), ['x', 'y'], PARAMS)

    assert list(check({'y': 5, 'x': 1}).items()) == [('x', 1), ('y', 5)]
    for steps, message in (
        ([], ' must return its entries as a dict, not a list of 0'),
        ({'x': 1}, ' has no entry for the loss y of model()'),
        ({'x': 0, 'y': 1}, ': x must be an integer of at least 1, not 0'),
        ({'x': True, 'y': 1}, ': x must be an integer of at least 1, not True'),
    ):
        assert refused(check, steps) == f'--model=m: loss_steps(){message}'


def test_a_loss_that_depends_on_none_of_its_variables_is_refused():
    def make():
        a, _ = make_weights()
        make_step({'a': tf.square(a), 'b': tf.square(a)})

    assert refused(make) == '--model=m: its loss b depends on none of its variables: b'
