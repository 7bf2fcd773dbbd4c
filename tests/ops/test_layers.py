"""Stacks of layers, merged projections, and batch normalization: structure and results."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.layers import batch_normalization, conv_stack, dense_stack, leaky_relu, merge, weight_penalty
from tests.evaluated import REFUSES_NCHW, evaluate, variable_values
from tests.shared import ROOT

RANDOM = np.random.RandomState(0)
IMAGES = (RANDOM.normal(size=[6, 9, 8, 3]) * [0.5, 2, 1] + [3, -2, 0.5]).astype(np.float32)
MEAN, VARIANCE = IMAGES.mean((0, 1, 2)), IMAGES.var((0, 1, 2))
VECTORS = RANDOM.normal(size=[6, 5]).astype(np.float32)
STACKS = pytest.mark.parametrize('stack, inputs, kernels', [(conv_stack, IMAGES, [108, 180]), (dense_stack, VECTORS, [20, 20])])


def in_layout(data_format, layer, images):
    """Calls a layer on NHWC images in any layout."""
    if data_format == 'NHWC':
        return layer(images)
    return tf.transpose(layer(tf.transpose(images, [0, 3, 1, 2])), [0, 2, 3, 1])


def test_layers_are_what_they_are_in_numpy_and_leaky_relu_leaks_a_tenth_or_another_share_of_what_is_negative():
    bias_1, kernel_1, bias_2, kernel_2 = (variable_values(i, shape) for i, shape in enumerate([4, (5, 4), 2, (4, 2)]))
    expected = np.maximum(np.maximum(VECTORS @ kernel_1 + bias_1, 0) @ kernel_2 + bias_2, 0)
    np.testing.assert_allclose(evaluate(lambda x: dense_stack(x, [4, 2], True), VECTORS), expected, rtol=1e-5)
    bias, kernel = variable_values(0, [4]), variable_values(1, [3, 3, 3, 4])
    padded = np.pad(IMAGES, [(0, 0), (1, 1), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))  # [6, 9, 8, 3, 3, 3]
    convolved = np.maximum(np.einsum('bhwcij,ijco->bhwo', windows, kernel) + bias, 0)
    pooled = convolved[:, :8].reshape(6, 4, 2, 4, 2, 4).max((2, 4))
    np.testing.assert_allclose(evaluate(lambda x: conv_stack(x, [4], True), IMAGES), pooled, rtol=1e-4, atol=1e-5)
    unpooled = evaluate(lambda x: conv_stack(x, [4], True, pool_size=1), IMAGES)
    np.testing.assert_allclose(unpooled, convolved, rtol=1e-4, atol=1e-5)
    found = evaluate(lambda x: [leaky_relu(x), leaky_relu(x, 0.5)], np.array([-10, -1, 0, 0.5, 3], np.float32))
    np.testing.assert_allclose(found, [[-1, -0.1, 0, 0.5, 3], [-5, -0.5, 0, 0.5, 3]])


@pytest.mark.skipif(REFUSES_NCHW, reason='this TensorFlow is refused NCHW on a CPU')
def test_layers_give_equal_numbers_in_both_layouts():
    expected = evaluate(lambda x: conv_stack(x, [4, 5], False, batch_norm=True), IMAGES)
    assert expected.shape == (6, 2, 2, 5)
    in_nchw = functools.partial(conv_stack, filters=[4, 5], is_training=False, batch_norm=True, data_format='NCHW')
    np.testing.assert_allclose(evaluate(lambda x: in_layout('NCHW', in_nchw, x), IMAGES), expected, rtol=1e-4, atol=1e-5)


@STACKS
def test_batch_norm_takes_the_place_of_the_bias_and_is_updated_in_training(session, stack, inputs, kernels):
    stack(tf.constant(inputs), [4, 5], True, batch_norm=True)
    sizes = {}
    for variable in tf.global_variables():
        sizes.setdefault(variable.op.name.split('/')[-1], []).append(variable.shape.num_elements())
    assert sizes == {'kernel': kernels, **{name: [4, 5] for name in ('gamma', 'beta', 'moving_mean', 'moving_variance')}}
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 4
    stack(tf.constant(inputs), [4, 5], False, batch_norm=True)
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 4


@STACKS
def test_dropout_drops_in_training_only(session, stack, inputs, kernels):
    def share_of_zeros(is_training):
        with tf.variable_scope('stack', reuse=tf.AUTO_REUSE):
            output = stack(tf.constant(inputs), [500], is_training, activation=None, drop_rate=0.3)
        session.run(tf.global_variables_initializer())
        return (session.run(output) == 0).mean()

    assert abs(share_of_zeros(True) - 0.3) < 0.03
    assert share_of_zeros(False) == 0


@STACKS
def test_weight_decay_adds_half_the_squared_kernels(session, stack, inputs, kernels):
    stack(tf.constant(inputs), [4, 5], True, weight_decay=0.1)
    session.run([tf.assign(v, tf.fill(v.shape, 2.0)) for v in tf.trainable_variables()])
    losses = session.run(tf.losses.get_regularization_losses())
    np.testing.assert_allclose(losses, [0.1 / 2 * 4 * size for size in kernels], rtol=1e-5)
    assert weight_penalty(0.0) is None


def test_merge_is_a_dense_layer_on_the_tiled_and_concatenated_tensors_with_variables_of_its_own(session):
    context = RANDOM.normal(size=[6, 1, 1, 2]).astype(np.float32)
    bias, kernel, context_kernel = (variable_values(i, shape) for i, shape in enumerate([7, (3, 7), (2, 7)]))
    tiled = np.concatenate([IMAGES, np.tile(context, [1, 9, 8, 1])], axis=-1)
    expected = tiled @ np.concatenate([kernel, context_kernel]) + bias
    assert (expected < 0).any()
    for activation, result in ((None, expected), (tf.nn.relu, np.maximum(expected, 0))):
        found = evaluate(lambda *tensors, activation=activation: merge(tensors, 7, activation), IMAGES, context)
        np.testing.assert_allclose(found, result, rtol=1e-4, atol=1e-5)
    for _ in range(2):
        merge([tf.constant(IMAGES)], 7)
    assert [v.op.name for v in tf.trainable_variables()][::2] == ['merge/project_0/kernel', 'merge_1/project_0/kernel']
    with pytest.raises(ValueError):
        merge([tf.constant(IMAGES), tf.zeros([6, 2, 1, 2])], 7)


@pytest.mark.parametrize('data_format, fused', [('NHWC', True), ('NHWC', False), ('NCHW', True), ('NCHW', False)])
def test_training_normalizes_by_the_moments_of_the_batch_which_move_the_averages(session, data_format, fused):
    layer = functools.partial(batch_normalization, is_training=True, data_format=data_format, fused=fused)
    output, _ = (in_layout(data_format, fn, tf.constant(IMAGES)) for fn in (layer, functools.partial(layer, momentum=0.75)))
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    session.run(tf.global_variables_initializer())
    np.testing.assert_allclose(session.run(output), (IMAGES - MEAN) / np.sqrt(VARIANCE + 1e-3), rtol=1e-4, atol=1e-4)
    for _ in range(2):
        session.run(updates)
    unbiased = IMAGES.var((0, 1, 2), ddof=int(fused))  # The fused kernel averages the unbiased estimate.
    for names, kept in (('batch_normalization/', 0.99**2), ('batch_normalization_1/', 0.75**2)):
        found = session.run([v for v in tf.global_variables() if v.name.startswith(f'{names}moving')])
        np.testing.assert_allclose(found, [(1 - kept) * MEAN, kept + (1 - kept) * unbiased], rtol=1e-3)


@pytest.mark.parametrize('onednn', [0, pytest.param(1, marks=pytest.mark.skipif(not REFUSES_NCHW, reason='it runs NCHW'))])
def test_nchw_without_a_gpu_is_refused_where_the_cpu_cannot_run_it(onednn):
    program = "import tf_estimator; from estimator_trainer.common.ops import layers; layers.check_data_format('NCHW')"
    env = {**os.environ, 'TF_ENABLE_ONEDNN_OPTS': str(onednn), 'CUDA_VISIBLE_DEVICES': ''}
    result = subprocess.run([sys.executable, '-c', program], cwd=ROOT, text=True, capture_output=True, env=env)
    assert 'UsageError: data_format=NCHW needs a GPU: this machine has none, and its CPU runs NHWC only' in result.stderr
