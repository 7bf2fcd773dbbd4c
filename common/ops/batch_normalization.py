"""Batch normalization, for either layout of images."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError


def batch_normalization(tensor, is_training, data_format='NHWC', fused=None, momentum=0.99):
    """Normalizes each channel to mean 0 and variance 1, then scales and shifts it by learned factors.

    In training by the moments of the batch, else by moving averages of them. The averages' updates are in
    tf.GraphKeys.UPDATE_OPS, which the trainer runs with every step; under `make_parallel` they are the first tower's.
    A name for tf.layers.batch_normalization that knows which dimension holds the channels. (S. Ioffe, C. Szegedy: Batch
    Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift, 2015.)

    Args:
      tensor: float [batch, height, width, channels], or [batch, channels, height, width] for NCHW; with other ranks, the
        channels are the last dimension, or the second for NCHW.
      is_training: bool.
      data_format: 'NHWC' or 'NCHW'.
      fused: bool, whether one kernel does it all, for images only; None where it can. The moving average of the variance
        is then the unbiased estimate, larger by n / (n - 1) for n values of a channel in a batch.
      momentum: float in [0, 1), what the moving averages keep at each step.

    Returns:
      Tensor of the shape and dtype of `tensor`.

    Raises:
      UsageError: no such data_format.
    """
    return tf.layers.batch_normalization(
        tensor, axis=channel_axis(data_format), momentum=momentum, training=is_training, fused=fused
    )


def channel_axis(data_format):
    """Returns which dimension holds the channels; raises UsageError if there is no such data_format."""
    axes = {'NHWC': -1, 'NCHW': 1}
    if data_format not in axes:
        raise UsageError(f'data_format={data_format} is none of {", ".join(axes)}')
    return axes[data_format]
