"""A convolutional network for text classification.

(Y. Kim: Convolutional Neural Networks for Sentence Classification, 2014: the variant CNN-rand, whose embeddings are learned,
or, with embeddings=FILE, CNN-non-static; without the paper's bound on the norms of the last layer's weights.)
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range, check_rate, describe
from estimator_trainer.common.ops import words
from estimator_trainer.common.ops.layers import dropout
from estimator_trainer.common.ops.targets import target_metrics, target_outputs
from estimator_trainer.hparams.build import HParams

OVERRIDABLE_HPARAMS = ('drop_rate',)


def get_params() -> dict[str, Any]:
    return {
        'embedding_size': 128,  # Or that of embeddings.
        **words.get_params(),
        'filter_widths': [3, 4, 5],  # In tokens.
        'num_filters': 100,  # Of each width.
        'drop_rate': 0.5,
        'num_classes': 2,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns {'class': int64 [batch], 'probabilities': float32 [batch, num_classes]} and the cross-entropy [batch].

    If there are labels, the predictions include the filters' maxima, 'embedding': float32 [batch, widths * num_filters].

    `features` is {'text': int32 [batch, length]}, the ids of tokens, less than the metadata's 'vocabulary_size', padded with 0.
    `labels` is {'label': int32 [batch]} or None.
    """
    _check(params, features['text'])
    ids = features['text']
    lengths = _lengths(ids)
    initializer = tf.random_uniform_initializer(-0.25, 0.25)  # As in the paper.
    table = words.table(params, 'embedding', params.embedding_size, initializer, 'embedding_size')
    net = tf.gather(table, ids) * tf.expand_dims(tf.sequence_mask(lengths, tf.shape(ids)[1], tf.float32), 2)
    net = tf.concat([_max_over_time(net, lengths, width, params.num_filters) for width in params.filter_widths], 1)
    dropped = dropout(net, params.drop_rate, mode == tf.estimator.ModeKeys.TRAIN)
    return target_outputs(features, labels, dropped, params, net)


def _lengths(ids):
    """Returns the number of tokens up to the last non-padding one, int32 [batch]."""
    positions = tf.range(1, tf.shape(ids)[1] + 1)
    return tf.reduce_max(tf.pad(tf.cast(tf.not_equal(ids, 0), tf.int32) * positions, [[0, 0], [0, 1]]), 1)


def _max_over_time(net, lengths, width, count):
    """Returns the maximum of each filter over the windows of a text, float32 [batch, count].

    A text shorter than the filter has one window, padded with 0.
    """
    size = net.shape[2]
    batch, length = tf.unstack(tf.shape(net)[:2])
    with tf.variable_scope(f'filters_{width}'):
        kernel = tf.get_variable('kernel', [width * size, count])
        bias = tf.get_variable('bias', [count], initializer=tf.zeros_initializer())
    # Convolutions on CPUs return the wrong shape for no texts, such as a tower's share of a small batch: the mask removes one.
    padded = tf.pad(net, [[0, tf.maximum(1 - batch, 0)], [0, tf.maximum(width - length, 0)], [0, 0]])
    rows = tf.reshape(padded, [-1, 1, tf.maximum(length, width), size])  # TFLite must know the last dimension.
    filters = tf.reshape(kernel, [1, width, size, count])
    convolved = tf.squeeze(tf.nn.conv2d(rows, filters, 1, 'VALID'), 1)
    activations = tf.nn.relu(tf.nn.bias_add(convolved, bias))
    is_in_text = tf.sequence_mask(tf.maximum(lengths - width + 1, 1), tf.shape(activations)[1], tf.float32)
    return tf.reduce_max(activations * tf.expand_dims(is_in_text, 2), 1)  # A ReLU is never below 0.


def _check(params, text):
    check_range(params, 'embedding_size', 1)
    check_range(params, 'filter_widths', 1)
    check_range(params, 'num_filters', 1)
    if not params.filter_widths or len(set(params.filter_widths)) < len(params.filter_widths):
        raise UsageError(f'filter_widths={list(params.filter_widths)} must be one or more different numbers')
    check_rate(params, 'drop_rate')
    if not isinstance(text, tf.Tensor) or text.dtype not in (tf.int32, tf.int64) or text.shape.rank != 2:
        raise UsageError(f'--model=text_cnn: the feature text must be ids, int32 [batch, length], not {describe(text)}')
    if 'vocabulary_size' not in params.metadata:
        raise UsageError(f'--model=text_cnn: --dataset={params.dataset}: metadata() gives no vocabulary_size')


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns the accuracy, the confusion matrix and the precision-recall curve; with two classes also the AUC."""
    del features
    return target_metrics(labels, predictions, params)
