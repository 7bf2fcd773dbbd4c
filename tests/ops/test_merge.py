"""Merging by projections that broadcast."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.check_gradient import check_gradient
from common.ops.merge import merge
from tests.evaluated import evaluate

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.normal(size=[5, 4, 3, 6]).astype(np.float32)
CONTEXT = RANDOM.normal(size=[5, 1, 1, 2]).astype(np.float32)


def merged_with_variables(images, context):
    """Returns the merged tensor and, once for each example, the variables it was made of."""
    output = merge([images, context], 7)
    variables = sorted(tf.trainable_variables(), key=lambda variable: variable.name)
    return output, [tf.repeat(variable[None], tf.shape(images)[0], axis=0) for variable in variables]


def test_merge_equals_a_dense_layer_on_the_tiled_and_concatenated_tensors():
    output, variables = evaluate(merged_with_variables, IMAGES, CONTEXT)
    bias, kernel, context_kernel = [variable[0] for variable in variables]
    assert bias.shape == (7,) and kernel.shape == (6, 7) and context_kernel.shape == (2, 7)
    tiled = np.concatenate([IMAGES, np.tile(CONTEXT, [1, 4, 3, 1])], axis=-1)
    np.testing.assert_allclose(output, tiled @ np.concatenate([kernel, context_kernel]) + bias, rtol=1e-4, atol=1e-5)


def test_the_activation_of_merge_comes_after_the_sum():
    linear = evaluate(lambda *tensors: merge(tensors, 7), IMAGES, CONTEXT)
    assert (linear < 0).any()
    np.testing.assert_allclose(
        evaluate(lambda *tensors: merge(tensors, 7, tf.nn.relu), IMAGES, CONTEXT), np.maximum(linear, 0), rtol=1e-5
    )


def test_two_merges_have_variables_of_their_own():
    with tf.Graph().as_default():
        merge([tf.constant(IMAGES)], 7)
        merge([tf.constant(IMAGES)], 7)
        assert len(tf.trainable_variables()) == 4


def test_merge_refuses_tensors_that_do_not_broadcast():
    with tf.Graph().as_default(), pytest.raises(ValueError):
        merge([tf.constant(IMAGES), tf.zeros([5, 2, 1, 2])], 7)


def test_the_gradients_of_merge():
    inputs = [IMAGES[:1].astype(np.float64), CONTEXT[:1].astype(np.float64)]
    assert check_gradient(lambda *tensors: merge(tensors, 3, tf.tanh), inputs) < 1e-5
