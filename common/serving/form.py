"""The form of the page: a field for each input of a model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.serving.rest import Inputs
from estimator_trainer.common.targets import is_forecast

MAX_CHOICES = 1000
_OF_TARGET = ('name', 'key', 'class_names')  # The page's facts about one of several.
_COMMA = 'comma'  # What decimals follow in the files of a column, which an export does not read.
MAX_DRAWN = 64  # Pixels of a side of gray pictures, such as digits.


def form_of(model: str, inputs: Inputs, metadata: Mapping[str, Any], signature: str = '') -> dict[str, Any]:
    """Returns the fields of a form as JSON: 'model', 'class_names', 'signature', 'ignored', and 'fields', see `field_of`.

    Those of a model with several targets also have 'targets' and 'task', those of forecasts 'task'.

    Args:
      metadata: of the dataset; the columns of a table, or features, in it have kinds.
      signature: to which the page sends what is in the form; '' for the default.
    """
    described = metadata.get('columns') or metadata.get('features') or []
    columns = {column['name']: column for column in described}
    targets = [{name: target[name] for name in _OF_TARGET if name in target} for target in metadata.get('targets', ())]
    return {
        'model': model,
        'class_names': list(metadata.get('class_names') or []),
        **({'targets': targets} if targets else {}),
        **({'task': metadata['task']} if targets or is_forecast(metadata) else {}),
        'signature': signature,
        'ignored': list(inputs.ignored),
        'fields': [field_of(name, spec, name in inputs.pictures, columns.get(name, {})) for name, spec in inputs.specs.items()],
    }


def field_of(name: str, spec: tf.TensorSpec, is_picture: bool, column: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a field: 'name', 'type' and 'hint'.

    The type is picture, with the size in which it may be drawn, or 0, in 'draws'; choice, with 'choices'; number; text; or json
    for other shapes. A number whose decimals follow a comma in files has 'decimal'. The 'typical' value, if there is one, is
    the mean, or the most frequent category.
    """
    field = {'name': name, 'hint': ''}
    if is_picture:
        sizes = spec.shape.as_list()[1:]
        is_small = len(sizes) == 3 and sizes[2] == 1 and sizes[0] <= MAX_DRAWN
        return {**field, 'type': 'picture', 'draws': sizes[0] if is_small else 0}
    if spec.shape.rank != 1:
        sizes = ', '.join('any' if size is None else str(size) for size in spec.shape.as_list()[1:])
        return {**field, 'type': 'json', 'hint': f'{spec.dtype.name} [{sizes}]'}
    if spec.dtype != tf.string:
        found = {**field, 'type': 'number', **_usual(column)}
        is_comma = column.get('style', {}).get('decimal') == _COMMA
        return {**found, 'hint': found['hint'].replace('.', ','), 'decimal': _COMMA} if is_comma else found
    if 'vocabulary' in column:
        choices = [str(value) for value in column['vocabulary'][:MAX_CHOICES]]
        return {**field, 'type': 'choice', 'choices': choices, **({'typical': choices[0]} if choices else {})}
    return {**field, 'type': 'text', 'hint': 'a date, as in the data' if column.get('kind') in ('date', 'time') else ''}


def _usual(column):
    """Returns the mean of a numeric column, and as a hint the range of most values, two standard deviations around it."""
    if 'mean' not in column or 'std' not in column:
        return {}
    mean, std = (float(np.ravel(column[name])[0]) for name in ('mean', 'std'))  # Features of TFRecords have lists of one.
    low, high = (f'{float(f"{value:.3g}"):.9g}' for value in (mean - 2 * std, mean + 2 * std))  # 4560, not 4.56e+03.
    return {'hint': f'mostly {low} to {high}', 'typical': mean}
