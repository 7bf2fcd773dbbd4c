"""Moving averages of batch norm in few steps, and in many, in NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.keras.layers import collect_keras_layers
from estimator_trainer.common.ops.layers import batch_normalization
from tests.linear import check_loop, make_estimator, train_in_session

RANDOM = np.random.RandomState(3)
BATCHES = (RANDOM.normal(size=[60, 6, 2]) * [3, 0.1] + [50, -2]).astype(np.float32)
KINDS = {
    'ops': lambda x, **options: batch_normalization(x, True, **options),
    'tf.layers': lambda x, **options: tf.layers.batch_normalization(x, training=True, **options),
    'tf.keras': lambda x, **options: tf.keras.layers.BatchNormalization(**options)(x),
    'functional': lambda x, **options: functional(options)(x),
}


def functional(options):
    inputs = tf.keras.Input([2])
    return tf.keras.Model(inputs, tf.keras.layers.BatchNormalization(**options)(inputs))


def averages(batches, momentum, start):
    """Returns the expected moving mean and variance after some batches."""
    mean, variance = np.zeros(2), np.ones(2)
    for step, batch in enumerate(batches, start):
        keep = min(momentum, (1 + step) / (10 + step))
        mean = keep * mean + (1 - keep) * batch.mean(0)
        variance = keep * variance + (1 - keep) * batch.var(0)
    return mean, variance


@pytest.mark.parametrize('kind, momentum', [*((kind, 0.99) for kind in KINDS), ('tf.keras', 0.5), ('tf.layers', 0.0)])
@pytest.mark.parametrize('start', [0, 880])
def test_the_averages_of_the_first_steps_are_those_of_the_data_and_the_momentum_is_reached(session, kind, momentum, start):
    step = tf.train.create_global_step()
    x = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(BATCHES)).get_next()
    with collect_keras_layers(is_training=True):
        KINDS[kind](x, momentum=momentum)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        count = tf.assign_add(step, 1)
    session.run(tf.global_variables_initializer())
    step.load(start, session)
    for _ in BATCHES:
        session.run(count)
    values = {v.op.name.rpartition('/')[2]: session.run(v) for v in tf.global_variables()}
    assert values.keys() == {'global_step', 'gamma', 'beta', 'moving_mean', 'moving_variance'}  # None is new.
    expected = averages(BATCHES, momentum, start)
    np.testing.assert_allclose([values['moving_mean'], values['moving_variance']], expected, rtol=1e-4)
    if not start:
        np.testing.assert_allclose(expected[0], BATCHES.mean((0, 1)), rtol=0.02)


def test_a_layer_has_its_own_momentum_after_a_call_and_outside_of_training_and_without_a_step(session):
    layer = tf.keras.layers.BatchNormalization
    seen = []

    class Watched(layer):
        def call(self, inputs, training=None):
            seen.append(self.momentum)
            return super().call(inputs, training=training)

    for is_training, has_step in ((False, True), (True, True), (True, False)):
        with tf.Graph().as_default():
            if has_step:
                tf.train.create_global_step()
            with collect_keras_layers(is_training):
                norm = Watched(momentum=0.9)
                norm(tf.ones([4, 2]))
            assert norm.momentum == 0.9
    assert seen[0] == seen[2] == 0.9 and isinstance(seen[1], tf.Tensor)


def normalized(features, labels, mode, params):
    y = tf.layers.dense(batch_normalization(features['x'], mode == tf.estimator.ModeKeys.TRAIN), 1)[:, 0]
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def data(batches):
    x = BATCHES.reshape(-1, 2)
    y = (x[:, 0] - 50) / 3
    return lambda: tf.data.Dataset.from_tensor_slices(({'x': x}, {'y': y})).repeat().batch(6).take(batches)


@pytest.mark.parametrize('towers', [0, 2])
def test_towers_move_them_by_the_share_of_the_first(towers):
    found, _ = train_in_session(make_estimator('/nowhere', towers, normalized), 30, data(30))
    shares = BATCHES[:30, : 3 if towers else 6]
    mean, variance = averages(shares, 0.99, 0)
    np.testing.assert_allclose(found['batch_normalization/moving_mean'], mean, rtol=1e-4)
    np.testing.assert_allclose(found['batch_normalization/moving_variance'], variance, rtol=1e-3)


def test_a_run_in_a_loop_resumes_with_the_bits_of_single_steps():
    check_loop(make_estimator('/nowhere', 0, normalized), data(-1))
