"""The seed of random ops that a restarted training repeats exactly."""

import zlib

import tensorflow.compat.v1 as tf


def step_seed(scope):
    """Returns a seed for stateless random ops: a function of the graph's seed, a name and the global step.

    Other random ops draw from the state of the process, so that a training which goes on from a checkpoint differs from
    one that never stopped.

    Args:
      scope: str, the name scope of the op, which sets it apart from the graph's other ones.

    Returns:
      int64 [2].
    """
    key = zlib.crc32(scope.encode()) ^ (tf.get_default_graph().seed or 0)
    return tf.stack([tf.constant(key, tf.int64), tf.cast(tf.train.get_or_create_global_step(), tf.int64)])
