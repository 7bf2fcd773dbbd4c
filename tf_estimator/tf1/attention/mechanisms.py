"""Mechanisms that attend to all of memory."""

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


def dense(num_units, name, dtype):
    """Returns a layer without a bias, by default of float32."""
    return tf.layers.Dense(num_units, name=name, use_bias=False, dtype=dtype or tf.float32)


class DenseAttention(_BaseAttentionMechanism):
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
            dense(num_units, 'query_layer', dtype) if has_query_layer else None,
            memory,
            self._weights,
            memory_sequence_length,
            dense(num_units, 'memory_layer', dtype),
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


class LuongAttention(DenseAttention):
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


class BahdanauAttention(DenseAttention):
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
