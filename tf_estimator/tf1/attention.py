"""Attention of tf.contrib.seq2seq: mechanisms, and the wrapper that gives a cell what they attend to."""

import collections

import numpy as np
import tensorflow.compat.v1 as tf


class AttentionMechanism:
    """Scores memory by a query.

    Args:
      num_units: depth of the query and of the keys.
      memory: float [batch, time, size].
      memory_sequence_length: int [batch]; what is beyond is not attended to.
      probability_fn: function from scores to weights, by default softmax.
      score_mask_value: of what is not attended to, by default minus infinity.
      custom_key_value_fn: function from keys and values to those that are used.
    """

    scope = ''

    def __init__(
        self,
        num_units,
        memory,
        memory_sequence_length=None,
        probability_fn=None,
        score_mask_value=None,
        dtype=None,
        custom_key_value_fn=None,
        name=None,
    ):
        memory = tf.convert_to_tensor(memory)
        self._num_units, self.dtype = num_units, dtype or memory.dtype
        self._mask = None
        if memory_sequence_length is not None:
            self._mask = tf.sequence_mask(memory_sequence_length, tf.shape(memory)[1])
            ones = [1] * (memory.shape.rank - 2)
            memory *= tf.cast(tf.reshape(self._mask, tf.concat([tf.shape(self._mask), ones], 0)), memory.dtype)
        self._mask_value = -np.inf if score_mask_value is None else score_mask_value
        self._probability_fn = probability_fn or tf.nn.softmax
        self.values, self.query_layer = memory, None
        self.memory_layer = tf.layers.Dense(num_units, name='memory_layer', use_bias=False, dtype=self.dtype)
        self.keys = self.memory_layer(memory)
        if custom_key_value_fn:
            self.keys, self.values = custom_key_value_fn(self.keys, self.values)
        self.batch_size = tf.compat.dimension_value(memory.shape[0]) or tf.shape(self.keys)[0]
        self.alignments_size = self.state_size = tf.compat.dimension_value(self.keys.shape[1]) or tf.shape(self.keys)[1]

    def initial_alignments(self, batch_size, dtype):
        return tf.zeros([batch_size, self.alignments_size], dtype)

    initial_state = initial_alignments

    def _score(self, query):
        raise NotImplementedError

    def __call__(self, query, state):
        """Returns the weights, float [batch, time], and the next state, which is the same."""
        with tf.variable_scope(None, self.scope, [query]):
            score = self._score(query if self.query_layer is None else self.query_layer(query))
        if self._mask is not None:
            score = tf.where(self._mask, score, tf.fill(tf.shape(score), tf.cast(self._mask_value, score.dtype)))
        alignments = self._probability_fn(score)
        return alignments, alignments


class LuongAttention(AttentionMechanism):
    """Multiplicative attention. (M. Luong et al.: Effective Approaches to Attention-based Neural Machine Translation, 2015.)"""

    scope = 'luong_attention'

    def __init__(self, num_units, memory, memory_sequence_length=None, scale=False, probability_fn=None, **options):
        super().__init__(num_units, memory, memory_sequence_length, probability_fn, **options)
        self._has_scale = scale

    def _score(self, query):
        score = tf.squeeze(tf.matmul(query[:, None], self.keys, transpose_b=True), 1)
        if not self._has_scale:
            return score
        return score * tf.get_variable('attention_g', [], query.dtype, tf.ones_initializer())


class BahdanauAttention(AttentionMechanism):
    """Additive attention. (D. Bahdanau et al.: Neural Machine Translation by Jointly Learning to Align and Translate, 2015;
    T. Salimans, D. Kingma: Weight Normalization, 2016.)
    """

    scope = 'bahdanau_attention'

    def __init__(self, num_units, memory, memory_sequence_length=None, normalize=False, probability_fn=None, **options):
        super().__init__(num_units, memory, memory_sequence_length, probability_fn, **options)
        self.query_layer = tf.layers.Dense(num_units, name='query_layer', use_bias=False, dtype=self.dtype)
        self._is_normalized = normalize

    def _score(self, query):
        v = tf.get_variable('attention_v', [self._num_units], query.dtype)
        summed = self.keys + query[:, None]
        if self._is_normalized:
            g = tf.get_variable('attention_g', [], query.dtype, tf.constant_initializer(self._num_units**-0.5))
            b = tf.get_variable('attention_b', [self._num_units], query.dtype, tf.zeros_initializer())
            v, summed = g * v * tf.rsqrt(tf.reduce_sum(tf.square(v))), summed + b
        return tf.reduce_sum(v * tf.tanh(summed), 2)


class AttentionWrapperState(
    collections.namedtuple(
        'AttentionWrapperState', ('cell_state', 'attention', 'time', 'alignments', 'alignment_history', 'attention_state')
    )
):
    """The state of an AttentionWrapper."""

    def clone(self, **kwargs):
        """Returns the state with other values."""
        return self._replace(**kwargs)


