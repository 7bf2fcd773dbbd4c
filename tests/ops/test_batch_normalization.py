"""Batch normalization in both layouts, fused and not."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops.batch_normalization import batch_normalization
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
def test_training_is_by_the_moments_of_the_batch_which_move_the_averages(session, data_format, fused):
    output = normalize(tf.constant(IMAGES), True, data_format, fused)
    normalize(tf.constant(IMAGES), True, data_format, fused, momentum=0.75)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 4
    session.run(tf.global_variables_initializer())
    mean, variance = IMAGES.mean((0, 1, 2)), IMAGES.var((0, 1, 2))
    np.testing.assert_allclose(session.run(output), (IMAGES - mean) / np.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-4)
    for _ in range(2):
        session.run(updates)
    unbiased = IMAGES.var((0, 1, 2), ddof=int(fused))  # The fused kernel averages the unbiased estimate.
    for names, momentum in (('batch_normalization/', 0.99), ('batch_normalization_1/', 0.75)):
        found = session.run([v for v in tf.global_variables() if v.name.startswith(f'{names}moving')])
        kept = momentum**2
        np.testing.assert_allclose(found, [(1 - kept) * mean, kept + (1 - kept) * unbiased], rtol=1e-3)


@LAYOUTS
def test_inference_is_by_the_averages_for_any_batch_and_in_towers(data_format, fused):
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


def test_vectors_are_normalized_by_column(session):
    vectors = IMAGES.reshape(-1, 3)
    output = batch_normalization(tf.constant(vectors), True)
    session.run(tf.global_variables_initializer())
    expected = (vectors - vectors.mean(0)) / np.sqrt(vectors.var(0) + 1e-3)
    np.testing.assert_allclose(session.run(output), expected, rtol=1e-4, atol=1e-4)


def test_an_unknown_layout_is_refused():
    with pytest.raises(UsageError, match='data_format=channels_first is none of NHWC, NCHW'):
        batch_normalization(tf.constant(IMAGES), True, 'channels_first')
