"""Attention of tf.contrib.seq2seq: mechanisms, and the wrapper that gives a cell what they attend to."""

import collections

import numpy as np
import tensorflow.compat.v1 as tf


class AttentionMechanism:
    """Scores memory by a query."""


class _BaseAttentionMechanism(AttentionMechanism):
    """Keys and values of memory. Subclasses of programs use its private names, too, which are those of TensorFlow 1.

    Args:
      query_layer: a layer, or None for the query itself.
      memory: float [batch, time, size].
      probability_fn: function from scores, [batch, time], and the state to weights.
      memory_sequence_length: int [batch], from 1 on; what is beyond is not attended to.
      memory_layer: a layer from memory to keys.
      score_mask_value: of what is not attended to, by default minus infinity.
      custom_key_value_fn: function from keys and values to those that are used.
    """

    def __init__(
        self,
        query_layer,
        memory,
        probability_fn,
        memory_sequence_length=None,
        memory_layer=None,
        check_inner_dims_defined=True,
        score_mask_value=None,
        custom_key_value_fn=None,
        name=None,
    ):
        memory = tf.convert_to_tensor(memory)
        if memory_sequence_length is not None:
            mask = tf.sequence_mask(memory_sequence_length, tf.shape(memory)[1], memory.dtype)
            memory *= tf.reshape(mask, tf.concat([tf.shape(mask), [1] * (memory.shape.rank - 2)], 0))
        self._query_layer, self._memory_layer, self._values = query_layer, memory_layer, memory
        self.dtype = memory_layer.dtype if memory_layer else memory.dtype
        mask_value = -np.inf if score_mask_value is None else score_mask_value
        self._probability_fn = lambda score, state: probability_fn(
            _maybe_mask_score(score, memory_sequence_length, mask_value), state
        )
        self._keys = memory_layer(memory) if memory_layer else memory
        if custom_key_value_fn:
            self._keys, self._values = custom_key_value_fn(self._keys, self._values)
        self._batch_size, self._alignments_size = (
            tf.compat.dimension_value(self._keys.shape[i]) or tf.shape(self._keys)[i] for i in (0, 1)
        )

    query_layer = property(lambda self: self._query_layer)
    memory_layer = property(lambda self: self._memory_layer)
    values = property(lambda self: self._values)
    keys = property(lambda self: self._keys)
    batch_size = property(lambda self: self._batch_size)
    alignments_size = property(lambda self: self._alignments_size)
    state_size = property(lambda self: self._alignments_size)

    def initial_alignments(self, batch_size, dtype):
        return tf.zeros([batch_size, self._alignments_size], dtype)

    def initial_state(self, batch_size, dtype):
        return self.initial_alignments(batch_size, dtype)


def _maybe_mask_score(score, memory_sequence_length, score_mask_value):
    if memory_sequence_length is None:
        return score
    message = 'All values in memory_sequence_length must be greater than zero.'
    with tf.control_dependencies([tf.debugging.assert_positive(memory_sequence_length, message=message)]):
        mask = tf.sequence_mask(memory_sequence_length, tf.shape(score)[1])
    return tf.where(mask, score, tf.fill(tf.shape(score), tf.cast(score_mask_value, score.dtype)))


def _dense(num_units, name, dtype):
    return tf.layers.Dense(num_units, name=name, use_bias=False, dtype=dtype or tf.float32)


class _DenseAttention(_BaseAttentionMechanism):
    """A mechanism with a dense layer on memory, and perhaps one on the query.

    Args:
      num_units: depth of the layers.
      probability_fn: function from scores to weights, by default softmax.
    """

    _scope = ''

    def __init__(
        self,
        has_query_layer,
        num_units,
        memory,
        memory_sequence_length,
        probability_fn=None,
        score_mask_value=None,
        dtype=None,
        custom_key_value_fn=None,
        name=None,
    ):
        super().__init__(
            _dense(num_units, 'query_layer', dtype) if has_query_layer else None,
            memory,
            self._weights,
            memory_sequence_length,
            _dense(num_units, 'memory_layer', dtype),
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
        )
        self._num_units, self._weights_of_scores = num_units, probability_fn or tf.nn.softmax

    def _weights(self, score, state):
        return self._weights_of_scores(score)

    def __call__(self, query, state):
        """Returns the weights, float [batch, time], and the next state, which is the same."""
        with tf.variable_scope(None, self._scope, [query]):
            score = self._score(query)
        alignments = self._probability_fn(score, state)
        return alignments, alignments

    def _score(self, query):
        raise NotImplementedError


