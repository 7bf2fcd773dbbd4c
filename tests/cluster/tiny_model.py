"""A smooth network in float64, so that the order of sums hardly shows; as its hyper-parameters say, with words, batch norm."""

import os
import time

import tensorflow.compat.v1 as tf

from common.ops.batch_normalization import batch_normalization
from tests.cluster.tiny_data import WORDS


def get_params():
    return {'uses_words': False, 'normalizes': False}


def model(features, labels, mode, params):
    """Predicts y, after TINY_MODEL_SECONDS. The words' gradient is sparse, with no rows for examples without words."""
    time.sleep(float(os.environ.get('TINY_MODEL_SECONDS', 0)))
    x = tf.cast(features['x'], tf.float64)
    hidden = tf.tanh(tf.matmul(x, tf.get_variable('hidden', [3, 4], tf.float64)))
    y = tf.matmul(hidden, tf.get_variable('output', [4, 1], tf.float64))[:, 0]
    y += tf.get_variable('bias', [], tf.float64)
    if params.uses_words:
        table = tf.get_variable('words', [WORDS, 2], tf.float64)
        rows = tf.where(features['words'] > 0)
        found = tf.gather(table, tf.gather_nd(features['words'], rows))
        y += tf.math.unsorted_segment_sum(tf.reduce_sum(found, 1), rows[:, 0], tf.size(y))
    if params.normalizes:
        y = batch_normalization(y[:, tf.newaxis], mode == tf.estimator.ModeKeys.TRAIN)[:, 0]
    y = tf.cast(y, tf.float32)
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])
