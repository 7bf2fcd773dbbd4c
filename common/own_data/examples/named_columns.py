"""The features of users' own data by their columns, and tf.feature_columns for them, as canned Estimators expect."""

from collections.abc import Iterator, Mapping, Sequence
import itertools
import re
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.own_data.description import Feature, of_kind
from estimator_trainer.common.own_data.schema import CATEGORICAL, IMAGE, NUMERIC, TEXT
from estimator_trainer.hparams.build import HParams

_JOINED = ('numeric', 'categorical', 'text')  # The features of `parser.parse` that columns make up.


def by_column(
    params: HParams, features: Mapping[str, tf.Tensor], stored: Sequence[Feature] | None = None
) -> dict[str, tf.Tensor]:
    """Returns the features of `parser.parse`, [batch, ...], under the names of the columns that make them up.

    Args:
      stored: see `parser.parse`.

    Returns:
      Of a number, float32 [batch, values], standardized, and with the suffix _missing, if it has an indicator, 1 or 0. Of a
      category, int64 [batch], its id in the vocabulary. 'text': int64 [batch, length], ids of tokens, with -1 as padding. Other
      features are unchanged. Characters that a variable's name cannot have are _.
    """
    stored = stored or params.metadata['features']
    found = {name: value for name, value in features.items() if name not in _JOINED}
    if numbers := [*_numbers(stored)]:
        parts = tf.split(features['numeric'], [size for _, size in numbers], axis=-1)
        found |= {name: part for (name, _), part in zip(numbers, parts)}
    for i, (name, _) in enumerate(_categories(stored)):
        found[name] = tf.cast(features['categorical'][..., i], tf.int64)
    if of_kind(stored, TEXT):
        ids = tf.cast(features['text'], tf.int64)
        found['text'] = tf.where(ids > 0, ids, -tf.ones_like(ids))  # A categorical column ignores negative ones.
    return found


def feature_columns(params: HParams, stored: Sequence[Feature] | None = None) -> list[Any]:
    """Returns a tf.feature_column for each of the features of `by_column`, categorical ones for categories and texts."""
    stored = stored or params.metadata['features']
    columns = [tf.feature_column.numeric_column(name, [size]) for name, size in _numbers(stored)]
    columns += [tf.feature_column.categorical_column_with_identity(name, size, 0) for name, size in _categories(stored)]
    if of_kind(stored, TEXT):
        size = params.metadata['vocabulary_size']
        columns.append(tf.feature_column.categorical_column_with_identity('text', size))
    for image in of_kind(stored, IMAGE):
        columns.append(tf.feature_column.numeric_column('image', [image['size'], image['size'], image['channels']]))
    return columns


def _numbers(stored) -> Iterator[tuple[str, int]]:
    """Yields (name, number of values) of the parts of 'numeric', in order."""
    numbers = of_kind(stored, NUMERIC)
    names = _names(stored)
    yield from ((names[feature['name']], feature['values']) for feature in numbers)
    yield from ((f'{names[feature["name"]]}_missing', feature['values']) for feature in numbers if feature.get('indicator'))


def _categories(stored) -> list[tuple[str, int]]:
    """Returns (name, number of ids) of the columns of 'categorical', in order; id 0 is an unknown value."""
    names = _names(stored)
    return [(names[feature['name']], len(feature['vocabulary']) + 1) for feature in of_kind(stored, CATEGORICAL)]


def _names(stored) -> dict[str, str]:
    """Returns {name: a distinct one that the name of a variable may contain}, and none that a feature has anyway."""
    taken = {*_JOINED, 'image', 'weight'}
    found = {}
    for feature in stored:
        base = re.sub(r'[^A-Za-z0-9_.\-]', '_', feature['name'])
        base = base if re.match('[A-Za-z0-9.]', base) else f'column{base}'
        suffixes = ['', '_missing'] if feature.get('indicator') else ['']
        for i in itertools.count(1):
            name = base if i == 1 else f'{base}_{i}'
            names = {name + suffix for suffix in suffixes}
            if not names & taken:
                break
        taken |= names
        found[feature['name']] = name
    return found
