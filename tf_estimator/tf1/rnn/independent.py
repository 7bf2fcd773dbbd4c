"""Cells whose units see only themselves."""

from tf_estimator.tf1.rnn.base import LSTM, lstm_step

import tensorflow.compat.v1 as tf

_NAMES = ('kernel_w', 'kernel_u', 'bias')


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
        self._initializer, self._bias_initializer = kernel_initializer, bias_initializer

    state_size = property(lambda self: self._num_units)

    def _variables(self, input_size):
        return self._some(input_size, self._gates, tf.zeros_initializer())

    def _some(self, input_size, gates, of_bias, names=_NAMES):
        """Returns the variables of a number of gates, by their names; of_bias is the initializer of biases by default."""
        width = gates * self._num_units
        shapes = [input_size, width], [1, width], [width]
        starts = self._initializer, tf.random_uniform_initializer(-1, 1), self._bias_initializer or of_bias
        return dict(zip(names, zip(shapes, starts)))

    def _product(self, inputs, h, names=_NAMES):
        w, u, b = (self._made[name] for name in names)
        gates = tf.compat.dimension_value(b.shape[0]) // self._num_units
        return tf.matmul(inputs, w) + tf.tile(h, [1, gates]) * u + b

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


class IndyGRUCell(IndRNNCell):
    """A GRU whose units see only themselves, as those of IndRNNCell."""

    _gate_names = ('gates/kernel_w', 'gates/kernel_u', 'gates/bias')
    _new_names = ('candidate/kernel', 'candidate/kernel_u', 'candidate/bias')

    def __init__(
        self,
        num_units,
        activation=None,
        reuse=None,
        kernel_initializer=None,
        bias_initializer=None,
        name=None,
        dtype=None,
    ):
        options = {'kernel_initializer': kernel_initializer, 'bias_initializer': bias_initializer}
        super().__init__(num_units, activation, reuse, name, dtype, **options)

    def _variables(self, input_size):
        gates = self._some(input_size, 2, tf.ones_initializer(), self._gate_names)
        return gates | self._some(input_size, 1, tf.zeros_initializer(), self._new_names)

    def call(self, inputs, state):
        reset, update = tf.split(tf.sigmoid(self._product(inputs, state, self._gate_names)), 2, 1)
        new = self._activation(self._product(inputs, reset * state, self._new_names))
        state = update * state + (1 - update) * new
        return state, state
