"""The gradients of filters as products of patches."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import processor
from estimator_trainer.common.training import filter_gradients

FLAGS = {'avx512f', 'avx512_bf16'}


def gradients(monkeypatch, images, filters, precision='bfloat16', flags=FLAGS, runs=False, **options):
    """Returns the gradients of a weighted sum of a convolution, if it runs, and the types of the ops."""
    monkeypatch.setattr(processor, 'flags', lambda path: flags)
    random = np.random.default_rng(0)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        inputs = [tf.constant(random.normal(size=shape), tf.float32) for shape in (images, filters)]
        with filter_gradients.faster(precision):
            net = tf.nn.conv2d(*inputs, **{'strides': 1, 'padding': 'SAME', **options})
        weights = tf.constant(random.normal(size=net.shape.as_list()), tf.float32)
        found = [*tf.gradients(net * weights, inputs), *inputs, weights]
        return session.run(found) if runs else None, {op.type for op in graph.get_operations()}


@pytest.mark.parametrize('height, width, rows, columns', [(3, 4, 3, 3), (4, 3, 1, 5), (3, 3, 2, 4)])
def test_they_are_the_sums_of_products_of_the_pixels_that_a_weight_sees(monkeypatch, height, width, rows, columns):
    monkeypatch.setattr(filter_gradients, '_MIN_CHANNELS', 2)
    found, types = gradients(monkeypatch, [2, height, width, 2], [rows, columns, 2, 3], runs=True)
    of_images, of_filters, images, filters, weights = found
    top, left = (rows - 1) // 2, (columns - 1) // 2
    padded = np.pad(images, [(0, 0), (top, rows // 2), (left, columns // 2), (0, 0)])
    expected, expected_images = np.zeros_like(filters), np.zeros_like(padded)
    for y in range(rows):
        for x in range(columns):
            expected[y, x] = np.einsum('nhwc,nhwf->cf', padded[:, y : y + height, x : x + width], weights)
            expected_images[:, y : y + height, x : x + width] += np.einsum('nhwf,cf->nhwc', weights, filters[y, x])
    np.testing.assert_allclose(of_filters, expected, rtol=1e-4, atol=1e-5)
    seen = expected_images[:, top : top + height, left : left + width]
    np.testing.assert_allclose(of_images, seen, rtol=1e-4, atol=1e-5)
    assert 'GatherV2' in types


@pytest.mark.parametrize(
    'changes',
    [
        {'precision': 'float32'},
        {'flags': {'avx512f'}},
        {'flags': {*FLAGS, 'amx_bf16'}},
        {'images': [2, 9, 8, 64]},
        {'images': [2, 4, 4, 32], 'filters': [3, 3, 32, 8]},
        {'strides': 2},
        {'dilations': 2},
        {'padding': 'VALID'},
    ],
)
def test_others_are_tensorflows(monkeypatch, changes):
    usual = {'images': [2, 4, 4, 64], 'filters': [3, 3, 64, 8]}
    assert 'GatherV2' in gradients(monkeypatch, **usual)[1]
    assert 'GatherV2' not in gradients(monkeypatch, **{**usual, **changes})[1]
