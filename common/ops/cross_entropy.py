"""Cross-entropy and entropy of softmax distributions, from logits."""

import tensorflow.compat.v1 as tf

from common.ops.softmax import log_prob_from_logits


def softmax_cross_entropy(labels, logits):
    """Returns -sum(labels * log(softmax(logits))) over the last dimension, in nats.

    A name for tf.nn.softmax_cross_entropy_with_logits_v2, which is stable, and differentiable in the labels too; the
    one without _v2 gives the labels no gradient.

    Args:
      labels: float [..., num_classes], distributions: each sums to 1.
      logits: float [..., num_classes], of the dtype of `labels`.

    Returns:
      Tensor [...] of the dtype of `logits`.
    """
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)


def softmax_entropy(logits, dims=-1):
    """Returns the entropy of softmax(logits, dims), in nats: 0 for a certain outcome, log(n) for n equal ones.

    Args:
      logits: finite float tensor of any shape.
      dims: int or list of int, the dimensions whose probabilities sum to 1 together.

    Returns:
      Tensor of the shape of `logits` without `dims`, of its dtype.
    """
    log_prob = log_prob_from_logits(logits, dims)
    return -tf.reduce_sum(tf.exp(log_prob) * log_prob, dims)
