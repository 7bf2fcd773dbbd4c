"""The seed of random ops that a restarted training repeats exactly."""

import zlib

import tensorflow.compat.v1 as tf


def step_seed():
    """Returns a seed for stateless random ops: a function of the graph's seed, the name scope and the global step.

    Every call gets another one. In the body of a loop it is the same for all iterations.

    Other random ops draw from the state of the process, so that a training which goes on from a checkpoint differs from
    one that never stopped.

    Returns:
      int64 [2].
    """
    graph = tf.get_default_graph()
    seed = graph.seed or 0
    while hasattr(graph, 'outer_graph'):  # The body of a loop is a graph of its own, where names begin anew.
        graph = graph.outer_graph
    key = zlib.crc32(graph.unique_name('seed').encode()) ^ seed
    return tf.stack([tf.constant(key, tf.int64), tf.cast(tf.train.get_or_create_global_step(), tf.int64)])