class LuongAttention(_DenseAttention):
    """Multiplicative attention. (M. Luong et al.: Effective Approaches to Attention-based Neural Machine Translation, 2015.)

    Args:
      scale: whether a variable scales the scores.
      others, options: of any mechanism, from probability_fn on.
    """

    _scope = 'luong_attention'

    def __init__(self, num_units, memory, memory_sequence_length=None, scale=False, *others, **options):
        super().__init__(False, num_units, memory, memory_sequence_length, *others, **options)
        self._scale = scale

    def _score(self, query):
        g = tf.get_variable('attention_g', [], query.dtype, tf.ones_initializer()) if self._scale else None
        return _luong_score(query, self._keys, g)


def _luong_score(query, keys, scale):
    score = tf.squeeze(tf.matmul(query[:, None], keys, transpose_b=True), 1)
    return score if scale is None else score * scale


class BahdanauAttention(_DenseAttention):
    """Additive attention. (D. Bahdanau et al.: Neural Machine Translation by Jointly Learning to Align and Translate, 2015;
    T. Salimans, D. Kingma: Weight Normalization, 2016.)

    Args:
      normalize: whether weights are normalized.
      others, options: of any mechanism, from probability_fn on.
    """

    _scope = 'bahdanau_attention'

    def __init__(self, num_units, memory, memory_sequence_length=None, normalize=False, *others, **options):
        super().__init__(True, num_units, memory, memory_sequence_length, *others, **options)
        self._normalize = normalize

    def _score(self, query):
        processed = self.query_layer(query) if self.query_layer else query
        v = tf.get_variable('attention_v', [self._num_units], query.dtype)
        g = b = None
        if self._normalize:
            g = tf.get_variable('attention_g', [], query.dtype, tf.constant_initializer(self._num_units**-0.5))
            b = tf.get_variable('attention_b', [self._num_units], query.dtype, tf.zeros_initializer())
        return _bahdanau_score(processed, self._keys, v, g, b)


def _bahdanau_score(processed_query, keys, attention_v, attention_g=None, attention_b=None):
    summed = keys + processed_query[:, None]
    if attention_g is not None and attention_b is not None:
        attention_v = attention_g * attention_v * tf.rsqrt(tf.reduce_sum(tf.square(attention_v)))
        summed += attention_b
    return tf.reduce_sum(attention_v * tf.tanh(summed), 2)


def hardmax(logits, name=None):
    """Returns 1 for the largest value of the last axis, 0 for the others."""
    logits = tf.convert_to_tensor(logits)
    return tf.one_hot(tf.argmax(logits, -1), tf.shape(logits)[-1], dtype=logits.dtype)


def safe_cumprod(x, *args, **kwargs):
    """Returns the cumulative product of values in [0, 1], computed by their logarithms."""
    x = tf.convert_to_tensor(x)
    return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, np.finfo(x.dtype.as_numpy_dtype).tiny, 1)), *args, **kwargs))


def monotonic_attention(p_choose_i, previous_attention, mode):
    """Returns the weights of memory that is read from left to right, float [batch, time].

    Args:
      p_choose_i: the probabilities to stay at each place once it is reached, float [batch, time].
      previous_attention: the weights of the step before, float [batch, time].
      mode: 'recursive', 'parallel', which is faster and less exact, or 'hard', for probabilities 0 and 1.
    """
    p, previous = tf.convert_to_tensor(p_choose_i), tf.convert_to_tensor(previous_attention)
    if mode == 'recursive':
        passed = tf.concat([tf.ones_like(p[:, :1]), 1 - p[:, :-1]], 1)
        pairs = (tf.transpose(passed), tf.transpose(previous))
        return p * tf.transpose(tf.scan(lambda reached, pair: pair[0] * reached + pair[1], pairs, tf.zeros_like(p[:, 0])))
    if mode == 'parallel':
        passed = safe_cumprod(1 - p, 1, exclusive=True)
        return p * passed * tf.cumsum(previous / tf.clip_by_value(passed, 1e-10, 1.0), 1)
    if mode == 'hard':
        p *= tf.cumsum(previous, 1)
        return p * tf.cumprod(1 - p, 1, exclusive=True)
    raise ValueError(f"mode must be 'recursive', 'parallel', or 'hard', not {mode!r}")


class _Monotonic(_DenseAttention):
    """Attention from left to right.

    (C. Raffel et al.: Online and Linear-Time Attention by Enforcing Monotonic Alignments, 2017.)

    Args:
      is_scaled: `normalize` or `scale`.
      sigmoid_noise: the deviation of noise on the scores, for training.
      score_bias_init: the first value of a variable that is added to the scores.
      mode: see monotonic_attention.
    """

    def __init__(
        self,
        num_units,
        memory,
        memory_sequence_length,
        is_scaled,
        score_mask_value=None,
        sigmoid_noise=0.0,
        sigmoid_noise_seed=None,
        score_bias_init=0.0,
        mode='parallel',
        dtype=None,
        name=None,
    ):
        super().__init__(num_units, memory, memory_sequence_length, is_scaled, score_mask_value=score_mask_value, dtype=dtype)
        self._noise, self._seed, self._bias, self._mode = sigmoid_noise, sigmoid_noise_seed, score_bias_init, mode

    def initial_alignments(self, batch_size, dtype):
        return tf.one_hot(tf.zeros([batch_size], tf.int32), self._alignments_size, dtype=dtype)

    def _score(self, query):
        bias = tf.constant_initializer(self._bias)
        return super()._score(query) + tf.get_variable('attention_score_bias', [], query.dtype, bias)

    def _weights(self, score, state):
        if self._noise > 0:
            score += self._noise * tf.random_normal(tf.shape(score), dtype=score.dtype, seed=self._seed)
        chosen = tf.cast(score > 0, score.dtype) if self._mode == 'hard' else tf.sigmoid(score)
        return monotonic_attention(chosen, state, self._mode)


