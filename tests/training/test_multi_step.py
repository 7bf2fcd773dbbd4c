"""Training steps in loops: the same as one by one, in fewer calls."""

import re
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops.step_seed import step_seed
from common.training.multi_step import MultiStepHook, repeat_step
from tests.linear import scalars

pytestmark = pytest.mark.slow

POLYNOMIAL = ('--model=polynomial', '--dataset=polynomial', '--eval_steps=1')
EVERYTHING = (
    '--num_towers=2',
    '--eval_steps=1',
    '--hparams=filters=[4,8],dense_units=16,batch_size=32,batch_norm=true,optimizer=adamw,weight_decay=0.01,'
    'ema_decay=0.9,gradient_accumulation_steps=3,gradient_clip_norm=1.0',
)
SEQ2SEQ = ('--model=seq2seq', '--dataset=addition', '--schedule=train', '--hparams=rnn_units=8,batch_size=8,num_examples=200')


def test_a_loop_repeats_the_step_with_a_new_batch_each_time(session):
    batches = tf.data.make_initializable_iterator(tf.data.Dataset.range(1, 100))
    total = tf.get_variable('total', initializer=np.int64(0))
    count = tf.get_variable('count', initializer=0)
    with tf.control_dependencies([tf.assign(total, total * 10 + batches.get_next())]):
        step = tf.assign_add(count, 1).op
    times = tf.placeholder(tf.int32, [])
    loop = repeat_step(step, times)
    session.run([tf.global_variables_initializer(), batches.initializer])
    session.run(loop, {times: 3})
    assert session.run([total, count]) == [123, 3]
    session.run(step)
    session.run(loop, {times: 0})
    session.run(loop, {times: 2})
    assert session.run([total, count]) == [123456, 6]


def test_a_loop_refuses_a_variable_that_is_no_resource(session):
    old = tf.get_variable('old', [], use_resource=False)
    with pytest.raises(UsageError, match='--steps_per_loop: old must be a resource variable'):
        repeat_step(tf.assign_add(old, 1.0).op, tf.constant(1))


def uniform():
    return tf.random.uniform([])


@tf.function
def in_a_function():
    return tf.function(uniform)()


@pytest.mark.parametrize(
    'draw, op',
    [
        (uniform, 'RandomUniform'),
        (lambda: tf.reduce_sum(tf.nn.dropout(tf.ones([4]), rate=0.5)), 'RandomUniform'),
        (lambda: tf.reduce_sum(tf.keras.layers.Dropout(0.5)(tf.ones([4]), training=True)), 'RandomUniform'),
        (lambda: tf.random.shuffle(tf.range(3.0))[0], 'RandomShuffle'),
        (lambda: tf.cond(tf.train.get_global_step() > 0, uniform, lambda: 0.0), 'RandomUniform'),
        (lambda: tf.while_loop(lambda i: i < 3, lambda i: i + uniform(), [0.0]), 'RandomUniform'),
        (in_a_function, 'RandomUniform'),
    ],
)
def test_a_loop_refuses_a_random_op_with_a_state_of_its_own_by_its_name(session, draw, op):
    tf.set_random_seed(1)
    tf.train.create_global_step()
    total = tf.get_variable('total', initializer=0.0)
    with pytest.raises(UsageError, match=rf'--steps_per_loop: \S+ \({op}\) is stateful'):
        repeat_step(tf.assign_add(total, draw()).op, tf.constant(1))


@pytest.mark.parametrize(
    'draw',
    [
        lambda: tf.random.stateless_uniform([], step_seed()),
        lambda: tf.random.Generator.from_seed(1).uniform([]),
        lambda: tf.data.make_one_shot_iterator(tf.data.Dataset.range(9).map(lambda _: uniform())).get_next(),
    ],
)
def test_numbers_that_a_loop_draws_are_those_of_single_steps(session, draw):
    tf.set_random_seed(1)
    step = tf.train.create_global_step()
    drawn = draw()
    total = tf.get_variable('total', initializer=0.0)
    with tf.control_dependencies([tf.assign(total, 10 * total + drawn)]):
        train_op = tf.assign_add(step, 1).op
    loop = repeat_step(train_op, tf.constant(3))
    found = []
    for ops in ([train_op] * 3, [loop]):
        with tf.Session() as fresh:
            fresh.run(tf.global_variables_initializer())
            for op in ops:
                fresh.run(op)
            found.append(fresh.run(total))
    assert found[0] == found[1] != 0


