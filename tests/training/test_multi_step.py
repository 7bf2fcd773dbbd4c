"""Training steps in loops, equal to single steps in fewer calls; and random ops, whose state loops and restarts lose."""

import functools
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.ops.random import step_seed
from estimator_trainer.common.training import multi_step
from estimator_trainer.common.training.multi_step import MultiStepHook, repeat_step
from estimator_trainer.common.training.reproducibility import warn_of_random_ops
from tests.linear import check_loop, deep, make_estimator
from tests.shared import failed

uniform = functools.partial(tf.random.uniform, [])
old_variable = functools.partial(tf.get_variable, 'old', [], use_resource=False)


def in_the_data(draw):
    batches = tf.data.make_initializable_iterator(tf.data.Dataset.range(9).map(lambda _: draw()))
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, batches.initializer)
    return batches.get_next()


def in_a_branch():
    return tf.cond(tf.train.get_global_step() > 0, uniform, lambda: 0.0)


@pytest.mark.parametrize('draw', [uniform, in_a_branch, lambda: tf.function(lambda: tf.function(uniform)())(), old_variable])
@pytest.mark.filterwarnings('ignore:Seed 1 from outer graph')
def test_a_loop_refuses_a_random_op_with_a_state_of_its_own_and_a_variable_that_is_no_resource(session, draw):
    tf.set_random_seed(1)
    tf.train.create_global_step()
    total = tf.get_variable('total', initializer=0.0)
    for number in (tf.random.Generator.from_seed(1).uniform([]), in_the_data(uniform)):  # They have the state elsewhere.
        repeat_step(tf.assign_add(total, number).op, tf.constant(1), number)
    problem = 'old must be a resource variable' if draw is old_variable else r'\S+ \(RandomUniform\) is stateful'
    with pytest.raises(UsageError, match=f'--steps_per_loop: {problem}'):
        number = draw()
        repeat_step(tf.assign_add(total, number).op, tf.constant(1), number)


def test_a_loop_has_the_bits_of_single_steps(tmp_path):
    text = ',weight_decay=0.01,ema_decay=0.9,gradient_accumulation_steps=3,gradient_clip_norm=0.1'
    before, after = check_loop(make_estimator(tmp_path, 2, deep, text, optimizer='adamw'))
    assert after['global_step'] == 7 and (after['dense/kernel'] != before['dense/kernel']).all()


@pytest.mark.parametrize(
    'start, end, arguments, expected',
    [
        # Summaries are of the first step of each ten, checkpoints of the multiples of 8 and 20.
        (0, 29, (100, 10, [8, 20], [29]), [1, 8, 11, 16, 20, 21, 24, 29]),
        (5, 28, (100, 10, [8, 20], [17, 28]), [6, 8, 16, 17, 20, 24, 26, 28]),
        (0, 25, (4, 1000, [10], [25]), [1, 5, 9, 10, 14, 18, 20, 24, 25]),
        (0, 3, (1, 1000, [10], [3]), [1, 2, 3]),
    ],
)
def test_the_hooks_see_the_steps_with_something_to_do_and_one_in_so_many(start, end, arguments, expected):
    assert visible_steps(start, end, *arguments) == expected


def visible_steps(start, end, *arguments):
    """Returns the steps that hooks see from one step to another; the loss of step 30 is infinite."""
    seen = []
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        loss = tf.cond(tf.equal(count, 30), lambda: np.inf, lambda: 1.0)
        train_op = tf.group(count, loss)
        scaffold = tf.train.Scaffold(init_op=tf.assign(step, start))
        watch = tf.train.SessionRunHook()
        watch.after_run = lambda context, values: seen.append(context.session.run(step))
        hooks = [tf.train.StopAtStepHook(last_step=end), watch, MultiStepHook(train_op, loss, *arguments)]
        with tf.train.SingularMonitoredSession(hooks, scaffold=scaffold) as session:
            while not session.should_stop():
                session.run(train_op)
    return seen


def test_a_loop_ends_at_the_step_whose_loss_is_not_finite():
    assert 'the loss of step 30 is inf: lower learning_rate' in failed(visible_steps, 3, 50, 40, 1000, [50], [50])


def test_loops_are_as_long_as_their_time_allows(monkeypatch):
    seconds = iter(range(1000))  # Of each look at the clock: a step alone takes 1 s, and so does a loop of any length.
    monkeypatch.setattr(multi_step, 'time', types.SimpleNamespace(perf_counter=lambda: next(seconds)))
    for limit, expected in ((0.5, [1, 2, 3, 4]), (1, [1, 2, 3, 4]), (2.5, [1, 3, 5, 7]), (10, [1, 5, 13, 25])):
        monkeypatch.setattr(multi_step, 'LOOP_SECONDS', limit)
        assert visible_steps(0, 25, 0, 1000, [1000], [25])[: len(expected)] == expected


@pytest.mark.parametrize('place, module', [('model', 'common.ops.random.step_seed'), ('input pipeline', 'example_seed')])
@pytest.mark.parametrize('seed', [None, 3])
@pytest.mark.filterwarnings('ignore:Seed 3 from outer graph')
def test_a_random_op_that_draws_other_numbers_after_a_restart_is_named_by_its_kind(session, caplog, place, module, seed):
    def draw():
        return tf.random.uniform([], name='light') + tf.random.uniform([], name='light')

    tf.set_random_seed(seed)
    tf.train.create_global_step()
    tf.get_variable('random', [3], initializer=tf.random_normal_initializer())  # Is drawn before the first step only.
    warn_of_random_ops(tf.random.stateless_uniform([], step_seed()).op)
    assert not caplog.messages
    warn_of_random_ops(tf.identity(draw() if place == 'model' else in_the_data(draw)).op)
    (found,) = caplog.messages
    where, cure = found.replace('_1', '').split(' draws other numbers after a restart: ')
    assert where == f'light/RandomUniform (RandomUniform) in the {place}'
    assert f'with a seed of estimator_trainer.{module}' in cure


def test_a_loop_returns_the_sum_and_the_highest_of_its_losses_and_where_it_was(session):
    number = tf.assign_add(tf.get_variable('v', initializer=0.0, use_resource=True), 1.0)
    loss = 2 - (number - 3) ** 2
    loop = repeat_step(tf.group(loss), tf.constant(5), loss)
    session.run(tf.global_variables_initializer())
    assert session.run(loop) == (5, -2, 8, 2, 2)
