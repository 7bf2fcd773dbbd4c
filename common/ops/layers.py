"""Stacks of convolutional or dense layers, with batch norm, pooling, activation and dropout."""

from collections.abc import Callable, Sequence
import functools

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops.batch_normalization import batch_normalization, channel_axis
from common.ops.dropout import dropout


def conv_stack(
    images: tf.Tensor,
    filters: Sequence[int],
    is_training: bool,
    kernel_size: int = 3,
    pool_size: int = 2,
    activation: Callable[[tf.Tensor], tf.Tensor] | None = tf.nn.relu,
    batch_norm: bool = False,
    drop_rate: float = 0.0,
    weight_decay: float = 0.0,
    data_format: str = 'NHWC',
) -> tf.Tensor:
    """Stacks convolutions: each with batch norm, max-pooling, activation and dropout, in this order.

    For a non-decreasing activation, such as ReLU, pooling first gives the same result and leaves fewer activations to
    compute.

    Args:
      images: float [batch, height, width, channels], or [batch, channels, height, width] for NCHW.
      filters: number of filters of each convolution.
      is_training: whether batch norm and dropout are in training mode.
      kernel_size: height and width of the filters.
      pool_size: size and stride of the pooling; 1 disables it.
      activation: the activation function, or None.
      batch_norm: whether to use batch norm; the convolutions then have no bias, since batch norm has one.
      drop_rate: in [0, 1); see `dropout`.
      weight_decay: see `weight_penalty`.
      data_format: 'NHWC' or 'NCHW', which can be faster on GPUs.

    Returns:
      Tensor of the rank of `images`, with filters[-1] channels; each layer divides height and width by pool_size, rounding
      down.

    Raises:
      UsageError: unknown data_format, or NCHW although there is no GPU and the CPU does not support it.
    """
    check_data_format(data_format)
    keras_format = 'channels_first' if data_format == 'NCHW' else 'channels_last'
    net = images
    for count in filters:
        net = tf.layers.conv2d(
            net,
            count,
            kernel_size,
            padding='same',
            data_format=keras_format,
            use_bias=not batch_norm,
            kernel_regularizer=weight_penalty(weight_decay),
        )
        if batch_norm:
            net = batch_normalization(net, is_training, data_format)
        if pool_size > 1:
            net = tf.layers.max_pooling2d(net, pool_size, pool_size, data_format=keras_format)
        net = activation(net) if activation else net
        net = dropout(net, drop_rate, is_training)
    return net


def dense_stack(
    tensor: tf.Tensor,
    units: Sequence[int],
    is_training: bool,
    activation: Callable[[tf.Tensor], tf.Tensor] | None = tf.nn.relu,
    batch_norm: bool = False,
    drop_rate: float = 0.0,
    weight_decay: float = 0.0,
) -> tf.Tensor:
    """Stacks dense layers: each with batch norm, activation and dropout, in this order.

    Args:
      tensor: float [batch, ..., depth].
      units: number of units of each layer.
      is_training, activation, batch_norm, drop_rate, weight_decay: as for `conv_stack`.

    Returns:
      Tensor [batch, ..., units[-1]].
    """
    net = tensor
    for count in units:
        net = tf.layers.dense(net, count, use_bias=not batch_norm, kernel_regularizer=weight_penalty(weight_decay))
        if batch_norm:
            net = batch_normalization(net, is_training)
        net = activation(net) if activation else net
        net = dropout(net, drop_rate, is_training)
    return net


def weight_penalty(weight_decay: float) -> Callable[[tf.Variable], tf.Tensor] | None:
    """Returns an L2 regularizer for tf.layers, weight_decay / 2 * sum(weights^2), or None if weight_decay is 0.

    Its gradient is weight_decay * weights. tf.layers adds the loss to tf.GraphKeys.REGULARIZATION_LOSSES, which the trainer
    adds to the total loss.
    """
    if not weight_decay:
        return None
    return lambda weights: weight_decay * tf.nn.l2_loss(weights)


def check_data_format(data_format: str) -> None:
    """Raises UsageError if the data_format is unknown or the machine does not support it."""
    if channel_axis(data_format) == 1 and not _runs_nchw():
        raise UsageError('data_format=NCHW needs a GPU: this machine has none, and its CPU runs NHWC only')


@functools.cache
def _runs_nchw():
    """Whether convolutions and pooling support NCHW on this machine: on GPUs, and on CPUs if TensorFlow uses oneDNN."""
    if tf.config.list_physical_devices('GPU'):
        return True
    if tf.__version__.startswith('2.15.'):
        return False  # On CPUs, its NCHW max-pooling returns wrong values that differ from run to run.
    with tf.Graph().as_default(), tf.Session() as session:
        images = tf.ones([1, 1, 4, 4])
        net = tf.nn.conv2d(images, tf.ones([3, 3, 1, 1]), padding='SAME', data_format='NCHW')
        net = tf.nn.max_pool2d(net, 2, 2, 'SAME', data_format='NCHW')
        try:
            session.run(tf.gradients(net, images))
        except (tf.errors.UnimplementedError, tf.errors.InvalidArgumentError):
            return False
    return True