class BahdanauMonotonicAttention(_Monotonic, BahdanauAttention):
    _scope = 'bahdanau_monotonic_attention'

    def __init__(self, num_units, memory, memory_sequence_length=None, normalize=False, *others, **options):
        super().__init__(num_units, memory, memory_sequence_length, normalize, *others, **options)


class LuongMonotonicAttention(_Monotonic, LuongAttention):
    _scope = 'luong_monotonic_attention'

    def __init__(self, num_units, memory, memory_sequence_length=None, scale=False, *others, **options):
        super().__init__(num_units, memory, memory_sequence_length, scale, *others, **options)


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
        self._attention_mechanisms = mechanisms = self._as_tuple(attention_mechanism)
        layers = None if attention_layer is None else self._as_tuple(attention_layer)
        if attention_layer_size is not None:
            sizes = self._as_tuple(attention_layer_size)
            layers = tuple(_dense(size, 'attention_layer', of.dtype) for size, of in zip(sizes, mechanisms))
        if layers and len(layers) != len(mechanisms):
            raise ValueError(f'{len(mechanisms)} attention mechanisms need as many attention layers, not {len(layers)}')
        widths = [tf.compat.dimension_value(mechanism.values.shape[-1]) for mechanism in mechanisms]
        if layers:
            shapes = [tf.TensorShape([None, cell.output_size + width]) for width in widths]
            widths = [tf.compat.dimension_value(layer.compute_output_shape(of)[-1]) for layer, of in zip(layers, shapes)]
        self._attention_layers, self._attention_layer_size = layers, sum(widths)
        self._cell, self._alignment_history, self._output_attention = cell, alignment_history, output_attention
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._initial_cell_state = initial_cell_state
        self._attention_fn = attention_fn or _compute_attention

    @staticmethod
    def _as_tuple(value):
        return tuple(value) if isinstance(value, (list, tuple)) else (value,)

    def _item_or_tuple(self, values):
        return tuple(values) if self._is_multi else next(iter(values))

    @property
    def output_size(self):
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self):
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            time=tf.TensorShape([]),
            attention=self._attention_layer_size,
            alignments=self._item_or_tuple(mechanism.alignments_size for mechanism in self._attention_mechanisms),
            attention_state=self._item_or_tuple(mechanism.state_size for mechanism in self._attention_mechanisms),
            alignment_history=self._item_or_tuple(
                mechanism.alignments_size if self._alignment_history else () for mechanism in self._attention_mechanisms
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
            attention=tf.zeros([batch_size, self._attention_layer_size], dtype),
            alignments=self._item_or_tuple(alignments),
            attention_state=self._item_or_tuple(
                mechanism.initial_state(batch_size, dtype) for mechanism in self._attention_mechanisms
            ),
            alignment_history=self._item_or_tuple(
                tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=alignment.shape) if self._alignment_history else ()
                for alignment in alignments
            ),
        )

    def call(self, inputs, state):
        outputs, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        states = state.attention_state if self._is_multi else (state.attention_state,)
        histories = state.alignment_history if self._is_multi else (state.alignment_history,)
        layers = self._attention_layers or [None] * len(states)
        found = [
            self._attention_fn(mechanism, outputs, previous, layer)
            for mechanism, previous, layer in zip(self._attention_mechanisms, states, layers)
        ]
        attentions, alignments, next_states = zip(*found)
        attention = tf.concat(attentions, 1)
        if self._alignment_history:
            histories = [history.write(state.time, weights) for history, weights in zip(histories, alignments)]
        state = AttentionWrapperState(
            cell_state=cell_state,
            time=state.time + 1,
            attention=attention,
            alignments=self._item_or_tuple(alignments),
            attention_state=self._item_or_tuple(next_states),
            alignment_history=self._item_or_tuple(histories),
        )
        return attention if self._output_attention else outputs, state


def _compute_attention(mechanism, outputs, state, layer):
    alignments, state = mechanism(outputs, state=state)
    context = tf.squeeze(tf.matmul(alignments[:, None], mechanism.values), 1)
    attention = layer(tf.concat([outputs, context], 1)) if layer else context
    return attention, alignments, state