class AttentionWrapper(tf.nn.rnn_cell.RNNCell):
    """A cell that also reads what it attended to in the last step.

    Args:
      cell: an RNNCell.
      attention_mechanism: one, or a list.
      attention_layer_size: of the layer on the cell's output and the context, or a list; None for the context alone.
      alignment_history: whether the state has the weights of all steps, a TensorArray.
      cell_input_fn: function of the inputs and the attention; by default they are joined.
      output_attention: whether the output is the attention, as of Luong; else the cell's, as of Bahdanau.
      initial_cell_state: for zero_state.
      attention_layer: a layer, or a list, in place of attention_layer_size.
    """

    def __init__(
        self,
        cell,
        attention_mechanism,
        attention_layer_size=None,
        alignment_history=False,
        cell_input_fn=None,
        output_attention=True,
        initial_cell_state=None,
        name=None,
        attention_layer=None,
        attention_fn=None,
        dtype=None,
    ):
        super().__init__(name=name, dtype=dtype)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._attention_mechanisms = tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        count = len(self._attention_mechanisms)
        sizes = attention_layer_size if isinstance(attention_layer_size, (list, tuple)) else (attention_layer_size,)
        layers = attention_layer if isinstance(attention_layer, (list, tuple)) else (attention_layer,) * count
        sizes = sizes if len(sizes) == count else sizes * count
        self._layers_of = [
            layer or (size and tf.layers.Dense(size, name='attention_layer', use_bias=False, dtype=mechanism.dtype))
            for layer, size, mechanism in zip(layers, sizes, self._attention_mechanisms)
        ]
        self._sizes = [
            size or (layer.units if layer else tf.compat.dimension_value(mechanism.values.shape[-1]))
            for size, layer, mechanism in zip(sizes, self._layers_of, self._attention_mechanisms)
        ]
        self._cell, self._has_history, self._output_attention = cell, alignment_history, output_attention
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._initial_cell_state = initial_cell_state
        self._attention_fn = attention_fn or _attend

    def _one_or_all(self, values):
        return tuple(values) if self._is_multi else next(iter(values))

    @property
    def output_size(self):
        return sum(self._sizes) if self._output_attention else self._cell.output_size

    @property
    def state_size(self):
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            time=tf.TensorShape([]),
            attention=sum(self._sizes),
            alignments=self._one_or_all(mechanism.alignments_size for mechanism in self._attention_mechanisms),
            attention_state=self._one_or_all(mechanism.state_size for mechanism in self._attention_mechanisms),
            alignment_history=self._one_or_all(
                mechanism.alignments_size if self._has_history else () for mechanism in self._attention_mechanisms
            ),
        )

    def zero_state(self, batch_size, dtype):
        """Returns the state before the first step."""
        cell_state = self._initial_cell_state
        if cell_state is None:
            cell_state = self._cell.zero_state(batch_size, dtype)
        alignments = [mechanism.initial_alignments(batch_size, dtype) for mechanism in self._attention_mechanisms]
        return AttentionWrapperState(
            cell_state=tf.nest.map_structure(tf.identity, cell_state),
            time=tf.zeros([], tf.int32),
            attention=tf.zeros([batch_size, sum(self._sizes)], dtype),
            alignments=self._one_or_all(alignments),
            attention_state=self._one_or_all(
                mechanism.initial_state(batch_size, dtype) for mechanism in self._attention_mechanisms
            ),
            alignment_history=self._one_or_all(
                tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=alignment.shape) if self._has_history else ()
                for alignment in alignments
            ),
        )

    @tf.autograph.experimental.do_not_convert
    def call(self, inputs, state):
        outputs, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        states = state.attention_state if self._is_multi else (state.attention_state,)
        histories = state.alignment_history if self._is_multi else (state.alignment_history,)
        found = [
            self._attention_fn(mechanism, outputs, previous, layer)
            for mechanism, previous, layer in zip(self._attention_mechanisms, states, self._layers_of)
        ]
        attentions, alignments, next_states = zip(*found)
        attention = tf.concat(attentions, 1)
        if self._has_history:
            histories = [history.write(state.time, weights) for history, weights in zip(histories, alignments)]
        state = AttentionWrapperState(
            cell_state=cell_state,
            time=state.time + 1,
            attention=attention,
            alignments=self._one_or_all(alignments),
            attention_state=self._one_or_all(next_states),
            alignment_history=self._one_or_all(histories),
        )
        return attention if self._output_attention else outputs, state


def _attend(mechanism, outputs, state, layer):
    alignments, state = mechanism(outputs, state=state)
    context = tf.squeeze(tf.matmul(alignments[:, None], mechanism.values), 1)
    attention = layer(tf.concat([outputs, context], 1)) if layer else context
    return attention, alignments, state
