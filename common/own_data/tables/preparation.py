"""Turns tables and tf.train.Examples into the numbers that a model takes, for programs that prepare them themselves."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from estimator_trainer.common.own_data.description import Feature, of_kind
from estimator_trainer.common.own_data.schema import CATEGORICAL, DATE, NUMERIC, TEXT
from estimator_trainer.common.own_data.tables.dates import CYCLES
from estimator_trainer.common.own_data.tables.encoding import encoded_features
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.hparams.build import HParams


def input_parts(params: HParams) -> dict[str, list[dict[str, Any]]]:
    """Returns what each component of the features `numeric` and `categorical` is; {} for other data.

    Returns:
      {'numeric': [{'name', 'mean', 'std'}, ..., {'name', 'indicator'}, ...], 'categorical': [{'name', 'vocabulary'}, ...],
      'text': [see `tokens.input_part`]}: a number minus the mean, divided by the standard deviation, or 0 if it is missing;
      with 'indicator', 1 if it is missing, else 0; 1 + the index of a category in the vocabulary, 0 for others.
    """
    metadata = params.metadata
    features = encoded_features(metadata) if 'columns' in metadata else metadata.get('features', [])
    numbers = of_kind(features, NUMERIC)
    columns = of_kind(metadata.get('columns', ()), DATE)
    origins, waves = {column['name']: column['origin'] for column in columns}, _waves(columns)
    found = {
        'numeric': [*(part for feature in numbers for part in _standardized(feature, origins, waves)), *_indicators(numbers)],
        'categorical': [{'name': one['name'], 'vocabulary': one['vocabulary']} for one in of_kind(features, CATEGORICAL)],
        'text': [tokens.input_part(params)] if of_kind(features, TEXT) else [],
    }
    return {name: parts for name, parts in found.items() if parts}


def _waves(columns: Iterable[Feature]) -> dict[str, str]:
    """Returns {name: what it is} of the places of dates in their cycles."""
    return {
        f'{column["name"]}: {cycle}, {wave}': f'{wave} of 2 pi t / {CYCLES[cycle]}, t = {_in_days(column)}'
        for column in columns
        for cycle in column['cycles']
        for wave in ('sine', 'cosine')
    }


def _in_days(feature):
    return f'{feature["name"]}, in days since 1970-01-01 UTC'


def _standardized(feature: Feature, origins: Mapping[str, float], waves: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if (origin := origins.get(feature['name'])) is not None:
        name = _in_days(feature)
        yield {'name': name, 'mean': origin + feature['mean'], 'std': feature['std']}
        return
    for place, (mean, std) in zip(_places(feature), zip(np.ravel(feature['mean']), np.ravel(feature['std']))):
        yield {'name': waves.get(place, place), 'mean': float(mean), 'std': float(std)}


def _indicators(features):
    return [
        {'name': place, 'indicator': True} for feature in features if feature.get('indicator') for place in _places(feature)
    ]


def _places(feature):
    """Returns the name of a number, or one for each of several."""
    count = feature.get('values', 1)
    return [feature['name']] if count == 1 else [f'{feature["name"]}[{i}]' for i in range(count)]
