"""Records of tables, texts and TFRecord files, serialized tf.train.Examples, as the cells that a person knows."""

from collections.abc import Collection, Mapping, Sequence
import datetime
from typing import Any

from google.protobuf.message import DecodeError
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import printable
from estimator_trainer.common.report.charts import shorten
from estimator_trainer.common.report.slices import Column

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
    origins = _origins(facts)
    return {name: text_of(_values(features[name]), origins.get(name)) if name in features else '' for name in inputs}


def columns_of(records: Sequence[bytes], inputs: Collection[str], facts: Mapping[str, Any]) -> list[Column]:
    """Returns the columns of serialized tf.train.Examples that have at most one value per record; [] of other records."""
    origins = _origins(facts)
    found: dict[str, list[Any]] = {name: [] for name in inputs}
    try:
        examples = [tf.train.Example.FromString(record).features.feature for record in records]
    except DecodeError:
        return []
    for features in examples:
        for name in [*found]:
            values = _values(features[name]) if name in features else []
            if len(values) > 1:
                del found[name]
            else:
                found[name].append(values[0] if values else None)
    return [column(name, values, origins.get(name)) for name, values in found.items()]


def column(name: str, values: Sequence[Any], origin: float | None = None) -> Column:
    """Returns a Column of bytes and numbers, in which NaN and empty bytes are missing; origin is that of days, as dates."""
    known = [None if value is None or value == b'' or value != value else value for value in values]
    return Column(name, known, lambda value: text_of([value], origin))


def parts_of(column: str, inputs: Collection[str], stored: Collection[str]) -> list[str]:
    """Returns the names of the stored features of a column: its own, and those of the cycles of a date."""
    return [name for name in stored if name == column or name.startswith(f'{column}: ') and name not in inputs]


def _origins(facts):
    return {one['name']: one['origin'] for one in facts.get('columns', ()) if one.get('kind') == 'date'}


def _values(feature):
    kind = feature.WhichOneof('kind')
    return list(getattr(feature, kind).value) if kind else []


def text_of(values: Sequence[Any], origin: float | None = None) -> str:
    """Returns the values of a cell, bytes and numbers, as a person reads them; origin is that of days, as dates."""
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
    return shorten(text, _MAX_TEXT)
