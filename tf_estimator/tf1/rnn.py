"""tf.contrib.rnn: the cells and functions that tf.nn lacks, with the variables' names of TensorFlow 1."""

import contextlib
import sys

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import rnn_cell_impl

LSTMStateTuple = tf.nn.rnn_cell.LSTMStateTuple
# TensorFlow has a copy of Keras's class, which programs import from tensorflow.python.ops: all shall have the same.
_COPY = rnn_cell_impl.LSTMStateTuple
for _names in [getattr(module, '__dict__', {}) for module in [*sys.modules.values()]]:
    if _names.get('LSTMStateTuple') is _COPY:
        _names['LSTMStateTuple'] = LSTMStateTuple

_PEEPHOLES = {'wci': 'w_i_diag', 'wcf': 'w_f_diag', 'wco': 'w_o_diag'}  # {argument of an op: variable}
_GATES = ('input', 'transform', 'forget', 'output')


class _LSTM(tf.nn.rnn_cell.RNNCell):
    """An LSTM with variables of these shapes and initializers, {name: (shape, initializer)}, as `_variables` returns them."""

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
        self._made = {name: self.add_weight(name, shape, initializer=how) for name, (shape, how) in shapes.items()}
        self.built = True


def _block_variables(input_size, units, use_peephole):
    """Returns the variables of an LSTM in one op."""
    shapes = {'kernel': ([input_size + units, 4 * units], None), 'bias': ([4 * units], tf.zeros_initializer())}
    return shapes | {name: ([units], None) for name in _PEEPHOLES.values() if use_peephole}


