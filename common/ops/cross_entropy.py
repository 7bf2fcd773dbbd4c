"""Cross-entropy and entropy of softmax distributions, from logits."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from common.ops.softmax import log_prob_from_logits


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
