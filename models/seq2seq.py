"""A byte-level sequence-to-sequence model: a bidirectional encoder, a decoder with attention, beam search.

    python trainer.py --model=seq2seq --dataset=addition

takes about 3 minutes on 2 cores and reaches an accuracy of 0.999 on the held-out sums. (I. Sutskever, O. Vinyals, Q. Le:
Sequence to Sequence Learning with Neural Networks, 2014. The attention is that of M. Luong, H. Pham, C. Manning: Effective
Approaches to Attention-based Neural Machine Translation, 2015.)
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import check_range
from estimator_trainer.common.ops.beam_search import rnn_beam_search
from estimator_trainer.common.ops.layers import merge
from estimator_trainer.common.ops.shapes import reshape
from estimator_trainer.hparams.build import HParams

# Tokens are bytes. Two control characters, absent from texts, are the end and begin tokens.
NUM_TOKENS = 256
END, BEGIN = 0, 2
MAX_LENGTH = 1000  # A beam search cannot be interrupted.

# No weight depends on these.
INFERENCE_HPARAMS = ('beam_width', 'length_penalty', 'max_target_length')
INDEPENDENT_EXAMPLES = True


def get_params() -> dict[str, Any]:
    return {
        'embedding_size': 32,
        'rnn_units': 128,
        'beam_width': 4,
        'length_penalty': 0.0,  # 0 searches for the most likely text; values up to 1 favor longer ones.
        'max_target_length': 32,  # Maximum number of bytes to decode.
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns predictions and the cross-entropy of the whole target, float32 [batch].

    `features` is {'source': string [batch]}, `labels` is {'target': string [batch]} or None. The predictions are 'source'
    and 'target', string [batch], found by beam search, and all beams, best first: 'targets', string [batch, beam_width],
    and 'log_probs', float32 [batch, beam_width]. In training, 'target' is the argmax at each position with teacher forcing,
    without beams, which avoids the cost of a search.
    """
    check_range(params, 'embedding_size', 1)
    check_range(params, 'rnn_units', 1)
    check_range(params, 'beam_width', 1, NUM_TOKENS)
    check_range(params, 'max_target_length', 1, MAX_LENGTH)
    with tf.variable_scope('seq2seq', reuse=tf.AUTO_REUSE):
        embedding = tf.get_variable('embedding', [NUM_TOKENS, params.embedding_size])
        memory, mask, state = _encode(features['source'], embedding, params.rnn_units)
        decoder = _Decoder(embedding, memory, mask, params.rnn_units)
        predictions = {'source': features['source']}
        loss = None
        if labels is not None:
            greedy_ids, loss = decoder.score(state, labels['target'])
        if mode == tf.estimator.ModeKeys.TRAIN:
            predictions['target'] = to_text(greedy_ids)
        else:
            ids, predictions['log_probs'] = rnn_beam_search(
                decoder.step, state, params.max_target_length, params.beam_width, BEGIN, END, params.length_penalty
            )
            predictions['targets'] = to_text(ids)
            predictions['target'] = predictions['targets'][:, 0]
    return predictions, loss


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns the fraction of targets that match exactly."""
    del features, params
    is_match = tf.equal(predictions['target'], labels['target'])
    return {'exact_match': tf.metrics.mean(tf.cast(is_match, tf.float32))}


def _encode(texts, embedding, units):
    """Returns the outputs [batch, length, depth], their mask, float [batch, length], and the final state [batch, units]."""
    lengths = tf.strings.length(texts)
    ids = to_ids(texts, tf.reduce_max(lengths))
    with tf.variable_scope('encoder'):
        outputs, states = tf.nn.bidirectional_dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(units), tf.nn.rnn_cell.GRUCell(units), tf.gather(embedding, ids), lengths, dtype=tf.float32
        )
        state = tf.layers.dense(tf.concat(states, 1), units, tf.tanh, name='summary')
    return tf.concat(outputs, 2), tf.sequence_mask(lengths, tf.shape(ids)[1], tf.float32), state


class _Decoder:
    """Predicts the next byte of a text from the previous ones, with attention to the encoder's outputs."""

    def __init__(self, embedding, memory, mask, units):
        self._embedding = embedding
        self._units = units
        self._memory = memory
        self._bias = (mask[:, None] - 1) * 1e9
        self._keys = tf.layers.dense(memory, units, use_bias=False, name='keys')
        self._cell = tf.nn.rnn_cell.GRUCell(units, name='decoder')
        self._cell.build([None, embedding.shape[1]])  # Outside the loops that call it, which would change the variables' names.

    def score(self, state, texts):
        """Returns the most likely bytes with teacher forcing, and the cross-entropy of the whole text.

        int32 [batch, length + 1], which includes the end token, and float32 [batch].
        """
        lengths = tf.strings.length(texts) + 1
        ids = to_ids(texts, tf.reduce_max(lengths))
        previous = tf.pad(ids[:, :-1], [[0, 0], [1, 0]], constant_values=BEGIN)
        outputs, _ = tf.nn.dynamic_rnn(self._cell, tf.gather(self._embedding, previous), initial_state=state)
        logits = self._logits(outputs)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids, logits=logits)
        is_text = tf.sequence_mask(lengths, tf.shape(ids)[1])
        greedy_ids = tf.where(is_text, tf.argmax(logits, 2, output_type=tf.int32), END * tf.ones_like(ids))
        return greedy_ids, tf.reduce_sum(tf.where(is_text, losses, tf.zeros_like(losses)), 1)

    def step(self, state, ids):
        """Returns the next state and the logits of the next bytes of all beams; see `rnn_beam_search`."""
        flat_state, _ = self._cell(reshape(tf.gather(self._embedding, ids), [[0, 1], 2]), reshape(state, [[0, 1], 2]))
        new_state = tf.reshape(flat_state, tf.shape(state))
        return new_state, self._logits(new_state)

    def _logits(self, outputs):
        """Returns the logits [batch, steps, tokens] for the cell's outputs [batch, steps, units]."""
        with tf.variable_scope('logits'):
            attention = tf.nn.softmax(tf.matmul(outputs, self._keys, transpose_b=True) + self._bias)
            net = merge([outputs, tf.matmul(attention, self._memory)], self._units, tf.tanh)
            return tf.layers.dense(net, NUM_TOKENS, name='tokens')


def to_ids(texts: tf.Tensor, length: int | tf.Tensor) -> tf.Tensor:
    """Returns the bytes of texts, int32 [batch, length], padded with END."""
    padded = tf.raw_ops.DecodePaddedRaw(input_bytes=texts, fixed_length=tf.maximum(length, 1), out_type=tf.uint8)
    return tf.cast(padded, tf.int32)


def to_text(ids: tf.Tensor) -> tf.Tensor:
    """Converts int32 [..., length] to texts, string [...], up to the first END."""
    before_end = tf.math.cumprod(tf.cast(tf.not_equal(ids, END), tf.int32), axis=-1)
    characters = tf.constant([b''] + [bytes([i]) for i in range(1, NUM_TOKENS)])
    return tf.strings.reduce_join(tf.gather(characters, ids * before_end), axis=-1)