def _op_arguments(variables, use_peephole, dtype):
    """Returns the arguments of an op for its variables; without peepholes it ignores their values."""
    zeros = tf.zeros_like(variables['bias'][: variables['bias'].shape[0] // 4], dtype)
    peepholes = {gate: variables[name] if use_peephole else zeros for gate, name in _PEEPHOLES.items()}
    return {'w': variables['kernel'], 'b': variables['bias'], 'use_peephole': use_peephole, **peepholes}


class LSTMBlockCell(_LSTM):
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
    """A fused cell that reads sequences from their ends."""

    def __init__(self, cell):
        self._cell = cell

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        def turn(tensor):
            if isinstance(tensor, list):
                return tf.unstack(turn(tf.stack(tensor)))
            if sequence_length is None:
                return tf.reverse(tensor, [0])
            return tf.reverse_sequence(tensor, sequence_length, seq_axis=0, batch_axis=1)

        outputs, state = self._cell(turn(inputs), initial_state, dtype, sequence_length, scope)
        return turn(outputs), state


class LayerNormBasicLSTMCell(_LSTM):
    """An LSTM with layer normalization and recurrent dropout.

    (J. Ba, J. Kiros, G. Hinton: Layer Normalization, 2016; S. Semeniuta et al.: Recurrent Dropout without Memory Loss, 2016.)
    """

    def __init__(
        self,
        num_units,
        forget_bias=1.0,
        input_size=None,
        activation=tf.tanh,
        layer_norm=True,
        norm_gain=1.0,
        norm_shift=0.0,
        dropout_keep_prob=1.0,
        dropout_prob_seed=None,
        reuse=None,
    ):
        super().__init__(num_units, reuse)
        self._forget_bias, self._activation, self._has_norm = forget_bias, activation, layer_norm
        self._gain, self._shift = norm_gain, norm_shift
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    def _variables(self, input_size):
        shapes = {'kernel': ([input_size + self._num_units, 4 * self._num_units], None)}
        if not self._has_norm:
            return shapes | {'bias': ([4 * self._num_units], None)}  # Starts like the kernel, not with zeros.
        starts = {'gamma': tf.constant_initializer(self._gain), 'beta': tf.constant_initializer(self._shift)}
        return shapes | {
            f'{name}/{part}': ([self._num_units], how) for name in (*_GATES, 'state') for part, how in starts.items()
        }

    def _norm(self, value, name):
        if not self._has_norm:
            return value
        mean, variance = tf.nn.moments(value, [1], keepdims=True)
        gamma, beta = self._made[f'{name}/gamma'], self._made[f'{name}/beta']
        return tf.nn.batch_normalization(value, mean, variance, beta, gamma, 1e-12)

    def call(self, inputs, state):
        c, h = state
        product = tf.matmul(tf.concat([inputs, h], 1), self._made['kernel']) + self._made.get('bias', 0)
        i, j, f, o = (self._norm(gate, name) for gate, name in zip(tf.split(product, 4, 1), _GATES))
        new = self._activation(j)
        if isinstance(self._keep_prob, tf.Tensor) or self._keep_prob < 1:
            new = tf.nn.dropout(new, keep_prob=self._keep_prob, seed=self._seed)
        c = self._norm(c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * new, 'state')
        h = self._activation(c) * tf.sigmoid(o)
        return h, LSTMStateTuple(c, h)


class CoupledInputForgetGateLSTMCell(_LSTM):
    """An LSTM that adds what it forgets. (K. Greff et al.: LSTM: A Search Space Odyssey, 2015.)

    Like TensorFlow 1, it ignores the initializer: kernels start as others of their scope.
    """

    def __init__(
        self,
        num_units,
        use_peepholes=False,
        initializer=None,
        num_proj=None,
        proj_clip=None,
        num_unit_shards=1,
        num_proj_shards=1,
        forget_bias=1.0,
        state_is_tuple=True,
        activation=tf.tanh,
        reuse=None,
        layer_norm=False,
        norm_gain=1.0,
        norm_shift=0.0,
    ):
        super().__init__(num_units, reuse, num_proj=num_proj)
        if layer_norm or not (state_is_tuple and num_unit_shards == num_proj_shards == 1):
            raise ValueError('a CoupledInputForgetGateLSTMCell needs state_is_tuple=True, no shards and no layer_norm')
        self._has_peepholes, self._clip = use_peepholes, proj_clip
        self._forget_bias, self._activation = forget_bias, activation

    def _variables(self, input_size):
        width = 3 * self._num_units
        shapes = {'W_0': ([input_size + self.output_size, width], None), 'B': ([width], tf.zeros_initializer())}
        shapes |= {f'W_{gate}_diag': ([self._num_units], None) for gate in 'FO' if self._has_peepholes}
        return shapes | ({'W_P_0': ([self._num_units, self._projected], None)} if self._projected else {})

    def call(self, inputs, state):
        c, m = state
        new, f, o = tf.split(tf.matmul(tf.concat([inputs, m], 1), self._made['W_0']) + self._made['B'], 3, 1)
        kept = tf.sigmoid(f + self._forget_bias + self._made.get('W_F_diag', 0) * c)
        c = kept * c + (1 - kept) * self._activation(new)
        m = tf.sigmoid(o + self._made.get('W_O_diag', 0) * c) * self._activation(c)
        if self._projected:
            m = tf.matmul(m, self._made['W_P_0'])
            m = m if self._clip is None else tf.clip_by_value(m, -self._clip, self._clip)
        return m, LSTMStateTuple(c, m)


class NASCell(_LSTM):
    """A cell that was found by a search. (B. Zoph, Q. Le: Neural Architecture Search with Reinforcement Learning, 2017.)"""

    def __init__(self, num_units, num_proj=None, use_bias=False, reuse=None, **kwargs):
        super().__init__(num_units, reuse, num_proj=num_proj, **kwargs)
        self._has_bias = use_bias

    def _variables(self, input_size):
        width = 8 * self._num_units
        shapes = {'recurrent_kernel': ([self.output_size, width], None), 'kernel': ([input_size, width], None)}
        if self._has_bias:
            shapes['bias'] = ([width], tf.zeros_initializer())
        return shapes | ({'projection_weights': ([self._num_units, self._projected], None)} if self._projected else {})

    def call(self, inputs, state):
        c, m = state
        of_inputs = tf.split(tf.matmul(inputs, self._made['kernel']), 8, 1)
        of_state = tf.split(tf.matmul(m, self._made['recurrent_kernel']) + self._made.get('bias', 0), 8, 1)
        leaves = [x + y for x, y in zip(of_inputs, of_state)]
        leaves[3] = of_inputs[3] * of_state[3]
        functions = (tf.sigmoid, tf.nn.relu, tf.sigmoid, tf.nn.relu, tf.tanh, tf.sigmoid, tf.tanh, tf.sigmoid)
        n = [function(leaf) for function, leaf in zip(functions, leaves)]
        c = tf.tanh(c + tf.tanh(n[0] * n[1])) * tf.tanh(n[2] + n[3])
        m = tf.tanh(c * tf.tanh(tf.tanh(n[4] * n[5]) + tf.sigmoid(n[6] + n[7])))
        m = tf.matmul(m, self._made['projection_weights']) if self._projected else m
        return m, LSTMStateTuple(c, m)


class GLSTMCell(_LSTM):
    """An LSTM in groups of units, each with its part of the inputs and of the last output.

    (O. Kuchaiev, B. Ginsburg: Factorization Tricks for LSTM Networks, 2017.)
    """

    def __init__(
        self,
        num_units,
        initializer=None,
        num_proj=None,
        number_of_groups=1,
        forget_bias=1.0,
        activation=tf.tanh,
        reuse=None,
    ):
        super().__init__(num_units, reuse, num_proj=num_proj)
        if num_units % number_of_groups or self.output_size % number_of_groups:
            raise ValueError(f'num_units and num_proj must be divisible by number_of_groups={number_of_groups}')
        self._groups, self._initializer = number_of_groups, initializer
        self._forget_bias, self._activation = forget_bias, activation

    def _variables(self, input_size):
        if input_size % self._groups:
            raise ValueError(f'the size {input_size} of the inputs must be divisible by number_of_groups={self._groups}')
        shape = [(input_size + self.output_size) // self._groups, 4 * self._num_units // self._groups]
        shapes = {f'group{i}/kernel': (shape, self._initializer) for i in range(self._groups)}
        shapes |= {f'bias_{gate}': ([self._num_units], tf.zeros_initializer()) for gate in 'ijfo'}
        projection = {'projection/kernel': ([self._num_units, self._projected], self._initializer)}
        return shapes | (projection if self._projected else {})

    def call(self, inputs, state):
        c, m = state
        parts = enumerate(zip(tf.split(inputs, self._groups, 1), tf.split(m, self._groups, 1)))
        products = [tf.matmul(tf.concat(part, 1), self._made[f'group{i}/kernel']) for i, part in parts]
        gates = zip('ijfo', zip(*(tf.split(product, 4, 1) for product in products)))
        i, j, f, o = (tf.concat(gate, 1) + self._made[f'bias_{name}'] for name, gate in gates)
        c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * tf.tanh(j)
        m = self._activation(c) * tf.sigmoid(o)
        m = tf.matmul(m, self._made['projection/kernel']) if self._projected else m
        return m, LSTMStateTuple(c, m)


class IndRNNCell(_LSTM):
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

    state_size = _LSTM.state_size

    def call(self, inputs, state):
        c, h = state
        i, j, f, o = tf.split(self._product(inputs, h), 4, 1)
        c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * self._activation(j)
        h = self._activation(c) * tf.sigmoid(o)
        return h, LSTMStateTuple(c, h)


class PhasedLSTMCell(_LSTM):
    """An LSTM whose units open in phases of periods that they learn. (D. Neil, M. Pfeiffer, S. Liu: Phased LSTM, 2016.)

    Its inputs are pairs of times, [batch, 1], and features, [batch, size].

    Args:
      leak: how open a closed unit is, relative to the phase.
      ratio_on: the part of a period for which a unit opens and closes again.
      period_init_min, period_init_max: the least and the greatest first period.
    """

    def __init__(
        self,
        num_units,
        use_peepholes=False,
        leak=0.001,
        ratio_on=0.1,
        trainable_ratio_on=True,
        period_init_min=1.0,
        period_init_max=1000.0,
        reuse=None,
    ):
        super().__init__(num_units, reuse)
        self._has_peepholes, self._leak, self._ratio, self._is_ratio_learned = use_peepholes, leak, ratio_on, trainable_ratio_on
        self._periods = period_init_min, period_init_max

    def build(self, _):
        self.built = True

    def _phase(self, time):
        """Returns where in its period each unit is, from 0 to 1, and the ratio_on."""

        def any_period(shape, dtype=tf.float32, partition_info=None):
            return tf.exp(tf.random_uniform(shape, *(tf.log(tf.cast(end, dtype)) for end in self._periods), dtype))

        def any_phase(shape, dtype=tf.float32, partition_info=None):
            return tf.random_uniform(shape, 0, period.initial_value, dtype)

        period = tf.get_variable('period', [self._num_units], initializer=any_period)
        phase = tf.get_variable('phase', [self._num_units], initializer=any_phase)
        how = tf.constant_initializer(self._ratio)
        ratio = tf.get_variable('ratio_on', [self._num_units], initializer=how, trainable=self._is_ratio_learned)
        shifted, period = time - tf.cast(phase, time.dtype), tf.cast(period, time.dtype)
        rest = tf.stop_gradient(tf.floormod(shifted, period) - shifted) + shifted  # Has no gradient of whole periods.
        return tf.cast(rest / period, tf.float32), ratio

    def call(self, inputs, state):
        (time, x), (c_last, h_last), units = inputs, state, self._num_units
        with tf.variable_scope('mask_gates'):
            i, f = tf.split(tf.sigmoid(linear([x, h_last, *[c_last] * self._has_peepholes], 2 * units, True)), 2, 1)
        with tf.variable_scope('new_input'):
            c = f * c_last + i * tf.tanh(linear([x, h_last], units, True))
        with tf.variable_scope('output_gate'):
            h = tf.tanh(c) * tf.sigmoid(linear([x, h_last, *[c] * self._has_peepholes], units, True))
        phase, ratio = self._phase(time)
        rising = 2 * phase / ratio
        is_open = tf.where(phase < ratio, 2 - rising, self._leak * phase)
        is_open = tf.where(phase < 0.5 * ratio, rising, is_open)
        c, h = is_open * c + (1 - is_open) * c_last, is_open * h + (1 - is_open) * h_last
        return h, LSTMStateTuple(c, h)


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


class Linear:
    """A matrix, and a bias if there is one, for a tensor [batch, size], or several that are joined."""

    def __init__(self, args, output_size, build_bias, bias_initializer=None, kernel_initializer=None):
        parts = tf.nest.flatten(args)
        shape = [sum(tf.compat.dimension_value(part.shape[1]) for part in parts), output_size]
        self._kernel, self._bias = tf.get_variable('kernel', shape, parts[0].dtype, kernel_initializer), None
        if build_bias:
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


class ConvLSTMCell(tf.nn.rnn_cell.RNNCell):
    """An LSTM of pictures, by convolutions. (X. Shi et al.: Convolutional LSTM Network, 2015.)

    Args:
      conv_ndims: 1, 2 or 3.
      input_shape: of a picture, with its channels last.
      skip_connection: whether the inputs are joined to the outputs.
    """

    def __init__(
        self,
        conv_ndims,
        input_shape,
        output_channels,
        kernel_shape,
        use_bias=True,
        skip_connection=False,
        forget_bias=1.0,
        initializers=None,
        name='conv_lstm_cell',
    ):
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(f'Invalid input_shape {input_shape} for conv_ndims={conv_ndims}')
        self._sides, self._depth, self._joined = [*input_shape[:-1]], output_channels, input_shape[-1] * skip_connection
        self._kernel, self._use_bias, self._forget_bias = [*kernel_shape], use_bias, forget_bias

    @property
    def output_size(self):
        return tf.TensorShape([*self._sides, self._depth + self._joined])

    @property
    def state_size(self):
        return LSTMStateTuple(*[tf.TensorShape([*self._sides, self._depth])] * 2)

    def call(self, inputs, state):
        c, h = state
        joined, depth = tf.concat([inputs, h], -1), 4 * self._depth
        kernel = tf.get_variable('kernel', [*self._kernel, tf.compat.dimension_value(joined.shape[-1]), depth], inputs.dtype)
        gates = tf.nn.convolution(joined, kernel, padding='SAME')
        if self._use_bias:
            gates += tf.get_variable('biases', [depth], inputs.dtype, tf.zeros_initializer())
        i, j, f, o = tf.split(gates, 4, -1)
        c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return tf.concat([h, inputs], -1) if self._joined else h, LSTMStateTuple(c, h)


class Conv1DLSTMCell(ConvLSTMCell):
    def __init__(self, name='conv_1d_lstm_cell', **options):
        super().__init__(1, name=name, **options)


class Conv2DLSTMCell(ConvLSTMCell):
    def __init__(self, name='conv_2d_lstm_cell', **options):
        super().__init__(2, name=name, **options)


class Conv3DLSTMCell(ConvLSTMCell):
    def __init__(self, name='conv_3d_lstm_cell', **options):
        super().__init__(3, name=name, **options)


class _Wrapper(tf.nn.rnn_cell.RNNCell):
    def __init__(self, cell, reuse=None):
        super().__init__(_reuse=reuse)
        self._cell = cell

    @property
    def state_size(self):
        return self._cell.state_size

    @property
    def output_size(self):
        return self._cell.output_size

    def zero_state(self, batch_size, dtype):
        return self._cell.zero_state(batch_size, dtype)


class EmbeddingWrapper(_Wrapper):
    """A cell whose inputs are ids, int [batch] or [batch, 1]; without an initializer, embeddings have a variance of 1."""

    def __init__(self, cell, embedding_classes, embedding_size, initializer=None, reuse=None):
        super().__init__(cell, reuse)
        self._shape, self._initializer = [embedding_classes, embedding_size], initializer

    def call(self, inputs, state):
        initializer = (
            self._initializer or tf.get_variable_scope().initializer or tf.random_uniform_initializer(-(3**0.5), 3**0.5)
        )
        embedding = tf.get_variable('embedding', self._shape, tf.nest.flatten(state)[0].dtype, initializer)
        return self._cell(tf.nn.embedding_lookup(embedding, tf.reshape(inputs, [-1])), state)


class HighwayWrapper(_Wrapper):
    """A cell whose outputs gates mix with its inputs. (R. Srivastava, K. Greff, J. Schmidhuber: Highway Networks, 2015.)

    Args:
      couple_carry_transform_gates: whether what is not carried is transformed.
      carry_bias_init: the bias of the carry gate, and minus that of the transform gate.
    """

    def __init__(self, cell, couple_carry_transform_gates=True, carry_bias_init=1.0):
        super().__init__(cell)
        self._is_coupled, self._bias = couple_carry_transform_gates, carry_bias_init

    def __call__(self, inputs, state, scope=None):  # Its variables are in no scope of its own.
        outputs, state = self._cell(inputs, state, scope)
        inputs.shape.assert_is_compatible_with(outputs.shape)  # They would broadcast.
        carry = self._gate(inputs, 'carry', self._bias)
        transform = 1 - carry if self._is_coupled else self._gate(inputs, 'transform', -self._bias)
        return inputs * carry + outputs * transform, state

    def _gate(self, inputs, name, bias):
        size = tf.compat.dimension_value(inputs.shape[1])
        weights = tf.get_variable(f'{name}_w', [size, size], inputs.dtype)
        biases = tf.get_variable(f'{name}_b', [size], inputs.dtype, tf.constant_initializer(bias))
        return tf.sigmoid(tf.matmul(inputs, weights) + biases)


class InputProjectionWrapper(_Wrapper):
    """A cell whose inputs are first multiplied to num_proj columns."""

    def __init__(self, cell, num_proj, activation=None, input_size=None, reuse=None):
        super().__init__(cell, reuse)
        self._size, self._activation = num_proj, activation or tf.identity

    def call(self, inputs, state):
        return self._cell(self._activation(linear(inputs, self._size, True)), state)


class OutputProjectionWrapper(_Wrapper):
    """A cell whose outputs are multiplied to output_size columns."""

    def __init__(self, cell, output_size, activation=None, reuse=None):
        super().__init__(cell, reuse)
        self._size, self._activation = output_size, activation or tf.identity

    @property
    def output_size(self):
        return self._size

    def call(self, inputs, state):
        outputs, state = self._cell(inputs, state)
        return self._activation(linear(outputs, self._size, True)), state


class AttentionCellWrapper(_Wrapper):
    """A cell that attends to its last outputs. (J. Cheng, L. Dong, M. Lapata: LSTM-Networks for Machine Reading, 2016.)

    Args:
      attn_length: how many outputs.
      attn_size: of an output; by default that of the cell.
      attn_vec_size: of the keys; by default attn_size.
      input_size: of the cell's inputs; by default that of the wrapper's.
    """

    def __init__(self, cell, attn_length, attn_size=None, attn_vec_size=None, input_size=None, state_is_tuple=True, reuse=None):
        super().__init__(cell, reuse)
        if not state_is_tuple:
            raise ValueError('the state of an AttentionCellWrapper must be a tuple: use state_is_tuple=True')
        if attn_length <= 0:
            raise ValueError(f'attn_length should be greater than zero, not {attn_length}')
        self._length, self._size, self._input_size = attn_length, attn_size or cell.output_size, input_size
        self._keys_size = attn_vec_size or self._size

    output_size = property(lambda self: self._size)
    state_size = property(lambda self: (self._cell.state_size, self._size, self._size * self._length))
    zero_state = tf.nn.rnn_cell.RNNCell.zero_state  # Of more than the cell's.

    def call(self, inputs, state):
        state, attention, memory = state
        size = self._input_size or tf.compat.dimension_value(inputs.shape[1])
        outputs, state = self._cell(linear([inputs, attention], size, True), state)
        with tf.variable_scope('attention'):
            values = tf.reshape(memory, [-1, self._length, self._size])
            keys = tf.tensordot(values, tf.get_variable('attn_w', [1, 1, self._size, self._keys_size])[0, 0], 1)
            attention = attended(values, keys, tf.get_variable('attn_v', [self._keys_size]), state)
        with tf.variable_scope('attn_output_projection'):
            outputs = linear([outputs, attention], self._size, True)
        return outputs, (state, attention, tf.concat([memory[:, self._size :], outputs], 1))


def stack_bidirectional_dynamic_rnn(
    cells_fw,
    cells_bw,
    inputs,
    initial_states_fw=None,
    initial_states_bw=None,
    dtype=None,
    sequence_length=None,
    parallel_iterations=None,
    time_major=False,
    scope=None,
    swap_memory=False,
):
    """Returns the outputs of the last of several bidirectional layers, joined; and the tuples of states of both directions."""

    def layer(forward, backward, inputs, state_fw, state_bw):
        outputs, states = tf.nn.bidirectional_dynamic_rnn(
            forward, backward, inputs, sequence_length, state_fw, state_bw, dtype, parallel_iterations, swap_memory, time_major
        )
        return tf.concat(outputs, 2), *states

    return _stacked(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def stack_bidirectional_rnn(
    cells_fw,
    cells_bw,
    inputs,
    initial_states_fw=None,
    initial_states_bw=None,
    dtype=None,
    sequence_length=None,
    scope=None,
):
    """Like stack_bidirectional_dynamic_rnn, for a list of inputs [batch, size]."""

    def layer(forward, backward, inputs, state_fw, state_bw):
        scope = tf.get_variable_scope()  # Without a name of its own, unlike the dynamic function.
        return tf.nn.static_bidirectional_rnn(forward, backward, inputs, state_fw, state_bw, dtype, sequence_length, scope)

    return _stacked(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def _stacked(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope):
    if len(cells_fw) != len(cells_bw):
        raise ValueError(f'Forward and Backward cells should have the same depth, not {len(cells_fw)} and {len(cells_bw)}')
    if not cells_fw:
        raise ValueError('Must specify at least one cell of each direction')
    starts = [[None] * len(cells_fw) if states is None else states for states in (initial_states_fw, initial_states_bw)]
    if any(not isinstance(states, (list, tuple)) or len(states) != len(cells_fw) for states in starts):
        raise ValueError('initial_states_fw and initial_states_bw must be lists of states, one per layer')
    layers = zip(cells_fw, cells_bw, *starts)
    states = []
    with tf.variable_scope(scope or 'stack_bidirectional_rnn'):
        for i, (forward, backward, state_fw, state_bw) in enumerate(layers):
            with tf.variable_scope(f'cell_{i}'):
                inputs, *ends = layer(forward, backward, inputs, state_fw, state_bw)
            states.append(ends)
    return inputs, *zip(*states)
