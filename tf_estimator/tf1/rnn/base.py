"""The common base of LSTMs: their states, variables, step and projection."""

import sys

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import rnn_cell_impl

LSTMStateTuple = tf.nn.rnn_cell.LSTMStateTuple
# TensorFlow has a copy of Keras's class, which programs import from tensorflow.python.ops: all shall have the same.
_COPY = rnn_cell_impl.LSTMStateTuple
for _names in [getattr(module, '__dict__', {}) for module in [*sys.modules.values()]]:
    if _names.get('LSTMStateTuple') is _COPY:
        _names['LSTMStateTuple'] = LSTMStateTuple


class LSTM(tf.nn.rnn_cell.RNNCell):
    """An LSTM; subclasses have its variables, {name: (shape, initializer)} from the size of the inputs, in `_variables`.

    Args:
      num_proj: columns of the output, to which a matrix projects it; None for num_units, without a matrix.
    """

    _projection = ''  # The name of that matrix, the last variable.
    _initializer = None  # Of that matrix.

    def __init__(self, num_units, reuse=None, name=None, dtype=None, num_proj=None):
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._num_units, self._projected = num_units, num_proj

    @property
    def output_size(self):
        return self._projected or self._num_units

    @property
    def state_size(self):
        return LSTMStateTuple(self._num_units, self.output_size)

    def build(self, input_shape):
        shapes = self._variables(tf.compat.dimension_value(input_shape[1]))
        if self._projected:
            shapes[self._projection] = [self._num_units, self._projected], self._initializer
        self._made = {name: self.add_weight(name, shape, initializer=how) for name, (shape, how) in shapes.items()}
        self.built = True

    def _ended(self, c, h, clip=None):
        """Returns the output of a step and its state: h is projected, and clipped to [-clip, clip], if there is a num_proj."""
        if self._projected:
            h = tf.matmul(h, self._made[self._projection])
            h = h if clip is None else tf.clip_by_value(h, -clip, clip)
        return h, LSTMStateTuple(c, h)


def lstm_step(c, i, new, f, o, forget_bias, activation=tf.tanh, norm=lambda c: c):
    """Returns c and h after a step. (S. Hochreiter, J. Schmidhuber: Long Short-Term Memory, 1997.)

    Args:
      c: before it, [batch, ..., units], as the others.
      i, f, o: gates before their sigmoid.
      new: what the gate i lets in.
      norm: function of c, whose result takes its place.
    """
    c = norm(c * tf.sigmoid(f + forget_bias) + tf.sigmoid(i) * new)
    return c, activation(c) * tf.sigmoid(o)