class Watch(tf.train.SessionRunHook):
    """Notes after which steps the hooks are called."""

    def __init__(self):
        self.steps = []

    def after_run(self, run_context, run_values):
        self.steps.append(int(run_context.session.run(tf.train.get_global_step())))


def seen(start, end, *args):
    """Returns the steps that the hooks see of a training from one step to another."""
    watch = Watch()
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1).op
        scaffold = tf.train.Scaffold(init_op=tf.assign(step, start))
        hooks = [tf.train.StopAtStepHook(last_step=end), watch, MultiStepHook(count, *args)]
        with tf.train.SingularMonitoredSession(hooks, scaffold=scaffold) as session:
            while not session.should_stop():
                session.run(count)
    return watch.steps


def test_the_hooks_see_the_steps_at_which_there_is_something_to_do():
    # Summaries are of the first step of each ten, checkpoints of the multiples of 8 and 20.
    assert seen(0, 33, 100, 10, [8, 20], [33]) == [1, 8, 11, 16, 20, 21, 24, 31, 32, 33]
    assert seen(5, 30, 100, 10, [8, 20], [17, 30]) == [6, 8, 16, 17, 20, 24, 26, 30]


def test_the_hooks_see_one_step_in_so_many_at_least():
    assert seen(0, 25, 4, 1000, [10], [25]) == [1, 5, 9, 10, 14, 18, 20, 24, 25]


def losses(log):
    return re.findall(r'loss = \S+, step = \d+', log)


@pytest.mark.parametrize('flags', [POLYNOMIAL, EVERYTHING, SEQ2SEQ], ids=['polynomial', 'everything', 'seq2seq'])
def test_loops_change_nothing_but_the_speed(run, tmp_path, flags):
    found = []
    for steps in (1, 7):
        output = tmp_path / str(steps)
        code, result, log = run(
            *flags,
            f'--steps_per_loop={steps}',
            '--train_steps=26',
            '--save_checkpoints_steps=10',
            '--save_summary_steps=9',
            '--eval_every_steps=13',
            output_dir=output,
        )
        assert code == 0
        weights = {}
        for step in (10, 13, 20, 26):
            reader = tf.train.load_checkpoint(str(output / f'model.ckpt-{step}'))
            weights.update({(step, name): reader.get_tensor(name).tobytes() for name in reader.get_variable_to_shape_map()})
        curves = scalars(output)
        speeds = {name: sorted(curves.pop(name)) for name in ('global_step/sec', 'examples/sec', 'input/wait_fraction')}
        found.append((result, losses(log), weights, curves, speeds))
    assert len(found[0][1]) == 3 and sorted(found[0][3]['loss']) == [1, 10, 19]
    for one_by_one, in_loops in zip(*found):
        assert one_by_one == in_loops


def test_a_signal_ends_the_training_after_the_loop_and_the_next_run_resumes(start, run, tmp_path):
    flags = (
        *POLYNOMIAL,
        '--steps_per_loop=100',
        '--schedule=train',
        '--save_checkpoints_steps=2000000',
        '--hparams=learning_rate_schedule=constant',
    )
    process = start(*flags, '--train_steps=1000000')
    for line in process.stderr:
        if 'step = 500 ' in line:
            break
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    reached = int(tf.train.latest_checkpoint(str(tmp_path / 'output')).rpartition('-')[2])
    assert 500 < reached < 1000000
    assert run(*flags, f'--train_steps={reached + 150}')[0] == 0
    assert run(*flags, f'--train_steps={reached + 150}', output_dir=tmp_path / 'whole')[0] == 0
    found = [tf.train.load_checkpoint(str(tmp_path / name)).get_tensor('w').tobytes() for name in ('output', 'whole')]
    assert found[0] == found[1]
