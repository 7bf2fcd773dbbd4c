"""Max-pooling with ReLU and a bias: its results and gradients."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.layers import conv_stack
from estimator_trainer.common.ops.pooling import relu_max_pool
from tests.evaluated import REFUSES_NCHW

CONVOLVED = np.random.RandomState(0).permutation(np.linspace(-1, 1, 2 * 5 * 4 * 3)).reshape(2, 5, 4, 3).astype(np.float32)
BIAS = np.array([0.1, -3, 0], np.float32)  # No position of the second channel is above 0.
IN_NCHW = pytest.param({'data_format': 'NCHW'}, marks=pytest.mark.skipif(REFUSES_NCHW, reason='refused on this CPU'))
WEIGHTS = np.random.RandomState(1).normal(size=[2, 2, 2, 3]).astype(np.float32)


def test_the_maxima_of_relu_and_their_gradients_are_those_of_numpy(session):
    convolved, bias = tf.constant(CONVOLVED), tf.constant(BIAS)
    pooled = relu_max_pool(convolved, bias, 2, 'NHWC')
    gradients = tf.gradients(tf.reduce_sum(pooled * WEIGHTS), [convolved, bias])
    expected, of_convolved = np.zeros([2, 2, 2, 3], np.float32), np.zeros_like(CONVOLVED)
    for place in np.ndindex(2, 2, 2, 3):
        image, row, column, channel = place
        square = CONVOLVED[image, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2, channel] + BIAS[channel]
        expected[place] = max(square.max(), 0)
        if square.max() > 0:
            y, x = np.unravel_index(square.argmax(), square.shape)
            of_convolved[image, 2 * row + y, 2 * column + x, channel] = WEIGHTS[place]
    of_bias = np.where(expected > 0, WEIGHTS, 0).sum((0, 1, 2))
    for found, right in zip(session.run([pooled, *gradients]), (expected, of_convolved, of_bias), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5)


@pytest.mark.parametrize('options', [{}, {'pool_size': 3}, {'kernel_size': 1}, IN_NCHW])
def test_a_stack_has_the_gradients_of_its_layers_one_after_another(options):
    found, expected = (_gradients(activation, options) for activation in (tf.nn.relu, lambda net: tf.nn.relu(net)))
    assert len(found) == 4
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-4, atol=1e-6)


def _gradients(activation, options):
    """Returns the gradients of a stack's kernels and biases, of fixed values."""
    with tf.Graph().as_default(), tf.Session() as session:
        images = tf.constant(np.random.RandomState(2).normal(size=[2, 9, 9, 1]).astype(np.float32))
        images = tf.transpose(images, [0, 3, 1, 2]) if 'data_format' in options else images
        net = conv_stack(images, [3, 2], True, activation=activation, **options)
        gradients = tf.gradients(tf.reduce_sum(net**2), tf.trainable_variables())
        session.run(tf.global_variables_initializer())
        for i, variable in enumerate(tf.trainable_variables()):
            variable.load(np.random.RandomState(i).normal(size=variable.shape), session)
        return session.run(gradients)
