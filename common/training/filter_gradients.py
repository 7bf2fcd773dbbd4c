"""Faster gradients of filters in bfloat16, for small images.

oneDNN's own reach half of the speed of its matrix products on processors without AMX. With AMX, they reach a third of that of
forward convolutions if rows are short, as oneDNN fills a tile with positions of one row.
"""

import contextlib

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import ops

from estimator_trainer.common import processor

_BY_PATCHES, _SIDE_BY_SIDE = 'Conv2DByPatches', 'Conv2DSideBySide'
_MAX_POSITIONS, _MIN_CHANNELS = 64, 64  # By patches: of images.
_MAX_WIDTH, _MIN_CHANNELS_OF_BOTH, _MAX_JOINED = 8, 32, 16  # Side by side: of outputs; of both; the number of images.
_default = ops.gradient_registry.lookup('Conv2D')


def faster(precision: str) -> contextlib.AbstractContextManager[None]:
    """Within the returned context, convolutions that are made get these gradients where they are faster.

    Args:
      precision: that of the training.
    """
    names = {}
    if precision == 'bfloat16' and processor.has_bfloat16():
        names['Conv2D'] = _SIDE_BY_SIDE if processor.has_amx() else _BY_PATCHES
    return tf.get_default_graph().gradient_override_map(names)


@tf.RegisterGradient(_BY_PATCHES)
def _gradients_by_patches(op, gradient):
    of_images, of_filters = _default(op, gradient)
    return of_images, _by_patches(op, gradient) if _has_few_positions(op) else of_filters


@tf.RegisterGradient(_SIDE_BY_SIDE)
def _gradients_side_by_side(op, gradient):
    of_images, of_filters = _default(op, gradient)
    return of_images, _side_by_side(op, gradient) if _has_short_rows(op) else of_filters


def _has_few_positions(op):
    if not _is_plain(op) or _stride(op) > 1:
        return False
    _, height, width, channels = op.inputs[0].shape.as_list()
    return height * width <= _MAX_POSITIONS and channels >= _MIN_CHANNELS


def _has_short_rows(op):
    """Whether rows of outputs are short, yet no shorter than their gap, and divide those of images, with enough channels."""
    if not _is_plain(op):
        return False
    width, (_, columns, *channels) = op.inputs[0].shape.as_list()[2], op.inputs[1].shape.as_list()
    outputs, rest = divmod(width, _stride(op))
    is_short = not rest and _gap(op) <= outputs <= _MAX_WIDTH
    return is_short and columns > 1 and min(channels) >= _MIN_CHANNELS_OF_BOTH


def _is_plain(op):
    """Whether it is a convolution in NHWC with known sizes, equal strides, same padding, without dilation or groups."""
    images, filters = (tensor.shape for tensor in op.inputs)
    is_known = images[1:].is_fully_defined() and filters.is_fully_defined() and images[3] == filters[2]
    is_same = op.get_attr('padding') == b'SAME' and op.get_attr('data_format') == b'NHWC'
    return is_known and is_same and len({*op.get_attr('strides')[1:3]}) == 1 and {*op.get_attr('dilations')} == {1}


def _stride(op):
    return op.get_attr('strides')[2]


def _by_patches(op, gradient):
    """Returns the gradient of filters [rows, columns, channels, count], for strides of 1 and same padding."""
    images, filters = op.inputs
    _, height, width, channels = images.shape.as_list()
    rows, columns, _, count = filters.shape.as_list()
    before = [((size - 1) // 2, size // 2) for size in (rows, columns)]
    padded = tf.pad(images, [(0, 0), *before, (0, 0)])
    line = width + columns - 1
    corners = (np.arange(height)[:, None] * line + np.arange(width)).reshape(-1, 1)
    within = (np.arange(rows)[:, None] * line + np.arange(columns)).reshape(-1)
    patches = tf.gather(tf.reshape(padded, [-1, (height + rows - 1) * line, channels]), (corners + within).ravel(), axis=1)
    product = tf.matmul(
        tf.reshape(patches, [-1, rows * columns * channels]), tf.reshape(gradient, [-1, count]), transpose_a=True
    )
    return tf.reshape(product, filters.shape)


def _side_by_side(op, gradient):
    """Returns the gradient of filters [rows, columns, channels, count] from images that are joined to wide ones.

    Zeros between them keep the filters from the neighbors' pixels.
    """
    gap, stride = _gap(op), _stride(op)
    # The shape of images would be read from the input of their ReLU, which keeps batch norm from being fused with that.
    batch = tf.shape(gradient)[0]
    rows = -(-batch // _MAX_JOINED)
    joined = -(-batch // tf.maximum(rows, 1))

    def join(tensor, shape, gap):
        _, height, width, depth = shape.as_list()
        padded = tf.pad(tensor, [(0, rows * joined - batch), (0, 0), (0, gap), (0, 0)])
        lines = tf.transpose(tf.reshape(padded, [rows, joined, height, (width + gap) * depth]), [0, 2, 1, 3])
        return tf.reshape(lines, [rows, height, joined * (width + gap), depth])

    images, filters = op.inputs
    wide = join(images, images.shape, gap * stride), filters.shape, join(gradient, op.outputs[0].shape, gap)
    return tf.nn.conv2d_backprop_filter(*wide, op.get_attr('strides'), 'SAME')


def _gap(op):
    """Returns the number of outputs between images: at least the larger side of same padding, and a whole number of strides."""
    padding = max(op.inputs[1].shape.as_list()[1] - _stride(op), 0)
    return -(-(padding - padding // 2) // _stride(op))
