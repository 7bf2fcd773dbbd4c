"""GRUs and other cells with one state."""

from tf_estimator.tf1.rnn.dense import linear

import tensorflow.compat.v1 as tf


class GRUBlockCellV2(tf.nn.rnn_cell.GRUCell):
    """A GRU. (K. Cho et al.: Learning Phrase Representations using RNN Encoder-Decoder, 2014.)"""

    def __init__(self, num_units=None, cell_size=None, reuse=None, name='gru_cell'):
        if (num_units is None) == (cell_size is None):
            raise ValueError('Exactly one of num_units or cell_size must be provided')
        super().__init__(num_units or cell_size, reuse=reuse, name=name)


class GRUBlockCell(GRUBlockCellV2):
    """A GRU with other names of its variables."""

    _names = {'gates/kernel': 'w_ru', 'gates/bias': 'b_ru', 'candidate/kernel': 'w_c', 'candidate/bias': 'b_c'}

    def add_weight(self, name, *args, **options):
        return super().add_weight(self._names[name], *args, **options)


class CudnnCompatibleGRUCell(tf.nn.rnn_cell.GRUCell):
    """The GRU of tf.contrib.cudnn_rnn on a CPU: the reset gate is after the matrix of the state."""

    def __init__(self, num_units, reuse=None, kernel_initializer=None):
        super().__init__(num_units, reuse=reuse, kernel_initializer=kernel_initializer)

    def build(self, input_shape):
        units, size = self._num_units, tf.compat.dimension_value(input_shape[1])
        shapes = {'gates/kernel': [size + units, 2 * units], 'gates/bias': [2 * units]}
        for kind, sizes in (('kernel', ([size], [units])), ('bias', ([], []))):
            for part, rows in zip(('input', 'hidden'), sizes):
                shapes[f'candidate/{part}_projection/{kind}'] = [*rows, units]
        starts = {
            'gates/bias': tf.ones_initializer(),
            **{name: self._kernel_initializer for name in shapes if 'kernel' in name},
        }
        self._made = [
            self.add_weight(name, shape, initializer=starts.get(name, tf.zeros_initializer())) for name, shape in shapes.items()
        ]
        self.built = True

    def call(self, inputs, state):
        w, b, w_new, w_old, b_new, b_old = self._made
        reset, update = tf.split(tf.sigmoid(tf.nn.xw_plus_b(tf.concat([inputs, state], 1), w, b)), 2, 1)
        new = tf.tanh(tf.nn.xw_plus_b(inputs, w_new, b_new) + reset * tf.nn.xw_plus_b(state, w_old, b_old))
        state = update * state + (1 - update) * new
        return state, state


class UGRNNCell(tf.nn.rnn_cell.RNNCell):
    """A cell with one gate. (J. Collins, J. Sohl-Dickstein, D. Sussillo: Capacity and Trainability in RNNs, 2017.)"""

    def __init__(self, num_units, initializer=None, forget_bias=1.0, activation=tf.tanh, reuse=None):
        super().__init__(_reuse=reuse)
        self._num_units, self._initializer = num_units, initializer
        self._forget_bias, self._activation = forget_bias, activation

    state_size = output_size = property(lambda self: self._num_units)

    def call(self, inputs, state):
        product = linear([inputs, state], 2 * self._num_units, True, kernel_initializer=self._initializer)
        gate, new = tf.split(product, 2, 1)
        kept = tf.sigmoid(gate + self._forget_bias)
        state = kept * state + (1 - kept) * self._activation(new)
        return state, state


class SRUCell(tf.nn.rnn_cell.RNNCell):
    """A cell whose state meets no matrix. (T. Lei et al.: Training RNNs as Fast as CNNs, 2017.)"""

    def __init__(self, num_units, activation=None, reuse=None, name=None, **options):
        super().__init__(_reuse=reuse, name=name, **options)
        self._num_units, self._activation = num_units, activation or tf.tanh

    state_size = output_size = property(lambda self: self._num_units)

    def call(self, inputs, state):
        new, *gates, passed = tf.split(linear(inputs, 4 * self._num_units, False), 4, 1)
        bias = tf.get_variable('bias', [2 * self._num_units], inputs.dtype, tf.zeros_initializer())
        forget, reset = tf.split(tf.sigmoid(tf.concat(gates, 1) + bias), 2, 1)
        state = forget * state + (1 - forget) * new
        return reset * self._activation(state) + (1 - reset) * passed, state
