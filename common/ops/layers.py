"""Stacks of convolutional and of dense layers, with what usually stands between them."""

import functools

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.ops.batch_normalization import batch_normalization, channel_axis
from common.ops.dropout import dropout


def conv_stack(
    images,
    filters,
    is_training,
    kernel_size=3,
    pool_size=2,
    activation=tf.nn.relu,
    batch_norm=False,
    drop_rate=0.0,
    weight_decay=0.0,
    data_format='NHWC',
):
    """Stacks convolutions: each with batch norm, max-pooling, activation and dropout, in this order.

    For an activation that never falls, such as ReLU, it is the same to pool first, and less is left to activate.

    Args:
      images: float [batch, height, width, channels], or [batch, channels, height, width] for NCHW.
      filters: list of int, the filters of each convolution.
      is_training: bool.
      kernel_size: int.
      pool_size: int, the pooling's size and stride; 1 does not pool.
      activation: function, or None.
      batch_norm: bool; the convolutions then have no bias, as batch norm has one.
      drop_rate: float in [0, 1).
      weight_decay: float; see `weight_penalty`.
      data_format: 'NHWC' or 'NCHW'; on GPUs NCHW can be faster.

    Returns:
      Tensor of the rank of `images`, with filters[-1] channels; height and width are divided by pool_size once a layer,
      and rounded down.

    Raises:
      UsageError: no such data_format, or NCHW, and there is no GPU and the CPU cannot run it.
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


def dense_stack(tensor, units, is_training, activation=tf.nn.relu, batch_norm=False, drop_rate=0.0, weight_decay=0.0):
    """Stacks dense layers: each with batch norm, activation and dropout, in this order.

    Args:
      tensor: float [batch, ..., depth].
      units: list of int, the units of each layer.
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


def weight_penalty(weight_decay):
    """Returns a regularizer for tf.layers, weight_decay / 2 * sum(weights^2), or None for 0.

    Its gradient is weight_decay * weights. It is in tf.GraphKeys.REGULARIZATION_LOSSES, which the trainer adds to the
    loss.
    """
    if not weight_decay:
        return None
    return lambda weights: weight_decay * tf.nn.l2_loss(weights)


def check_data_format(data_format):
    """Raises UsageError if there is no such data_format, or the machine cannot run it."""
    if channel_axis(data_format) == 1 and not _runs_nchw():
        raise UsageError('data_format=NCHW needs a GPU: this machine has none, and its CPU runs NHWC only')


@functools.cache
def _runs_nchw():
    """Whether convolutions and pooling run on NCHW here: on GPUs, and on CPUs where TensorFlow has oneDNN."""
    if tf.config.list_physical_devices('GPU'):
        return True
    if tf.__version__.startswith('2.15.'):
        return False  # Its max-pooling runs there, and gives wrong numbers, other ones each time.
    with tf.Graph().as_default(), tf.Session() as session:
        images = tf.ones([1, 1, 4, 4])
        net = tf.nn.conv2d(images, tf.ones([3, 3, 1, 1]), padding='SAME', data_format='NCHW')
        net = tf.nn.max_pool2d(net, 2, 2, 'SAME', data_format='NCHW')
        try:
            session.run(tf.gradients(net, images))
        except (tf.errors.UnimplementedError, tf.errors.InvalidArgumentError):
            return False
    return True
