"""Stacks of layers: what is in them, and that it does what it should."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops import layers
from common.ops.check_gradient import check_gradient
from common.ops.layers import conv_stack, dense_stack, weight_penalty
from tests.evaluated import evaluate, variable_values
from tests.shared import ROOT

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.normal(size=[6, 9, 8, 3]).astype(np.float32)
VECTORS = RANDOM.normal(size=[6, 5]).astype(np.float32)
REFUSES_NCHW = tf.__version__.startswith('2.15.') and not tf.config.list_physical_devices('GPU')


def nchw(images):
    return tf.transpose(images, [0, 3, 1, 2])


def test_dense_layers_are_what_they_are_in_numpy():
    bias_1, kernel_1, bias_2, kernel_2 = (variable_values(i, shape) for i, shape in enumerate([4, (5, 4), 2, (4, 2)]))
    expected = np.maximum(np.maximum(VECTORS @ kernel_1 + bias_1, 0) @ kernel_2 + bias_2, 0)
    np.testing.assert_allclose(evaluate(lambda x: dense_stack(x, [4, 2], True), VECTORS), expected, rtol=1e-5)


def test_convolutions_are_what_they_are_in_numpy():
    bias, kernel = variable_values(0, [4]), variable_values(1, [3, 3, 3, 4])
    padded = np.pad(IMAGES, [(0, 0), (1, 1), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))  # [6, 9, 8, 3, 3, 3]
    convolved = np.maximum(np.einsum('bhwcij,ijco->bhwo', windows, kernel) + bias, 0)
    pooled = convolved[:, :8].reshape(6, 4, 2, 4, 2, 4).max((2, 4))
    np.testing.assert_allclose(evaluate(lambda x: conv_stack(x, [4], True), IMAGES), pooled, rtol=1e-4, atol=1e-5)
    unpooled = evaluate(lambda x: conv_stack(x, [4], True, pool_size=1), IMAGES)
    np.testing.assert_allclose(unpooled, convolved, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(REFUSES_NCHW, reason='this TensorFlow is refused NCHW on a CPU')
@pytest.mark.parametrize('batch_norm', [False, True])
def test_layers_give_equal_numbers_in_both_layouts(batch_norm):
    expected = evaluate(lambda x: conv_stack(x, [4, 5], False, batch_norm=batch_norm), IMAGES)
    assert expected.shape == (6, 2, 2, 5)
    found = evaluate(lambda x: conv_stack(nchw(x), [4, 5], False, batch_norm=batch_norm, data_format='NCHW'), IMAGES)
    np.testing.assert_allclose(found.transpose(0, 2, 3, 1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('stack, inputs, kernels', [(conv_stack, IMAGES, [108, 180]), (dense_stack, VECTORS, [20, 20])])
def test_batch_norm_takes_the_place_of_the_bias_and_is_updated(session, stack, inputs, kernels):
    stack(tf.constant(inputs), [4, 5], True, batch_norm=True)
    sizes = {v.name.split('/')[-1]: [] for v in tf.global_variables()}
    for variable in tf.global_variables():
        sizes[variable.name.split('/')[-1]].append(variable.shape.num_elements())
    assert sizes == {
        'kernel:0': kernels,
        **{f'{name}:0': [4, 5] for name in ('gamma', 'beta', 'moving_mean', 'moving_variance')},
    }
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 4


@pytest.mark.parametrize('stack, inputs', [(conv_stack, IMAGES), (dense_stack, VECTORS)])
def test_dropout_drops_in_training_only(session, stack, inputs):
    def share_of_zeros(is_training):
        with tf.variable_scope('stack', reuse=tf.AUTO_REUSE):
            output = stack(tf.constant(inputs), [500], is_training, activation=None, drop_rate=0.3)
        session.run(tf.global_variables_initializer())
        return (session.run(output) == 0).mean()

    assert abs(share_of_zeros(True) - 0.3) < 0.03
    assert share_of_zeros(False) == 0


@pytest.mark.parametrize('stack, inputs, sizes', [(conv_stack, IMAGES, [108, 180]), (dense_stack, VECTORS, [20, 20])])
def test_weight_decay_adds_half_the_squared_kernels(session, stack, inputs, sizes):
    stack(tf.constant(inputs), [4, 5], True, weight_decay=0.1)
    session.run([tf.assign(v, tf.fill(v.shape, 2.0)) for v in tf.trainable_variables()])
    losses = session.run(tf.losses.get_regularization_losses())
    np.testing.assert_allclose(losses, [0.1 / 2 * 4 * size for size in sizes], rtol=1e-5)


def test_weight_decay_shrinks_the_weights_at_its_rate(session):
    weights = tf.get_variable('weights', initializer=[1.0, -2.0], regularizer=weight_penalty(0.1))
    train_op = tf.train.GradientDescentOptimizer(0.5).minimize(tf.losses.get_regularization_loss())
    session.run(tf.global_variables_initializer())
    session.run(train_op)
    np.testing.assert_allclose(session.run(weights), [0.95, -1.9], rtol=1e-6)  # By hand: times 1 - 0.5 * 0.1.
    assert weight_penalty(0.0) is None


def test_the_gradients_of_layers():
    images = IMAGES[:1, :4, :4].astype(np.float64)
    assert check_gradient(lambda x: conv_stack(x, [2], False, activation=tf.tanh), [images]) < 1e-4
    assert check_gradient(lambda x: dense_stack(x, [2], False, activation=tf.tanh), [VECTORS.astype(np.float64)]) < 1e-4


def test_layers_refuse_an_unknown_layout():
    with pytest.raises(UsageError, match='data_format=CHW is none of NHWC, NCHW'):
        layers.check_data_format('CHW')


@pytest.mark.parametrize(
    'onednn',
    [0, pytest.param(1, marks=pytest.mark.skipif(not REFUSES_NCHW, reason='this TensorFlow runs NCHW on a CPU by oneDNN'))],
)
def test_nchw_without_a_gpu_is_refused_where_the_cpu_cannot_run_it(data_dir, onednn):
    result = subprocess.run(
        [sys.executable, 'trainer.py', f'--data_dir={data_dir}', '--hparams=data_format=NCHW', '--schedule=dry_run'],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=300,
        env={**os.environ, 'TF_ENABLE_ONEDNN_OPTS': str(onednn), 'CUDA_VISIBLE_DEVICES': ''},
    )
    assert result.returncode == 2
    assert 'data_format=NCHW needs a GPU: this machine has none' in result.stderr
    assert 'Traceback' not in result.stderr
