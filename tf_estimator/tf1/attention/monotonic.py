"""Mechanisms that attend to memory from left to right."""

from tf_estimator.tf1.attention.mechanisms import BahdanauAttention, DenseAttention, LuongAttention

import numpy as np
import tensorflow.compat.v1 as tf


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


class _Monotonic(DenseAttention):
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
