"""Layers: stacks of convolutional or dense layers, batch norm, dropout, merging with broadcasting."""

from collections.abc import Callable, Sequence
import functools

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.ops.mixed_precision import biased_relu
from estimator_trainer.common.ops.pooling import relu_max_pool
from estimator_trainer.common.ops.random import step_seed


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
      batch_norm: whether to use batch norm, whose bias replaces that of the convolutions.
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
    learns_on_cpu = is_training and not tf.config.list_physical_devices('GPU')
    pools_relu = learns_on_cpu and activation is tf.nn.relu and pool_size > 1 and not batch_norm
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
        if pools_relu:
            convolved, bias = net.op.inputs  # Of the layer's BiasAdd.
            net = relu_max_pool(convolved, bias, pool_size, data_format)
        else:
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
    if is_training and activation is tf.nn.relu and not batch_norm:
        activation = biased_relu
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
    """Whether this machine runs convolutions and pooling in NCHW: on GPUs, and on CPUs if TensorFlow uses oneDNN."""
    if tf.config.list_physical_devices('GPU'):
        return True
    if tf.__version__.startswith('2.15.'):
        return False  # On CPUs, its NCHW max-pooling returns wrong values that vary between runs.
    with tf.Graph().as_default(), tf.Session() as session:
        images = tf.ones([1, 1, 4, 4])
        net = tf.nn.conv2d(images, tf.ones([3, 3, 1, 1]), padding='SAME', data_format='NCHW')
        net = tf.nn.max_pool2d(net, 2, 2, 'SAME', data_format='NCHW')
        try:
            session.run(tf.gradients(net, images))
        except (tf.errors.UnimplementedError, tf.errors.InvalidArgumentError):
            return False
    return True


def batch_normalization(
    tensor: tf.Tensor, is_training: bool, data_format: str = 'NHWC', fused: bool | None = None, momentum: float = 0.99
) -> tf.Tensor:
    """Normalizes each channel to mean 0 and variance 1, then applies a learned scale and shift.

    Training uses the batch's moments, inference their moving averages. The updates of the averages are in
    tf.GraphKeys.UPDATE_OPS, which the trainer runs in every step, at first with a smaller momentum: min(momentum,
    (1 + step) / (10 + step)), so that the averages soon forget their initial values. Under `make_parallel` they are the first
    tower's. Wraps tf.layers.batch_normalization with the axis of the data format. (S. Ioffe, C. Szegedy: Batch Normalization:
    Accelerating Deep Network Training by Reducing Internal Covariate Shift, 2015.)

    Args:
      tensor: float [batch, height, width, channels], or [batch, channels, height, width] for NCHW; with other ranks, the
        channels are the last dimension, or the second for NCHW.
      is_training: whether to use the batch's moments, and to update the averages.
      data_format: 'NHWC' or 'NCHW'.
      fused: whether to use the fused kernel, for images only; None uses it if possible. The moving average of the variance
        is then the unbiased estimate, larger by n / (n - 1) for n values of a channel in a batch.
      momentum: in [0, 1), the decay of the moving averages after the first steps.

    Returns:
      Tensor of the shape and dtype of `tensor`.

    Raises:
      UsageError: unknown data_format.
    """
    return tf.layers.batch_normalization(
        tensor, axis=channel_axis(data_format), momentum=momentum, training=is_training, fused=fused
    )


def channel_axis(data_format: str) -> int:
    """Returns the axis of the channels; raises UsageError for an unknown data_format."""
    axes = {'NHWC': -1, 'NCHW': 1}
    if data_format not in axes:
        raise UsageError(f'data_format={data_format} is none of {", ".join(axes)}')
    return axes[data_format]


def dropout(tensor: tf.Tensor, drop_rate: float, is_training: bool) -> tf.Tensor:
    """Sets random elements to 0 and scales up the others, so that the expected sum is unchanged.

    The mask is a function of the graph's seed, the op's name and the global step; in a loop, such as that of a recurrent
    network, it is the same in every iteration. (N. Srivastava et al.: Dropout: a simple way to prevent neural networks from
    overfitting, 2014.)

    Args:
      tensor: float tensor of any shape.
      drop_rate: in [0, 1), the probability that an element is dropped; 0 does nothing.
      is_training: False does nothing.

    Returns:
      Tensor of the shape and dtype of `tensor`.
    """
    if not is_training or drop_rate == 0:
        return tensor
    with tf.name_scope('dropout'):
        return tf.nn.experimental.stateless_dropout(tensor, drop_rate, step_seed())


def leaky_relu(tensor: tf.Tensor, alpha: float = 0.1) -> tf.Tensor:
    """Returns max(x, alpha * x): tf.nn.leaky_relu with a steeper default slope.

    (A. Maas, A. Hannun, A. Ng: Rectifier Nonlinearities Improve Neural Network Acoustic Models, 2013.)

    Args:
      tensor: float tensor of any shape.
      alpha: in [0, 1], the slope below 0.

    Returns:
      Tensor of the shape and dtype of `tensor`.
    """
    return tf.nn.leaky_relu(tensor, alpha)


def merge(tensors: Sequence[tf.Tensor], units: int, activation: Callable[[tf.Tensor], tf.Tensor] | None = None) -> tf.Tensor:
    """Projects each tensor to `units` and adds them with broadcasting.

    Equivalent to tiling the tensors to one shape, concatenating them and applying a dense layer whose kernel stacks the
    projections' kernels. But projecting before broadcasting takes less time and memory. (After the guide Effective TensorFlow,
    chapter "Broadcasting the good and the ugly".)

    Args:
      tensors: float tensors [..., depth_i], whose other dimensions broadcast, such as [batch, height, width, 64] and
        [batch, 1, 1, 10]. Each depth_i is static.
      units: size of the output's last dimension.
      activation: applied to the sum, or None.

    Returns:
      Tensor [..., units]. The variables are in the scope 'merge': a kernel for each tensor, and one bias.
    """
    with tf.variable_scope(None, 'merge'):
        projected = [tf.layers.dense(tensor, units, use_bias=i == 0, name=f'project_{i}') for i, tensor in enumerate(tensors)]
        merged = sum(projected[1:], projected[0])
        return activation(merged) if activation else merged
