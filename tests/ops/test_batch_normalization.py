"""Batch normalization in both layouts, fused and not."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops.batch_normalization import batch_normalization
from common.ops.check_gradient import check_gradient
from common.training.parallel import make_parallel
from tests.evaluated import CPUS, evaluate, variable_values

RANDOM = np.random.RandomState(0)
MEAN, STDDEV = np.array([3.0, -2.0, 0.5]), np.array([0.5, 2.0, 4.0])
IMAGES = (RANDOM.normal(size=[6, 5, 4, 3]) * STDDEV + MEAN).astype(np.float32)
LAYOUTS = pytest.mark.parametrize('data_format, fused', [('NHWC', True), ('NHWC', False), ('NCHW', True), ('NCHW', False)])


def normalize(images, is_training, data_format, fused, **options):
    """Normalizes NHWC images in any layout."""
    if data_format == 'NCHW':
        images = tf.transpose(images, [0, 3, 1, 2])
    images = batch_normalization(images, is_training, data_format, fused, **options)
    return tf.transpose(images, [0, 2, 3, 1]) if data_format == 'NCHW' else images


def averages():
    """Returns the moving mean and the moving variance."""
    return [next(v for v in tf.global_variables() if name in v.name) for name in ('moving_mean', 'moving_variance')]


@LAYOUTS
def test_batch_normalization_in_training_is_by_the_moments_of_the_batch(session, data_format, fused):
    output = normalize(tf.constant(IMAGES), True, data_format, fused)
    session.run(tf.global_variables_initializer())
    expected = (IMAGES - IMAGES.mean((0, 1, 2))) / np.sqrt(IMAGES.var((0, 1, 2)) + 1e-3)
    np.testing.assert_allclose(session.run(output), expected, rtol=1e-4, atol=1e-4)


@LAYOUTS
def test_after_a_thousand_steps_of_batch_normalization_the_averages_are_the_moments_of_the_data(session, data_format, fused):
    images = tf.placeholder(tf.float32, [None, 5, 4, 3])
    normalize(images, True, data_format, fused)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    session.run(tf.global_variables_initializer())
    for _ in range(1000):
        session.run(updates, {images: RANDOM.normal(size=[32, 5, 4, 3]) * STDDEV + MEAN})
    mean, variance = session.run(averages())
    np.testing.assert_allclose(mean, MEAN, atol=0.05)
    np.testing.assert_allclose(variance, STDDEV**2, rtol=0.02)


@LAYOUTS
def test_fused_batch_normalization_averages_the_unbiased_variance(session, data_format, fused):
    normalize(tf.constant(IMAGES), True, data_format, fused, momentum=0.0)
    session.run(tf.global_variables_initializer())
    session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    np.testing.assert_allclose(session.run(averages()[1]), IMAGES.var((0, 1, 2), ddof=int(fused)), rtol=1e-4)


def test_fused_and_unfused_batch_normalization_learn_alike(session):
    def train(fused):
        with tf.variable_scope(f'fused_{fused}'):
            x = tf.layers.conv2d(images, 4, 3, kernel_initializer=tf.initializers.random_normal(seed=1))
            net = batch_normalization(x, True, fused=fused)
            loss = tf.reduce_mean(tf.square(tf.layers.dense(net, 1, kernel_initializer=tf.ones_initializer()) - 1.0))
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS, f'fused_{fused}')):
            return tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss

    images = tf.constant(IMAGES)
    steps = [train(True), train(False)]
    session.run(tf.global_variables_initializer())
    losses = np.array([session.run([loss for _, loss in steps] + [op for op, _ in steps])[:2] for _ in range(50)])
    assert losses[-1, 0] < 0.5 * losses[0, 0]
    np.testing.assert_allclose(losses[:, 0], losses[:, 1], rtol=1e-3)
    fused, unfused = (
        session.run([v for v in tf.global_variables() if v.name.startswith(f'fused_{fused}')]) for fused in (True, False)
    )
    assert len(fused) == 8
    for a, b in zip(fused, unfused):
        np.testing.assert_allclose(a, b, rtol=0.03, atol=1e-4)  # The fused variance is larger by 36 / 35.


@LAYOUTS
def test_batch_normalization_in_inference_is_by_the_averages_for_any_batch_and_in_towers(data_format, fused):
    output = evaluate(lambda images: normalize(images, False, data_format, fused), IMAGES)
    beta, gamma, mean, variance = (variable_values(i, 3) for i in range(4))
    np.testing.assert_allclose(output, (IMAGES - mean) / np.sqrt(variance + 1e-3) * gamma + beta, rtol=1e-4, atol=1e-4)


def test_each_tower_normalizes_its_own_share_and_the_first_ones_moments_count(session):
    output = make_parallel(lambda images: batch_normalization(images, True, momentum=0.0), CPUS, images=tf.constant(IMAGES))
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    session.run(tf.global_variables_initializer())
    values, _ = session.run([output, updates])
    for share in range(3):
        np.testing.assert_allclose(values[2 * share : 2 * share + 2].mean((0, 1, 2)), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(session.run(averages()[0]), IMAGES[:2].mean((0, 1, 2)), rtol=1e-4)


def test_batch_normalization_refuses_an_unknown_layout():
    with pytest.raises(UsageError, match='data_format=channels_first is none of NHWC, NCHW'):
        batch_normalization(tf.constant(IMAGES), True, 'channels_first')


def test_batch_normalization_of_vectors(session):
    vectors = IMAGES.reshape(-1, 3)
    output = batch_normalization(tf.constant(vectors), True)
    session.run(tf.global_variables_initializer())
    expected = (vectors - vectors.mean(0)) / np.sqrt(vectors.var(0) + 1e-3)
    np.testing.assert_allclose(session.run(output), expected, rtol=1e-4, atol=1e-4)


@LAYOUTS
def test_the_gradient_of_batch_normalization(data_format, fused):
    weights = RANDOM.normal(size=[2, 2, 2, 3]).astype(np.float32)
    error = check_gradient(
        lambda x: tf.reduce_sum(normalize(x, True, data_format, fused) * weights), [IMAGES[:2, :2, :2]], delta=1e-2
    )
    assert error < 5e-3
