"""Probabilities and log-probabilities of logits, over one dimension or several together."""

import tensorflow.compat.v1 as tf


def softmax(logits, dims=-1):
    """Returns exp(logits) divided by its sum over `dims`; no logits, however large, overflow.

    Args:
      logits: float tensor of any shape.
      dims: int or list of int, the dimensions that sum to 1 together.

    Returns:
      Tensor of the shape and dtype of `logits`.
    """
    return tf.exp(log_prob_from_logits(logits, dims))


def log_prob_from_logits(logits, dims=-1):
    """Returns log(softmax(logits, dims)), exact also where the softmax is 0 in floating point.

    Args:
      logits: float tensor of any shape.
      dims: int or list of int, the dimensions whose probabilities sum to 1 together.

    Returns:
      Tensor of the shape and dtype of `logits`.
    """
    shifted = logits - tf.stop_gradient(tf.reduce_max(logits, dims, keepdims=True))
    return shifted - tf.log(tf.reduce_sum(tf.exp(shifted), dims, keepdims=True))
