"""LSTMs in one op, for a step or for whole sequences."""

import contextlib

from tf_estimator.tf1.rnn.base import LSTM, LSTMStateTuple

import tensorflow.compat.v1 as tf

_PEEPHOLES = {'wci': 'w_i_diag', 'wcf': 'w_f_diag', 'wco': 'w_o_diag'}  # {argument of an op: variable}


def _block_variables(input_size, units, use_peephole):
    """Returns the variables of an LSTM in one op."""
    shapes = {'kernel': ([input_size + units, 4 * units], None), 'bias': ([4 * units], tf.zeros_initializer())}
    return shapes | {name: ([units], None) for name in _PEEPHOLES.values() if use_peephole}


def _op_arguments(variables, use_peephole, dtype):
    """Returns the arguments of an op for its variables; without peepholes it ignores their values."""
    zeros = tf.zeros_like(variables['bias'][: variables['bias'].shape[0] // 4], dtype)
    peepholes = {gate: variables[name] if use_peephole else zeros for gate, name in _PEEPHOLES.items()}
    return {'w': variables['kernel'], 'b': variables['bias'], 'use_peephole': use_peephole, **peepholes}


class LSTMBlockCell(LSTM):
    """An LSTM in one op. (W. Zaremba, I. Sutskever, O. Vinyals: Recurrent Neural Network Regularization, 2014.)"""

    def __init__(
        self, num_units, forget_bias=1.0, cell_clip=None, use_peephole=False, dtype=None, reuse=None, name='lstm_cell'
    ):
        super().__init__(num_units, reuse, name, dtype)
        self._options = {'forget_bias': forget_bias, 'cell_clip': -1 if cell_clip is None else cell_clip}
        self._use_peephole = use_peephole

    def _variables(self, input_size):
        return _block_variables(input_size, self._num_units, self._use_peephole)

    def call(self, inputs, state):
        arguments = _op_arguments(self._made, self._use_peephole, inputs.dtype)
        found = tf.raw_ops.LSTMBlockCell(x=inputs, cs_prev=state[0], h_prev=state[1], **arguments, **self._options)
        return found.h, LSTMStateTuple(found.cs, found.h)


def _lstm_gradient(op, *gradients):
    """TensorFlow 2 has an op for it, but does not call it."""
    x, cs_prev, h_prev, w, wci, wcf, wco, b = op.inputs
    i, cs, f, o, ci, co, _ = op.outputs
    of_cs, gates, *of_peepholes = tf.raw_ops.LSTMBlockCellGrad(
        **dict(x=x, cs_prev=cs_prev, h_prev=h_prev, w=w, wci=wci, wcf=wcf, wco=wco, b=b, i=i, cs=cs, f=f, o=o, ci=ci, co=co),
        cs_grad=gradients[1],
        h_grad=gradients[-1],
        use_peephole=op.get_attr('use_peephole'),
    )
    of_x, of_h = tf.split(tf.matmul(gates, w, transpose_b=True), [tf.shape(x)[1], tf.shape(h_prev)[1]], 1)
    of_w = tf.matmul(tf.concat([x, h_prev], 1), gates, transpose_a=True)
    return of_x, of_cs, of_h, of_w, *of_peepholes, tf.reduce_sum(gates, 0)


with contextlib.suppress(KeyError):  # A program has registered its own.
    tf.RegisterGradient('LSTMBlockCell')(_lstm_gradient)


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """The LSTM of tf.contrib.cudnn_rnn on a CPU."""

    def __init__(self, num_units, reuse=None):
        super().__init__(num_units, 0.0, reuse=reuse, name='cudnn_compatible_lstm_cell')


class LSTMBlockFusedCell:
    """LSTMBlockCell over whole sequences in one op.

    Args:
      num_units: size of the output.
    """

    def __init__(
        self, num_units, forget_bias=1.0, cell_clip=None, use_peephole=False, reuse=None, dtype=None, name='lstm_fused_cell'
    ):
        self._num_units, self._use_peephole, self._reuse, self._dtype, self._name = num_units, use_peephole, reuse, dtype, name
        self._options = {'forget_bias': forget_bias, 'cell_clip': -1 if cell_clip is None else cell_clip}
        self._scope = None

    @property
    def num_units(self):
        return self._num_units

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        """Returns the outputs, float [time, batch, num_units], 0 beyond the ends; and the LSTMStateTuple at the ends.

        Args:
          inputs: float [time, batch, size], or a list of [batch, size].
          initial_state: a pair (c, h); by default zeros.
          sequence_length: int [batch].
        """
        is_list = isinstance(inputs, list)
        inputs = tf.stack(inputs) if is_list else tf.convert_to_tensor(inputs)
        known = scope or self._scope or (self._name if self._reuse else None)  # A new name, unless variables are reused.
        with tf.variable_scope(known, self._name, reuse=True if self._scope else self._reuse) as made:
            self._scope = made
            dtype = self._dtype or dtype or inputs.dtype
            shapes = _block_variables(tf.compat.dimension_value(inputs.shape[2]), self._num_units, self._use_peephole)
            variables = {name: tf.get_variable(name, shape, dtype, how) for name, (shape, how) in shapes.items()}
        length, batch = tf.unstack(tf.shape(inputs)[:2])
        c, h = initial_state if initial_state is not None else [tf.zeros([batch, self._num_units], inputs.dtype)] * 2
        ends = None if sequence_length is None else tf.cast(sequence_length, tf.int32)
        found = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(length if ends is None else tf.reduce_max(ends), tf.int64),
            x=inputs,
            cs_prev=c,
            h_prev=h,
            **_op_arguments(variables, self._use_peephole, inputs.dtype),
            **self._options,
        )
        outputs, states = found.h, found.cs
        if ends is None:
            state = LSTMStateTuple(states[-1], outputs[-1])
        else:
            outputs *= tf.transpose(tf.sequence_mask(ends, length, inputs.dtype))[:, :, None]
            places = tf.stack([ends, tf.range(batch)], 1)  # Into the states before each step.
            state = LSTMStateTuple(
                *(tf.gather_nd(tf.concat([first[None], rest], 0), places) for first, rest in ((c, states), (h, outputs)))
            )
        return tf.unstack(outputs) if is_list else outputs, state


class TimeReversedFusedRNN:
    """A fused cell that reads sequences from their ends; lists of steps, from the last one."""

    def __init__(self, cell):
        self._cell = cell

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        def turn(tensor):
            if isinstance(tensor, list):
                return tensor[::-1]  # Whole, as in TensorFlow 1.
            if sequence_length is None:
                return tf.reverse(tensor, [0])
            return tf.reverse_sequence(tensor, sequence_length, seq_axis=0, batch_axis=1)

        outputs, state = self._cell(turn(inputs), initial_state, dtype, sequence_length, scope)
        return turn(outputs), state
