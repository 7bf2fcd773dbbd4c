"""A convolutional network for text classification.

(Y. Kim: Convolutional Neural Networks for Sentence Classification, 2014: the variant CNN-rand, whose embeddings are learned,
or, with embeddings=FILE, CNN-non-static; without the paper's bound on the norms of the last layer's weights.)
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range, check_rate, describe
from estimator_trainer.common.ops import words
from estimator_trainer.common.ops.layers import dropout
from estimator_trainer.common.ops.sequences import max_over_windows_of_widths
from estimator_trainer.common.ops.targets import target_metrics, target_outputs
from estimator_trainer.hparams.build import HParams

OVERRIDABLE_HPARAMS = ('drop_rate',)
INDEPENDENT_EXAMPLES = True


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
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    batch, length = tf.unstack(tf.shape(features['text']))
    # At least one text, for convolutions; a text shorter than a filter has one window.
    ids = tf.pad(features['text'], [[0, tf.maximum(1 - batch, 0)], [0, tf.maximum(max(params.filter_widths) - length, 0)]])
    lengths = _lengths(ids)
    initializer = tf.random_uniform_initializer(-0.25, 0.25)  # As in the paper.
    table = words.table(params, 'embedding', params.embedding_size, initializer, 'embedding_size')
    net = tf.gather(table, ids) * tf.expand_dims(tf.sequence_mask(lengths, tf.shape(ids)[1], tf.float32), 2)
    kernels, biases = zip(*[_filters(width, net.shape[2], params.num_filters) for width in params.filter_widths])
    num_windows = [tf.maximum(lengths - width + 1, 1) for width in params.filter_widths]
    net = max_over_windows_of_widths(net, num_windows, kernels, biases, is_training)[:batch]
    dropped = dropout(net, params.drop_rate, is_training)
    return target_outputs(features, labels, dropped, params, net)


def _lengths(ids):
    """Returns the number of tokens up to the last non-padding one, int32 [batch]."""
    positions = tf.range(1, tf.shape(ids)[1] + 1)
    return tf.reduce_max(tf.pad(tf.cast(tf.not_equal(ids, 0), tf.int32) * positions, [[0, 0], [0, 1]]), 1)


def _filters(width, size, count):
    """Returns the kernel, float32 [width, size, count], and the biases, float32 [count], of filters over `width` tokens."""
    with tf.variable_scope(f'filters_{width}'):
        kernel = tf.get_variable('kernel', [width * size, count])
        bias = tf.get_variable('bias', [count], initializer=tf.zeros_initializer())
    return tf.reshape(kernel, [width, size, count]), bias


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
