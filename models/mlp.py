"""A multilayer perceptron for tables and small images: classification or regression.

    python trainer.py --model=mlp --dataset=mnist

All float features are inputs, flattened. Integer features are categories: each column has an embedding, of the size given by
the dataset's metadata 'vocabulary_sizes', {feature: number of ids, or a list with one per column}. Those of a feature with more
than 64 columns are one variable. A text, a feature of this name whose length varies, is the mean of its words' embeddings.
"""

from collections.abc import Mapping
import math
import re
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range, describe
from estimator_trainer.common.ops.classification import classification_metrics, classifier_outputs
from estimator_trainer.common.ops.layers import dense_stack
from estimator_trainer.hparams.build import HParams

_TASKS = 'classification', 'regression'
_WORD_SIZE = 64
_MAX_TABLES = 64  # A variable per column would take a minute to build where there are hundreds.


OVERRIDABLE_HPARAMS = ('drop_rate',)


def get_params() -> dict[str, Any]:
    return {
        'task': 'classification',  # Or regression.
        'hidden_units': [256, 128],
        'embedding_size': 8,  # Of each categorical column.
        'drop_rate': 0.0,
        'batch_norm': False,
        'num_classes': 2,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns predictions and the loss per example.

    For classification: {'class': int64 [batch], 'probabilities': float32 [batch, num_classes]} and the cross-entropy. If there
    are labels, the predictions include the last hidden layer, 'embedding': float32 [batch, hidden_units[-1]].

    For regression: {'value': float32 [batch]} and the squared error. If the metadata has 'target_mean' and 'target_std', the
    error is in standard deviations, and the output of the network is scaled and shifted accordingly.

    `features` are float32 or int [batch, ...], `labels` is {'label': int32 [batch]}, float32 for regression, or None.
    """
    _check(params)
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = tf.concat([_input(i, name, features[name], params) for i, name in enumerate(sorted(features))], 1)
    net = dense_stack(net, params.hidden_units, is_training, batch_norm=params.batch_norm, drop_rate=params.drop_rate)
    if labels is not None:
        _check_label(labels['label'], params)
    if params.task == 'classification':
        return classifier_outputs(
            features, labels, tf.layers.dense(net, params.num_classes), net, params.metadata.get('class_names')
        )

    output = tf.squeeze(tf.layers.dense(net, 1), 1)
    mean, std = params.metadata.get('target_mean', 0.0), params.metadata.get('target_std', 1.0)
    predictions = {'value': output * std + mean}
    if labels is None:
        return predictions, None
    return predictions, tf.square(output - (tf.cast(labels['label'], tf.float32) - mean) / std)


def _input(i, name, feature, params):
    """Returns the i-th feature as float32 [batch, columns], or the embeddings of categorical columns."""
    if not isinstance(feature, tf.Tensor) or not (feature.dtype.is_floating or feature.dtype in (tf.int32, tf.int64)):
        raise UsageError(
            f'--model=mlp: the feature {name} is {describe(feature)}, but must be float32, or int32 or int64 for categories'
        )
    sizes = feature.shape[1:].as_list()
    if sizes == [None] and name == 'text' and 'vocabulary_size' in params.metadata:
        return _mean_of_words(feature, params.metadata['vocabulary_size'])
    if None in sizes:
        raise UsageError(f'--model=mlp: the feature {name} has the shape {feature.shape}, but must have a fixed size')
    columns = math.prod(sizes)
    net = tf.reshape(feature, [-1, columns])
    if feature.dtype.is_floating:
        return tf.cast(net, tf.float32)
    scope = re.sub('[^A-Za-z0-9_.-]', '_', f'embedding_{i}_{name}')  # Keeps characters valid in a variable's name.
    vocabulary_sizes = _vocabulary_sizes(name, columns, params)
    initializer = tf.random_normal_initializer(stddev=0.05)
    if columns > _MAX_TABLES:
        table = tf.get_variable(scope, [sum(vocabulary_sizes), params.embedding_size], initializer=initializer)
        rows = net + tf.constant(np.cumsum([0, *vocabulary_sizes[:-1]]), net.dtype)
        is_valid = (net >= 0) & (net < tf.constant(vocabulary_sizes, net.dtype))
        embedded = tf.gather(table, tf.where(is_valid, rows, -tf.ones_like(rows)))
        return tf.reshape(embedded, [-1, columns * params.embedding_size])
    shapes = [[size, params.embedding_size] for size in vocabulary_sizes]
    tables = [tf.get_variable(f'{scope}/{column}', shape, initializer=initializer) for column, shape in enumerate(shapes)]
    return tf.concat([tf.gather(table, ids) for table, ids in zip(tables, tf.unstack(net, axis=1))], 1)


def _mean_of_words(ids, vocabulary_size):
    """Returns the mean of the embeddings of a text's tokens, float32 [batch, _WORD_SIZE]; ids of 0 are padding."""
    table = tf.get_variable('words', [vocabulary_size, _WORD_SIZE], initializer=tf.random_normal_initializer(stddev=0.05))
    is_word = tf.cast(ids > 0, tf.float32)
    total = tf.reduce_sum(tf.gather(table, ids) * is_word[:, :, None], axis=1)
    return total / tf.maximum(tf.reduce_sum(is_word, axis=1), 1)[:, None]


def _vocabulary_sizes(name, columns, params):
    """Returns the number of ids of each column of a categorical feature."""
    known = params.metadata.get('vocabulary_sizes', {})
    sizes = known.get(name) if isinstance(known, Mapping) else None
    sizes = [sizes] * columns if isinstance(sizes, int) else sizes
    if sizes is None or len(sizes) != columns:
        raise UsageError(
            f'--model=mlp: the feature {name} has {columns} columns of categories, but --dataset={params.dataset}: metadata() '
            f'gives {"no" if sizes is None else len(sizes)} vocabulary_sizes for it'
        )
    return sizes


def _check(params):
    check_range(params, 'hidden_units', 1)
    check_range(params, 'embedding_size', 1)
    if not 0 <= params.drop_rate < 1:
        raise UsageError(f'drop_rate={params.drop_rate} must be at least 0 and less than 1')
    if params.task not in _TASKS:
        raise UsageError(f'task={params.task} is not one of {", ".join(_TASKS)}')
    if params.task == 'classification':
        check_range(params, 'num_classes', 1)


def _check_label(label, params):
    is_class = label.dtype.is_integer
    if params.task == 'regression' and 'class_names' in params.metadata:
        raise UsageError(f'task=regression: --dataset={params.dataset} has classes, not numbers')
    if label.shape.rank != 1 or (params.task == 'classification' and not is_class):
        wanted = 'int32' if params.task == 'classification' else 'float32'
        fix = '' if label.shape.rank != 1 else ', or use task=regression'
        raise UsageError(f'task={params.task} needs a label named label, {wanted} [batch], not {describe(label)}{fix}')


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns the metrics of a classifier, with two classes also the AUC; for regression, mean absolute error and RMSE."""
    del features
    if params.task == 'classification':
        return classification_metrics(labels, predictions, params.num_classes, params.metadata.get('class_names'))
    label = tf.cast(labels['label'], tf.float32)
    return {
        'mean_absolute_error': tf.metrics.mean_absolute_error(label, predictions['value']),
        'rmse': tf.metrics.root_mean_squared_error(label, predictions['value']),
    }
