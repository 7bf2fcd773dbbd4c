"""Cells whose units see only themselves."""

from tf_estimator.tf1.rnn.base import LSTM, lstm_step

import tensorflow.compat.v1 as tf


class IndRNNCell(LSTM):
    """A cell whose units see only themselves. (S. Li et al.: Independently Recurrent Neural Network, 2018.)"""

    _gates = 1

    def __init__(
        self,
        num_units,
        activation=None,
        reuse=None,
        name=None,
        dtype=None,
        *,
        kernel_initializer=None,
        bias_initializer=None,
    ):
        super().__init__(num_units, reuse, name, dtype)
        self._activation = activation or tf.tanh
        self._initializer, self._bias_initializer = kernel_initializer, bias_initializer or tf.zeros_initializer()

    state_size = property(lambda self: self._num_units)

    def _variables(self, input_size):
        width = self._gates * self._num_units
        return {
            'kernel_w': ([input_size, width], self._initializer),
            'kernel_u': ([1, width], tf.random_uniform_initializer(-1, 1)),
            'bias': ([width], self._bias_initializer),
        }

    def _product(self, inputs, h):
        made = self._made
        return tf.matmul(inputs, made['kernel_w']) + tf.tile(h, [1, self._gates]) * made['kernel_u'] + made['bias']

    def call(self, inputs, state):
        state = self._activation(self._product(inputs, state))
        return state, state


class IndyLSTMCell(IndRNNCell):
    """An LSTM whose units see only themselves. (P. Gonnet, T. Deselaers: IndyLSTMs, 2019.)"""

    _gates = 4

    def __init__(
        self,
        num_units,
        forget_bias=1.0,
        activation=None,
        reuse=None,
        kernel_initializer=None,
        bias_initializer=None,
        name=None,
        dtype=None,
    ):
        options = {'kernel_initializer': kernel_initializer, 'bias_initializer': bias_initializer}
        super().__init__(num_units, activation, reuse, name, dtype, **options)
        self._forget_bias = forget_bias

    state_size = LSTM.state_size

    def call(self, inputs, state):
        c, h = state
        i, j, f, o = tf.split(self._product(inputs, h), 4, 1)
        return self._ended(*lstm_step(c, i, self._activation(j), f, o, self._forget_bias, self._activation))
