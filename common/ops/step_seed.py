"""The seed of random ops that are reproducible when training resumes."""

import zlib

import tensorflow.compat.v1 as tf


def step_seed() -> tf.Tensor:
    """Returns a seed for stateless random ops: a function of the graph's seed, the name scope and the global step.

    Every call returns a different seed. In a loop body it is the same for all iterations.

    Stateful random ops keep their state in the process, so that a training resumed from a checkpoint would differ from an
    uninterrupted one.

    Returns:
      int64 [2].
    """
    graph = tf.get_default_graph()
    seed = graph.seed or 0
    while hasattr(graph, 'outer_graph'):  # A loop body is a separate graph, with its own unique names.
        graph = graph.outer_graph
    key = zlib.crc32(graph.unique_name('seed').encode()) ^ seed
    return tf.stack([tf.constant(key, tf.int64), tf.cast(tf.train.get_or_create_global_step(), tf.int64)])
