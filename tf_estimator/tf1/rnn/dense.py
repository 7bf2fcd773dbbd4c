"""Matrices for several inputs, and attention by them."""

import tensorflow.compat.v1 as tf


class Linear:
    """A matrix, and a bias if there is one, for a tensor [batch, size], or several that are joined."""

    def __init__(self, args, output_size, build_bias, bias_initializer=None, kernel_initializer=None):
        parts = tf.nest.flatten(args)
        shape = [sum(tf.compat.dimension_value(part.shape[1]) for part in parts), output_size]
        self._kernel, self._bias = tf.get_variable('kernel', shape, parts[0].dtype, kernel_initializer), None
        if build_bias:
            with tf.variable_scope(tf.get_variable_scope(), auxiliary_name_scope=False) as scope:
                scope.set_partitioner(None)  # It divides the matrix only.
                self._bias = tf.get_variable('bias', shape[1:], parts[0].dtype, bias_initializer or tf.zeros_initializer())

    def __call__(self, args):
        product = tf.matmul(tf.concat(tf.nest.flatten(args), 1), self._kernel)
        return product if self._bias is None else product + self._bias


def linear(args, output_size, bias, bias_initializer=None, kernel_initializer=None):
    return Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)


def attended(values, keys, v, query):
    """Returns the mean of values [batch, time, size], weighted by scores of their keys and a query, which may be a nest."""
    scores = tf.reduce_sum(v * tf.tanh(keys + linear(query, tf.compat.dimension_value(v.shape[0]), True)[:, None]), 2)
    return tf.reduce_sum(tf.nn.softmax(scores)[:, :, None] * values, 1)
