"""Probabilities from logits, cross-entropy and other losses."""

from collections.abc import Sequence
from typing import Any

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


def softmax_cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns -sum(labels * log(softmax(logits))) over the last dimension, in nats.

    An alias of tf.nn.softmax_cross_entropy_with_logits_v2, which is numerically stable and also differentiable with respect
    to the labels; the version without _v2 is not.

    Args:
      labels: float [..., num_classes], distributions: each sums to 1.
      logits: float [..., num_classes], of the dtype of `labels`.

    Returns:
      Tensor [...] of the dtype of `logits`.
    """
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)


def softmax_entropy(logits: tf.Tensor, dims: int | Sequence[int] = -1) -> tf.Tensor:
    """Returns the entropy of softmax(logits, dims), in nats: 0 for a certain outcome, log(n) for n equally likely ones.

    Args:
      logits: finite float tensor of any shape.
      dims: the dimensions over which the probabilities sum to 1.

    Returns:
      Tensor of the shape of `logits` without `dims`, of its dtype.
    """
    log_prob = log_prob_from_logits(logits, dims)
    return -tf.reduce_sum(tf.exp(log_prob) * log_prob, dims)


def gaussian_kl(q: tuple[Any, Any], p: tuple[Any, Any] = (0.0, 0.0)) -> tf.Tensor:
    """Returns KL(q || p) of two Gaussians with diagonal covariance, in nats.

    (D. Kingma, M. Welling: Auto-Encoding Variational Bayes, 2014, appendix B.)

    Args:
      q: (mu, log sigma^2), float tensors [..., depth]; log sigma^2 may be [..., 1] or a number, for an isotropic Gaussian.
      p: the same; by default the standard normal distribution.

    Returns:
      Tensor [...], 0 where the two are equal.
    """
    (mu_q, log_var_q), (mu_p, log_var_p) = q, p
    mu_q = tf.convert_to_tensor(mu_q, dtype_hint=tf.float32)
    log_var_q, log_var_p = (tf.convert_to_tensor(log_var, mu_q.dtype) for log_var in (log_var_q, log_var_p))
    log_ratio = log_var_q - log_var_p
    distance = tf.square(mu_q - mu_p) * tf.exp(-log_var_p)
    return 0.5 * tf.reduce_sum(tf.math.expm1(log_ratio) - log_ratio + distance, axis=-1)
