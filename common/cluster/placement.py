"""The placement of variables on parameter servers."""

import math

import tensorflow.compat.v1 as tf


class LeastLoaded:
    """A strategy for tf.train.replica_device_setter: the server with the fewest bytes so far gets the next variable.

    All tasks create the same variables in the same order, so they agree.
    """

    def __init__(self, num_servers: int):
        self._bytes = [0] * num_servers

    def __call__(self, op: tf.Operation) -> int:
        server = self._bytes.index(min(self._bytes))
        shape = tf.TensorShape(op.get_attr('shape'))
        self._bytes[server] += math.prod(shape.as_list()) * tf.as_dtype(op.get_attr('dtype')).size
        return server
