"""Records of tables, texts and TFRecord files, serialized tf.train.Examples, as the cells that a person knows."""

from collections.abc import Collection, Mapping, Sequence
import datetime
from typing import Any

from google.protobuf.message import DecodeError
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import printable

_MAX_VALUES = 8
_MAX_TEXT = 400
_EPOCH = datetime.datetime(1970, 1, 1)


def cells(record: Any, inputs: Collection[str], facts: Mapping[str, Any]) -> dict[str, str]:
    """Returns {column: text} of a record; {} if it is no tf.train.Example with one of them.

    Args:
      record: an element of a dataset module's `read`.
      inputs: the columns to learn from, in order; those that a record lacks are missing.
      facts: the metadata of the dataset.
    """
    try:
        features = tf.train.Example.FromString(record).features.feature
    except (TypeError, DecodeError):
        return {}
    if not any(name in features for name in inputs):
        return {}
    origins = {column['name']: column['origin'] for column in facts.get('columns', ()) if column.get('kind') == 'date'}
    return {name: _text(_values(features[name]), origins.get(name)) if name in features else '' for name in inputs}


def parts_of(column: str, inputs: Collection[str], stored: Collection[str]) -> list[str]:
    """Returns the names of the stored features of a column: its own, and those of the cycles of a date."""
    return [name for name in stored if name == column or name.startswith(f'{column}: ') and name not in inputs]


def _values(feature):
    kind = feature.WhichOneof('kind')
    return list(getattr(feature, kind).value) if kind else []


def _text(values: Sequence[Any], origin: float | None) -> str:
    if origin is not None and len(values) == 1:
        return _date(values[0] + origin)
    shown = ', '.join(map(_one, values[:_MAX_VALUES]))
    return shown + (f', ... ({len(values):,} values)' if len(values) > _MAX_VALUES else '')


def _date(days):
    try:
        found = _EPOCH + datetime.timedelta(days=days)
    except (OverflowError, ValueError):  # NaN.
        return ''
    rounded = found + datetime.timedelta(seconds=30)  # The days are float32.
    return f'{rounded:%Y-%m-%d}' if abs(days - round(days)) < 1e-3 else f'{rounded:%Y-%m-%d %H:%M}'


def _one(value):
    if isinstance(value, float):
        return '' if value != value else f'{value:.6g}'
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = printable(' '.join(value.decode().split()))
    except UnicodeDecodeError:
        return f'{len(value):,} bytes'
    return text if len(text) <= _MAX_TEXT else f'{text[:_MAX_TEXT]}…'
