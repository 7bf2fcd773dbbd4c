"""Training steps in loops, equal to single steps in fewer calls; and random ops, whose state loops and restarts lose."""

import functools

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.ops.random import step_seed
from estimator_trainer.common.training.multi_step import MultiStepHook, repeat_step
from estimator_trainer.common.training.reproducibility import warn_of_random_ops
from tests.linear import check_loop, deep, make_estimator

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
        repeat_step(tf.assign_add(total, number).op, tf.constant(1))
    problem = 'old must be a resource variable' if draw is old_variable else r'\S+ \(RandomUniform\) is stateful'
    with pytest.raises(UsageError, match=f'--steps_per_loop: {problem}'):
        repeat_step(tf.assign_add(total, draw()).op, tf.constant(1))


def test_a_loop_has_the_bits_of_single_steps(tmp_path):
    text = ',weight_decay=0.01,ema_decay=0.9,gradient_accumulation_steps=3,gradient_clip_norm=0.1'
    before, after = check_loop(make_estimator(tmp_path, 2, deep, text, optimizer='adamw'))
    assert after['global_step'] == 7 and (after['dense/kernel'] != before['dense/kernel']).all()


@pytest.mark.parametrize(
    'start, end, arguments, expected',
    [
        # Summaries are of the first step of each ten, checkpoints of the multiples of 8 and 20.
        (0, 33, (100, 10, [8, 20], [33]), [1, 8, 11, 16, 20, 21, 24, 31, 32, 33]),
        (5, 30, (100, 10, [8, 20], [17, 30]), [6, 8, 16, 17, 20, 24, 26, 30]),
        (0, 25, (4, 1000, [10], [25]), [1, 5, 9, 10, 14, 18, 20, 24, 25]),
        (0, 3, (1, 1000, [10], [3]), [1, 2, 3]),
    ],
)
def test_the_hooks_see_the_steps_with_something_to_do_and_one_in_so_many(start, end, arguments, expected):
    seen = []
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1).op
        scaffold = tf.train.Scaffold(init_op=tf.assign(step, start))
        watch = tf.train.SessionRunHook()
        watch.after_run = lambda context, values: seen.append(context.session.run(step))
        hooks = [tf.train.StopAtStepHook(last_step=end), watch, MultiStepHook(count, *arguments)]
        with tf.train.SingularMonitoredSession(hooks, scaffold=scaffold) as session:
            while not session.should_stop():
                session.run(count)
    assert seen == expected


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
