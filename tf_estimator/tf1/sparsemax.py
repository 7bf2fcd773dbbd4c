"""tf.contrib.sparsemax: probabilities of which some are 0. (A. Martins, R. Astudillo: From Softmax to Sparsemax, 2016.)"""

import tensorflow.compat.v1 as tf


def sparsemax(logits, name=None):
    """Returns the probabilities that are nearest to the logits, float [batch, classes]."""
    with tf.name_scope(name, 'sparsemax', [logits]):
        return tf.nn.relu(logits - _threshold(logits))


def sparsemax_loss(logits, sparsemax, labels, name=None):
    """Returns the losses of logits, float [batch], from their sparsemax and the probabilities of classes, as both are."""
    with tf.name_scope(name, 'sparsemax_loss', [logits, sparsemax, labels]):
        squares = tf.where(sparsemax > 0, tf.square(logits) - tf.square(_threshold(logits)), tf.zeros_like(logits))
        return tf.reduce_sum(squares / 2 + tf.square(labels) / 2 - labels * logits, 1)


def _threshold(logits):
    """Returns what sparsemax subtracts from the logits of each example, [batch, 1]."""
    ordered = tf.sort(logits, 1, 'DESCENDING')
    sums, ranks = tf.cumsum(ordered, 1), tf.cumsum(tf.ones_like(ordered), 1)
    count = tf.reduce_sum(tf.cast(1 + ranks * ordered > sums, tf.int32), 1, keepdims=True)
    return (tf.gather(sums, count - 1, axis=1, batch_dims=1) - 1) / tf.cast(count, logits.dtype)
