"""Cells that wrap another."""

from tf_estimator.tf1.rnn.dense import attended, linear

import tensorflow.compat.v1 as tf


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
