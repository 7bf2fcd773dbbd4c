"""Batch normalization, for either data format."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError


def batch_normalization(
    tensor: tf.Tensor, is_training: bool, data_format: str = 'NHWC', fused: bool | None = None, momentum: float = 0.99
) -> tf.Tensor:
    """Normalizes each channel to mean 0 and variance 1, then applies a learned scale and shift.

    Training uses the batch's moments, otherwise their moving averages are used. The updates of the averages are in
    tf.GraphKeys.UPDATE_OPS, which the trainer runs in every step; under `make_parallel` they are the first tower's.
    Wraps tf.layers.batch_normalization with the axis of the data format. (S. Ioffe, C. Szegedy: Batch Normalization:
    Accelerating Deep Network Training by Reducing Internal Covariate Shift, 2015.)

    Args:
      tensor: float [batch, height, width, channels], or [batch, channels, height, width] for NCHW; with other ranks, the
        channels are the last dimension, or the second for NCHW.
      is_training: whether to use the batch's moments, and to update the averages.
      data_format: 'NHWC' or 'NCHW'.
      fused: whether to use the fused kernel, for images only; None uses it if possible. The moving average of the variance
        is then the unbiased estimate, larger by n / (n - 1) for n values of a channel in a batch.
      momentum: in [0, 1), the decay of the moving averages.

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
