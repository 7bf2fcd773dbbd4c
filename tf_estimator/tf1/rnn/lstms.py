"""Variants of the LSTM."""

from tf_estimator.tf1.rnn.base import LSTM, lstm_step

import tensorflow.compat.v1 as tf

_GATES = ('input', 'transform', 'forget', 'output')


class LayerNormBasicLSTMCell(LSTM):
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
        return tf.nn.batch_normalization(value, mean, variance, beta, gamma, 1e-3 if value.dtype == tf.float16 else 1e-12)

    def call(self, inputs, state):
        c, h = state
        product = tf.matmul(tf.concat([inputs, h], 1), self._made['kernel']) + self._made.get('bias', 0)
        i, j, f, o = (self._norm(gate, name) for gate, name in zip(tf.split(product, 4, 1), _GATES))
        new = self._activation(j)
        if isinstance(self._keep_prob, tf.Tensor) or self._keep_prob < 1:
            new = tf.nn.dropout(new, keep_prob=self._keep_prob, seed=self._seed)
        step = lstm_step(c, i, new, f, o, self._forget_bias, self._activation, lambda c: self._norm(c, 'state'))
        return self._ended(*step)


class CoupledInputForgetGateLSTMCell(LSTM):
    """An LSTM that adds what it forgets. (K. Greff et al.: LSTM: A Search Space Odyssey, 2015.)

    Like TensorFlow 1, it ignores the initializer: kernels start as others of their scope.
    """

    _projection = 'W_P_0'

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
        return shapes | {f'W_{gate}_diag': ([self._num_units], None) for gate in 'FO' if self._has_peepholes}

    def call(self, inputs, state):
        c, m = state
        new, f, o = tf.split(tf.matmul(tf.concat([inputs, m], 1), self._made['W_0']) + self._made['B'], 3, 1)
        kept = tf.sigmoid(f + self._forget_bias + self._made.get('W_F_diag', 0) * c)
        c = kept * c + (1 - kept) * self._activation(new)
        m = tf.sigmoid(o + self._made.get('W_O_diag', 0) * c) * self._activation(c)
        return self._ended(c, m, self._clip)


class GLSTMCell(LSTM):
    """An LSTM in groups of units, each with its part of the inputs and of the last output.

    (O. Kuchaiev, B. Ginsburg: Factorization Tricks for LSTM Networks, 2017.)
    """

    _projection = 'projection/kernel'

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
        return shapes | {f'bias_{gate}': ([self._num_units], tf.zeros_initializer()) for gate in 'ijfo'}

    def call(self, inputs, state):
        c, m = state
        parts = enumerate(zip(tf.split(inputs, self._groups, 1), tf.split(m, self._groups, 1)))
        products = [tf.matmul(tf.concat(part, 1), self._made[f'group{i}/kernel']) for i, part in parts]
        gates = zip('ijfo', zip(*(tf.split(product, 4, 1) for product in products)))
        i, j, f, o = (tf.concat(gate, 1) + self._made[f'bias_{name}'] for name, gate in gates)
        return self._ended(*lstm_step(c, i, tf.tanh(j), f, o, self._forget_bias, self._activation))


class NASCell(LSTM):
    """A cell that was found by a search. (B. Zoph, Q. Le: Neural Architecture Search with Reinforcement Learning, 2017.)"""

    _projection = 'projection_weights'

    def __init__(self, num_units, num_proj=None, use_bias=False, reuse=None, **kwargs):
        super().__init__(num_units, reuse, num_proj=num_proj, **kwargs)
        self._has_bias = use_bias

    def _variables(self, input_size):
        width = 8 * self._num_units
        shapes = {'recurrent_kernel': ([self.output_size, width], None), 'kernel': ([input_size, width], None)}
        return shapes | ({'bias': ([width], tf.zeros_initializer())} if self._has_bias else {})

    def call(self, inputs, state):
        c, m = state
        of_inputs = tf.split(tf.matmul(inputs, self._made['kernel']), 8, 1)
        of_state = tf.split(tf.matmul(m, self._made['recurrent_kernel']) + self._made.get('bias', 0), 8, 1)
        leaves = [x + y for x, y in zip(of_inputs, of_state)]
        leaves[3] = of_inputs[3] * of_state[3]
        functions = (tf.sigmoid, tf.nn.relu, tf.sigmoid, tf.nn.relu, tf.tanh, tf.sigmoid, tf.tanh, tf.sigmoid)
        n = [function(leaf) for function, leaf in zip(functions, leaves)]
        c = tf.tanh(c + tf.tanh(n[0] * n[1])) * tf.tanh(n[2] + n[3])
        return self._ended(c, tf.tanh(c * tf.tanh(tf.tanh(n[4] * n[5]) + tf.sigmoid(n[6] + n[7]))))
