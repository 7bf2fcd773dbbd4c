"""A tagger of texts: a bidirectional recurrent network over words and their characters, a linear layer for each token.

(X. Ma, E. Hovy: End-to-end Sequence Labeling via Bi-directional LSTM-CNNs-CRF, 2016: with gated recurrent units, which take
less time, and without the CRF.)
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import tags
from estimator_trainer.common.errors import UsageError, check_range, check_rate, describe
from estimator_trainer.common.ops import words
from estimator_trainer.common.ops.layers import dropout
from estimator_trainer.common.ops.random import step_seed
from estimator_trainer.common.ops.spans import span_metrics
from estimator_trainer.hparams.build import HParams

OVERRIDABLE_HPARAMS = ('drop_rate', 'word_drop_rate')
INDEPENDENT_EXAMPLES = True
_UNKNOWN = 1
_INITIALIZER = tf.random_uniform_initializer(-0.25, 0.25)
_NUM_BYTES, _BYTE_SIZE, _MAX_BYTES = 256, 16, 24  # Their number, the size of their vectors, and the first ones of a token.


def get_params() -> dict[str, Any]:
    return {
        'embedding_size': 100,  # Or that of embeddings.
        **words.get_params(),
        'rnn_units': 100,  # Of each direction.
        'character_filters': 50,  # Each over three bytes of a token; 0 for none.
        'drop_rate': 0.5,
        'word_drop_rate': 0.1,  # Share of words that are unknown in a step of training.
        'num_classes': 2,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns predictions, and the sum of the tokens' cross-entropies over the mean length of the training sentences, [batch].

    `features` is {'text': int32 [batch, length], ids of words, padded with 0, 'tokens': string [batch, length]}; `labels` is
    {'tags': int32 [batch, length]} or None. The predictions are 'tokens' and 'tags', string [batch, length], padded with '',
    and 'probabilities' of the latter, float32 [batch, length], padded with 0; if there are labels, 'tag_ids' alone, int64.
    """
    _check(params, features['text'])
    is_token = tf.not_equal(features['text'], 0)
    logits = _logits(features, is_token, mode == tf.estimator.ModeKeys.TRAIN, params)
    if labels is not None:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['tags'], logits=logits)
        loss = tf.reduce_sum(tf.where(is_token, losses, tf.zeros_like(losses)), 1) / params.metadata['mean_length']
        return {'tag_ids': tf.argmax(logits, 2)}, loss
    names = tf.gather(tf.constant(params.metadata['tags']), tf.argmax(logits, 2))
    probabilities = tf.reduce_max(tf.nn.softmax(logits), 2)
    return {
        'tokens': features['tokens'],
        'tags': tf.where(is_token, names, tf.zeros_like(names)),
        'probabilities': tf.where(is_token, probabilities, tf.zeros_like(probabilities)),
    }, None


def _logits(features, is_token, is_training, params):
    """Returns the logits of the tags, float32 [batch, length, num_classes]."""
    ids = features['text']
    if is_training and params.word_drop_rate:
        is_dropped = tf.random.stateless_uniform(tf.shape(ids), step_seed()) < params.word_drop_rate
        ids = tf.where(is_dropped & is_token, _UNKNOWN * tf.ones_like(ids), ids)
    parts = [tf.gather(words.table(params, 'embedding', params.embedding_size, _INITIALIZER, 'embedding_size'), ids)]
    if params.character_filters:
        parts.append(_characters(features['tokens'], params.character_filters))
    net = dropout(tf.concat(parts, 2), params.drop_rate, is_training)
    cells = [tf.nn.rnn_cell.GRUCell(params.rnn_units) for _ in range(2)]
    lengths = tf.math.count_nonzero(is_token, 1, dtype=tf.int32)
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(*cells, net, lengths, dtype=tf.float32)
    return tf.layers.dense(dropout(tf.concat(outputs, 2), params.drop_rate, is_training), params.num_classes)


def _characters(tokens, count):
    """Returns the maxima of filters over the bytes of tokens, float32 [batch, length, count]."""
    with tf.variable_scope('characters'):
        content = tf.raw_ops.DecodePaddedRaw(input_bytes=tf.reshape(tokens, [-1]), fixed_length=_MAX_BYTES, out_type=tf.uint8)
        is_byte = tf.cast(tf.not_equal(content, 0), tf.float32)[:, :, None]
        table = tf.get_variable('embedding', [_NUM_BYTES, _BYTE_SIZE], initializer=_INITIALIZER)
        net = tf.gather(table, tf.cast(content, tf.int32)) * is_byte
        padded = tf.pad(net, [[0, 0], [1, 1], [0, 0]])
        windows = tf.concat([padded[:, :-2], net, padded[:, 2:]], 2)
        filtered = tf.layers.dense(windows, count, tf.nn.relu) * is_byte  # A ReLU is never below 0.
        return tf.reshape(tf.reduce_max(filtered, 1), tf.concat([tf.shape(tokens), [count]], 0))


def _check(params, text):
    for name in ('embedding_size', 'rnn_units', 'num_classes'):
        check_range(params, name, 1)
    check_range(params, 'character_filters', 0)
    for name in ('drop_rate', 'word_drop_rate'):
        check_rate(params, name)
    if not isinstance(text, tf.Tensor) or text.dtype not in (tf.int32, tf.int64) or text.shape.rank != 2:
        raise UsageError(f'--model=text_tagger: the feature text must be ids, int32 [batch, length], not {describe(text)}')
    for name in ('vocabulary_size', 'tags', 'mean_length'):
        if name not in params.metadata:
            raise UsageError(
                f'--model=text_tagger: --dataset={params.dataset}: metadata() gives no {name}: use --dataset=tagged'
            )


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns the token_accuracy, and, if the tags mark spans, those of `span_metrics`."""
    is_token, names = tf.not_equal(features['text'], 0), params.metadata['tags']
    metrics = {'token_accuracy': tf.metrics.accuracy(labels['tags'], predictions['tag_ids'], is_token)}
    if tags.are_of_spans(names):
        lengths = tf.math.count_nonzero(is_token, 1, dtype=tf.int32)
        metrics |= span_metrics(labels['tags'], predictions['tag_ids'], lengths, names)
    return metrics
