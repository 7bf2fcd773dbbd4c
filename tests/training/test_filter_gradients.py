"""The gradients of filters as products of patches, and of images side by side."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import processor
from estimator_trainer.common.training import filter_gradients

PATCHES = {'avx512f', 'avx512_bf16'}, 'GatherV2'
SIDE_BY_SIDE = {*PATCHES[0], 'amx_bf16'}, 'Transpose'


def gradients(monkeypatch, images, filters, flags, precision='bfloat16', runs=False, **options):
    """Returns the gradients of a weighted sum of a convolution, if it runs, and the types of the ops."""
    monkeypatch.setattr(processor, 'flags', lambda path: flags)
    random = np.random.default_rng(0)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        inputs = [tf.placeholder(tf.float32, shape) for shape in ([None, *images[1:]], filters)]
        with filter_gradients.faster(precision):
            net = tf.nn.conv2d(*inputs, **{'strides': 1, 'padding': 'SAME', **options})
        weights = tf.placeholder(tf.float32, net.shape)
        found = tf.gradients(net, inputs, weights)
        types = {op.type for op in graph.get_operations()}
        if not runs:
            return None, types
        given = {tensor: random.normal(size=shape) for tensor, shape in zip(inputs, (images, filters), strict=True)}
        given[weights] = random.normal(size=[images[0], *net.shape.as_list()[1:]])
        return session.run([*found, *inputs, weights], given), types


def check(monkeypatch, batch, size, filters, stride, by):
    """Compares the gradients of filters of two channels with sums of products of the pixels that a weight sees."""
    flags, op_type = by
    options = {'strides': stride, 'flags': flags, 'runs': True}
    found, types = gradients(monkeypatch, [batch, *size, 2], [*filters, 2, 3], **options)
    of_images, of_filters, images, filters, weights = found
    outputs = [-(-length // stride) for length in size]
    missing = [max((n - 1) * stride + k - length, 0) for n, k, length in zip(outputs, filters.shape, size, strict=False)]
    top, left = (number // 2 for number in missing)
    padded = np.pad(images, [(0, 0), *((number // 2, number - number // 2) for number in missing), (0, 0)])
    expected, expected_images = np.zeros_like(filters), np.zeros_like(padded)
    for y, x in np.ndindex(filters.shape[:2]):
        rows, columns = (slice(i, i + n * stride, stride) for i, n in zip((y, x), outputs, strict=True))
        expected[y, x] = np.einsum('nhwc,nhwf->cf', padded[:, rows, columns], weights)
        expected_images[:, rows, columns] += np.einsum('nhwf,cf->nhwc', weights, filters[y, x])
    np.testing.assert_allclose(of_filters, expected, rtol=1e-4, atol=1e-5)
    seen = expected_images[:, top : top + size[0], left : left + size[1]]
    np.testing.assert_allclose(of_images, seen, rtol=1e-4, atol=1e-5)
    assert op_type in types


@pytest.mark.parametrize('size, filters', [((3, 4), (3, 3)), ((4, 3), (1, 5)), ((3, 3), (2, 4))])
def test_products_of_patches_are_the_sums_of_what_a_weight_sees(monkeypatch, size, filters):
    monkeypatch.setattr(filter_gradients, '_MIN_CHANNELS', 2)
    check(monkeypatch, 2, size, filters, 1, PATCHES)


@pytest.mark.parametrize(
    'size, filters, stride',
    [
        ((3, 4), (3, 3), 1),
        ((4, 3), (1, 5), 1),
        ((3, 3), (2, 4), 1),
        ((4, 6), (3, 3), 2),
        ((5, 4), (5, 5), 2),
        ((4, 4), (2, 2), 2),
        ((6, 6), (7, 7), 3),
        ((6, 6), (2, 2), 3),
    ],
)
@pytest.mark.parametrize('batch', [0, 2, 17])
def test_images_side_by_side_do_not_see_each_other(monkeypatch, batch, size, filters, stride):
    monkeypatch.setattr(filter_gradients, '_MIN_CHANNELS_OF_BOTH', 2)
    check(monkeypatch, batch, size, filters, stride, SIDE_BY_SIDE)


@pytest.mark.parametrize('by', [PATCHES, SIDE_BY_SIDE])
def test_they_are_the_same_with_the_shapes_of_tensorflow_1(monkeypatch, by):
    for name in ('_MIN_CHANNELS', '_MIN_CHANNELS_OF_BOTH'):
        monkeypatch.setattr(filter_gradients, name, 2)
    tf.disable_v2_tensorshape()
    try:
        check(monkeypatch, 3, (4, 4), (3, 3), 1, by)
    finally:
        tf.enable_v2_tensorshape()


FEW_POSITIONS = {'images': [2, 4, 4, 64], 'filters': [3, 3, 64, 8]}
SHORT_ROWS = {'images': [2, 8, 8, 64], 'filters': [3, 3, 64, 32]}
OF_BOTH = [
    {'precision': 'float32'},
    {'flags': {'avx512f', 'amx_tile'}},
    {'strides': [2, 1]},
    {'dilations': 2},
    {'padding': 'VALID'},
]
OF_PATCHES = [
    {'flags': {'avx512f'}},
    {'flags': SIDE_BY_SIDE[0]},
    {'images': [2, 9, 8, 64]},
    {'images': [2, None, 4, 64]},
    {'filters': [None, 3, 64, 8]},
    {'images': [2, 4, 4, 32], 'filters': [3, 3, 32, 8]},
    {'images': [2, 4, 4, 128]},
    {'images': [2, 64, 4, 64], 'data_format': 'NCHW'},
    {'strides': 2},
]
OF_ROWS = [
    {'flags': PATCHES[0]},
    {'images': [2, 8, 9, 64]},
    {'images': [2, 8, None, 64]},
    {'images': [2, 8, 8, 16], 'filters': [3, 3, 16, 32]},
    {'filters': [3, 3, 64, 16]},
    {'filters': [3, 1, 64, 32]},
    {'filters': [3, None, 64, 32]},
    {'images': [2, 8, 7, 64], 'strides': 2},
    {'images': [2, 8, 8, 128]},
    {'images': [2, 64, 8, 64], 'data_format': 'NCHW'},
    {'images': [2, 8, 1, 64], 'filters': [5, 5, 64, 32]},
]


@pytest.mark.parametrize(
    'by, usual, changes',
    [
        *((PATCHES, FEW_POSITIONS, changes) for changes in [*OF_BOTH, *OF_PATCHES]),
        *((SIDE_BY_SIDE, SHORT_ROWS, changes) for changes in [*OF_BOTH, *OF_ROWS]),
    ],
)
def test_gradients_of_other_convolutions_are_tensorflows(monkeypatch, by, usual, changes):
    usual, op_type = {**usual, 'flags': by[0]}, by[1]
    assert op_type in gradients(monkeypatch, **usual)[1]
    assert op_type not in gradients(monkeypatch, **{**usual, **changes})[1]
