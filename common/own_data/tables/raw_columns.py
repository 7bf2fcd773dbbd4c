"""The columns of a table as raw inputs of a model: numbers, and texts for categories, dates and free text."""

from collections.abc import Callable, Mapping
import functools
import math

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import show
from estimator_trainer.common.graphs import plain
from estimator_trainer.common.own_data.description import of_kind
from estimator_trainer.common.own_data.examples import parser
from estimator_trainer.common.own_data.moments import without
from estimator_trainer.common.own_data.schema import DATE, NUMERIC, TEXT
from estimator_trainer.common.own_data.tables import date_ops, dates
from estimator_trainer.common.own_data.tables.cells import missing_numbers, missing_values
from estimator_trainer.common.own_data.tables.encoding import LEARNED, as_read, encoded_features, style_of
from estimator_trainer.common.own_data.tables.numbers import to_number
from estimator_trainer.common.own_data.tables.zones import Zones
from estimator_trainer.common.own_data.texts import composed, tokens
from estimator_trainer.hparams.build import HParams


@plain
def raw_specs(params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns {column: float32 [batch] for numbers, string [batch] for others}, in the order of the columns."""
    kinds = {column['name']: column['kind'] for column in _learned(params)}
    return {name: tf.TensorSpec([None], tf.float32 if kind == NUMERIC else tf.string) for name, kind in kinds.items()}


def cell_readers(params: HParams) -> dict[str, Callable[[str], float | str]]:
    """Returns {column: function from a cell to its raw input}: its number, NaN if missing, or another text, '' if missing.

    The functions raise ValueError for what is no number, or no date, as the column has them.
    """
    missing = {*missing_values(params.metadata.get('missing', ())).to_pylist()}
    return {
        column['name']: functools.partial(_read_cell, column, style_of(column), missing, Zones(column, 'the input'))
        for column in _learned(params)
    }


def _learned(params):
    return [column for column in params.metadata['columns'] if column['kind'] in LEARNED]


def _read_cell(column, style, missing, zones, text):
    text, kind = text.strip(), column['kind']
    if text in missing:
        return math.nan if kind == NUMERIC else ''
    if kind == DATE:
        if dates.in_order(text, column['order']) is None:
            raise ValueError(f'the input {column["name"]}: {show(text)} is not a date')
        zones.check(text)
    if kind != NUMERIC:
        return as_read(text, kind)
    number = style.number(text) if style else to_number(text)
    if number is None:
        raise ValueError(f'the input {column["name"]}: {show(text)} is not a number')
    return number


@plain
def from_raw(params: HParams, raw: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the features of raw columns, as `parser.parse` does; NaN and '' are missing.

    Dates are written as in the training data, or missing as there: others raise InvalidArgumentError when the graph runs, as do
    free texts in another form of Unicode than NFC if tokens are bytes.
    """
    values = {name: tokens.strip(value) if value.dtype == tf.string else value for name, value in raw.items()}
    missing = missing_values(params.metadata.get('missing', ()))
    for column in of_kind(params.metadata['columns'], NUMERIC):
        values[column['name']] = without(missing_numbers(missing, style_of(column)), values[column['name']])
    for column in of_kind(params.metadata['columns'], TEXT):
        texts = values[column['name']]
        texts = composed.check(texts) if params.tokens == tokens.BYTES else texts
        values[column['name']] = tf.where(_are_missing(texts, missing), tf.fill(tf.shape(texts), ''), texts)
    for column in of_kind(params.metadata['columns'], DATE):
        days = _days(values.pop(column['name']), column, missing)
        parts = dates.parts(days, column['name'], column['origin'], column['cycles'], tf)
        values |= {name: tf.cast(value, tf.float32) for name, value in parts.items()}
    return parser.from_raw(params, values, encoded_features(params.metadata))


def _days(cells, column, missing):
    days = date_ops.to_days(cells, column['order'])
    is_known = tf.math.is_finite(days) | _are_missing(cells, missing)
    wrong = tf.boolean_mask(cells, ~is_known)
    check = tf.debugging.Assert(tf.reduce_all(is_known), [f'the input {column["name"]} is not a date:', wrong], summarize=3)
    with tf.control_dependencies([check]):
        return tf.identity(days)


def _are_missing(cells, missing):
    return tf.reduce_any(tf.equal(cells[:, None], tf.constant(['', *missing.to_pylist()])), 1)
