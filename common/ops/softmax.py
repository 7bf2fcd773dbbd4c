"""Probabilities and log-probabilities from logits, over one or several dimensions."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf


def softmax(logits: tf.Tensor, dims: int | Sequence[int] = -1) -> tf.Tensor:
    """Returns exp(logits) divided by its sum over `dims`; large logits do not overflow.

    Args:
      logits: float tensor of any shape.
      dims: the dimensions over which the probabilities sum to 1.

    Returns:
      Tensor of the shape and dtype of `logits`.
    """
    return tf.exp(log_prob_from_logits(logits, dims))


def log_prob_from_logits(logits: tf.Tensor, dims: int | Sequence[int] = -1) -> tf.Tensor:
    """Returns log(softmax(logits, dims)), accurate even if the softmax underflows to 0.

    Args:
      logits: float tensor of any shape.
      dims: the dimensions over which the probabilities sum to 1.

    Returns:
      Tensor of the shape and dtype of `logits`.
    """
    shifted = logits - tf.stop_gradient(tf.reduce_max(logits, dims, keepdims=True))
    return shifted - tf.log(tf.reduce_sum(tf.exp(shifted), dims, keepdims=True))
