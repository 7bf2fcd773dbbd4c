"""Towers: the same numbers as without them, on their devices, with shared variables."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training import parallel
from tests.linear import CPUS
from tests.shared import refused

INPUTS = np.random.RandomState(0).normal(size=[12, 5]).astype(np.float32)
TARGETS = np.random.RandomState(1).normal(size=[12]).astype(np.float32)


def regression(x, y):
    hidden = tf.layers.dense(x, 3, activation=tf.tanh, kernel_initializer=tf.ones_initializer())
    output = tf.layers.dense(hidden, 1, kernel_initializer=tf.ones_initializer())[:, 0]
    return {'output': output}, tf.square(output - y)


def loss_and_gradients(devices, batch, static):
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={'CPU': 4})) as session:
        x = tf.placeholder(tf.float32, [batch if static else None, 5])
        y = tf.placeholder(tf.float32, [batch if static else None])
        predictions, loss = parallel.make_parallel(regression, devices, x=x, y=y)
        variables = tf.trainable_variables()
        gradients = tf.gradients(tf.reduce_mean(loss), variables)
        session.run(tf.global_variables_initializer())
        feed = {x: INPUTS[:batch], y: TARGETS[:batch]}
        return [v.name for v in variables], session.run([predictions['output'], loss, gradients], feed)


@pytest.mark.parametrize('towers, batch, static', [(2, 11, True), (4, 3, True), (4, 11, False), (4, 3, False), (2, 1, False)])
def test_towers_give_the_loss_and_gradients_of_none(towers, batch, static):
    names, expected = loss_and_gradients([], batch, static)
    tower_names, actual = loss_and_gradients(CPUS[:towers], batch, static)
    assert tower_names == names and len(names) == 4
    np.testing.assert_allclose(actual[0], 3 * np.tanh(INPUTS[:batch].sum(1)), rtol=1e-5)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), actual, expected)


@pytest.mark.parametrize('static', [True, False])
def test_convolutions_work_in_towers_without_examples(session, static):
    def convolved(images):
        net = tf.layers.conv2d(images, 4, 3, kernel_initializer=tf.ones_initializer(), padding='same')
        return tf.layers.conv2d(net, 2, 3, kernel_initializer=tf.ones_initializer(), padding='same')[:, 2, 2]

    images = tf.placeholder(tf.float32, [3 if static else None, 5, 5, 1])
    output = parallel.make_parallel(convolved, CPUS, images=images)
    session.run(tf.global_variables_initializer())
    for batch in (3,) if static else (3, 1):
        found = session.run(output, {images: np.ones([batch, 5, 5, 1])})
        np.testing.assert_array_equal(found, np.full([batch, 2], 9 * 9 * 4))


def test_shares_are_whole_and_in_order_and_structures_and_none_pass_through(session):
    batch, seen = tf.placeholder(tf.int32, [None]), []

    def tower(features, labels):
        seen.append(features['x']['deep'])
        return {'y': 2 * seen[-1]}, labels

    doubled, labels = parallel.make_parallel(tower, CPUS, features={'x': {'deep': batch}}, labels=None)
    shares, result = session.run([seen, doubled['y']], {batch: range(10)})
    assert [list(share) for share in shares] == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
    assert labels is None and list(result) == list(range(0, 20, 2))


def test_updates_and_summaries_are_those_of_one_tower_and_penalties_of_weights_count_once(session):
    def tower(x):
        tf.summary.histogram('x', x)
        w = tf.get_variable('w', initializer=3.0)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.square(w))
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.reduce_mean(x))
        return tf.layers.batch_normalization(x, training=True, momentum=0.5)

    tf.summary.scalar('before', 1.0)
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(7.0))
    parallel.make_parallel(tower, CPUS, x=tf.constant(INPUTS[:11]))
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2 and len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 2
    session.run(tf.global_variables_initializer())
    session.run(updates)
    (mean,) = tf.global_variables('batch_normalization/moving_mean')
    np.testing.assert_allclose(session.run(mean), 0.5 * INPUTS[:3].mean(0), rtol=1e-5)
    np.testing.assert_allclose(session.run(tf.losses.get_regularization_losses()), [7, 9, INPUTS[:11].mean()], rtol=1e-5)


@pytest.mark.parametrize('towers', [0, 3])
def test_variables_that_are_made_without_get_variable_are_shared(session, towers):
    def tower(x):
        with tf.name_scope('inner'):
            v = tf.Variable([[1.0], [2.0]], name='v')
        w = tf.Variable(lambda: tf.ones([2, 1]), name='v')
        return tf.matmul(x, v + w)

    with tf.name_scope('outer'):
        y = parallel.make_parallel(tower, CPUS[:towers], x=tf.constant(INPUTS[:, :2]))
    v, w = tf.trainable_variables()
    assert [v.op.name, w.op.name] == ['outer/inner/v', 'outer/v']
    session.run(tf.global_variables_initializer())
    np.testing.assert_allclose(session.run(y), INPUTS[:, :2] @ [[2], [3]], rtol=1e-5)


@pytest.mark.parametrize(
    'make_variable, name',
    [
        (lambda i: tf.get_variable(f'v{i}', []), 'v2'),
        (lambda i: [tf.Variable(1.0) for _ in range(i)][0], 'Variable'),
        (lambda i: tf.Variable(tf.ones([i])), 'Variable'),
        (lambda i: tf.Variable(np.ones([i])), 'Variable'),
        (lambda i: tf.Variable(1.0, name=f'v{i}'), 'v2'),
        (lambda i: tf.keras.layers.Dense(i).build([None, i]), 'kernel'),
    ],
)
def test_a_variable_that_only_a_later_tower_makes_is_refused(session, make_variable, name):
    calls = []

    def tower(x):
        calls.append(x)
        make_variable(len(calls))
        return x

    with pytest.raises(UsageError, match=f'tower 1 makes a variable {name} that the first tower does not make, or not in this'):
        parallel.make_parallel(tower, CPUS[:2], x=tf.ones([4]))


def test_towers_are_on_gpus_where_there_are_any_and_on_cpus_where_not(monkeypatch):
    two = ['/gpu:0', '/gpu:1']
    for gpus, num_gpus, num_towers, expected in (
        *((0, 0, 1, []), (0, 0, 3, CPUS[:1] * 3), (2, 0, 2, two), (2, 2, 2, two), (2, 1, 1, two[:1]), (2, 0, 1, [])),
        (0, 3, 1, '--num_gpus=3: this machine has 0 GPUs that TensorFlow can use; --num_towers puts towers on the CPU'),
        (2, 3, 1, '--num_gpus=3: this machine has 2 GPUs that TensorFlow can use'),
        (2, 0, 3, '--num_towers=3: this machine has 2 GPUs that TensorFlow can use'),
        (2, 2, 3, '--num_gpus=2 and --num_towers=3 disagree: set only one of them'),
    ):
        monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind, gpus=gpus: [f'{kind}:{i}' for i in range(gpus)])
        options = Options(num_gpus=num_gpus, num_towers=num_towers)
        if isinstance(expected, list):
            assert parallel.tower_devices(options) == expected
        else:
            assert refused(parallel.tower_devices, options) == expected
