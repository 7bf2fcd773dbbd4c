"""Features of all sorts as the inputs of dense layers: numbers, embeddings of categories, and the mean of a text's words."""

from collections.abc import Mapping
import math
import re

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, describe
from estimator_trainer.common.ops import words
from estimator_trainer.common.targets import WINDOW_SCALE
from estimator_trainer.hparams.build import HParams

_WORD_SIZE = 64
_MAX_TABLES = 64  # A variable per column would take a minute to build where there are hundreds.


def flat_inputs(features: Mapping[str, tf.Tensor], params: HParams) -> tf.Tensor:
    """Returns all features, in the order of their names, as float32 [batch, columns]; not the scale of forecasts.

    Args:
      features: float, flattened; int [batch, ...], categories, each column of which has an embedding of the size
        params.embedding_size, one variable for all of more than 64; and 'text', int [batch, length], the mean of its words'
        embeddings, of size 64 or that of pretrained ones. The metadata gives 'vocabulary_sizes' and 'vocabulary_size', as for
        models/mlp.py.

    Raises:
      UsageError: a feature is of another type, or the metadata lacks its sizes.
    """
    names = sorted(name for name in features if name != WINDOW_SCALE)
    return tf.concat([_input(i, name, features[name], params) for i, name in enumerate(names)], 1)


def _input(i, name, feature, params):
    """Returns the i-th feature as float32 [batch, columns], or the embeddings of categorical columns."""
    if not isinstance(feature, tf.Tensor) or not (feature.dtype.is_floating or feature.dtype in (tf.int32, tf.int64)):
        raise UsageError(
            f'--model={params.model}: the feature {name} is {describe(feature)}, but must be float32, or int32 or int64 for '
            'categories'
        )
    sizes = feature.shape[1:].as_list()
    if sizes == [None] and name == 'text' and 'vocabulary_size' in params.metadata:
        return _mean_of_words(feature, params)
    if None in sizes:
        raise UsageError(
            f'--model={params.model}: the feature {name} has the shape {feature.shape}, but must have a fixed size'
        )
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


def _mean_of_words(ids, params):
    """Returns the mean of the embeddings of a text's tokens, float32 [batch, size]; ids of 0 are padding."""
    table = words.table(params, 'words', _WORD_SIZE, tf.random_normal_initializer(stddev=0.05))
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
            f'--model={params.model}: the feature {name} has {columns} columns of categories, but --dataset={params.dataset}: '
            f'metadata() gives {"no" if sizes is None else len(sizes)} vocabulary_sizes for it'
        )
    return sizes
