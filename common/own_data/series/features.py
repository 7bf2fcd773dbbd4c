"""Windows of series as features and labels, in TensorFlow ops, by the metadata of datasets/series.py."""

from collections.abc import Mapping
import math
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.graphs import plain
from estimator_trainer.common.own_data.description import of_kind
from estimator_trainer.common.own_data.moments import standardize, without
from estimator_trainer.common.own_data.schema import NUMERIC, TARGET
from estimator_trainer.common.own_data.series.reader import TIME
from estimator_trainer.common.own_data.series.timeline import DAY, MONTH_ORDER
from estimator_trainer.common.own_data.series.windowing import LARGEST
from estimator_trainer.common.own_data.tables import date_ops, dates
from estimator_trainer.common.own_data.tables.cells import missing_numbers, missing_values
from estimator_trainer.common.own_data.tables.encoding import style_of
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.targets import WINDOW_SCALE
from estimator_trainer.hparams.build import HParams

PREDICT = tf.estimator.ModeKeys.PREDICT


@plain
def parse_batch(mode: str, params: HParams, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns the features of windows, see `make_features`, and the labels, None in PREDICT.

    The labels are {'label': float32 [batch, horizon], 'baselines': float32 [batch, 2, horizon]}, see `Windows.baselines`.
    """
    stored = {
        'past': tf.io.FixedLenFeature([params.window, len(_numbers(params))], tf.float32),
        'time': tf.io.FixedLenFeature([], tf.int64),
    }
    if mode != PREDICT:
        stored['future'] = tf.io.FixedLenFeature([params.horizon], tf.float32)
        stored['baselines'] = tf.io.FixedLenFeature([2, params.horizon], tf.float32)
    found = tf.io.parse_example(serialized, stored)
    features = make_features(params, found['past'], tf.cast(found['time'], tf.float64) / DAY)
    return features, None if mode == PREDICT else {'label': found['future'], 'baselines': found['baselines']}


def make_features(params: HParams, past: tf.Tensor, days: Any) -> dict[str, tf.Tensor]:
    """Returns the features of windows.

    Args:
      params: hyper-parameters, among them the metadata.
      past: float32 [batch, window, columns], the target first.
      days: float64 [batch], the times of the last rows, in days since 1970-01-01; unused without cycles.

    Returns:
      'past', float32 [batch, window, columns]: the target minus the mean of the window, divided by its standard deviation, or
      by the metadata's least_scale if that is larger; and the other columns, standardized by the training part, 0 if missing.
      'calendar', float32 [batch, parts], if there are cycles: sine and cosine of the place of the last row in each cycle, its
      halves and its thirds. 'window_scale', float32 [batch, 2]: the mean and the divisor of the target, no input of networks.
    """
    metadata, target = params.metadata, past[:, :, 0]
    mean = tf.reduce_mean(target, 1, keepdims=True)
    deviation = tf.sqrt(tf.reduce_mean(tf.square(target - mean), 1, keepdims=True))
    scale = tf.maximum(deviation, tf.constant(metadata['least_scale'], tf.float32))
    columns, inputs = [((target - mean) / scale)[:, :, None]], of_kind(metadata['columns'], NUMERIC)
    if inputs:
        columns.append(standardize(past[:, :, 1:], *([one[name] for one in inputs] for name in ('mean', 'std'))))
    features = {'past': tf.concat(columns, 2), WINDOW_SCALE: tf.concat([mean, scale], 1)}
    phases = [
        2 * math.pi * number * days / cycle['period']
        for cycle in metadata['cycles']
        for number in range(1, cycle['harmonics'] + 1)
    ]
    if phases:
        parts = [wave(phase) for phase in phases for wave in (tf.sin, tf.cos)]
        features['calendar'] = tf.cast(tf.stack(parts, 1), tf.float32)
    return features


@plain
def raw_specs(params: HParams) -> dict[str, tf.TensorSpec]:
    """Returns {column: float32 [batch, window]} for the target and other numbers; the time of the last row, string [batch].

    There is no time if the calendar has no part in the features.
    """
    specs = {column['name']: tf.TensorSpec([None, params.window], tf.float32) for column in _numbers(params)}
    return {**({_time(params)['name']: tf.TensorSpec([None], tf.string)} if params.metadata['cycles'] else {}), **specs}


@plain
def from_raw(params: HParams, raw: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the features of raw inputs; NaN is missing, as is what marks a missing number in files.

    A time that is none, a missing or too large value of the target, or an infinite number raises InvalidArgumentError when the
    graph runs.
    """
    missing, columns = missing_values(params.missing), _numbers(params)
    target, *others = (without(missing_numbers(missing, style_of(column)), raw[column['name']]) for column in columns)
    text = f'the input {columns[0]["name"]} has a missing number, which a target must not have'
    checks = [tf.debugging.Assert(tf.reduce_all(tf.math.is_finite(target)), [text])]
    text = f'the input {columns[0]["name"]} has a number larger than {LARGEST:g}: write all in a larger unit'
    checks.append(tf.debugging.Assert(~tf.reduce_any(tf.abs(target) > LARGEST), [text]))
    for column, values in zip(columns[1:], others):
        text = f'the input {column["name"]} has an infinite number; NaN is missing'
        checks.append(tf.debugging.Assert(~tf.reduce_any(tf.math.is_inf(values)), [text]))
    with tf.control_dependencies(checks):
        past = tf.stack([target, *others], 2)
    return make_features(params, past, _days(raw[_time(params)['name']], params) if params.metadata['cycles'] else None)


def _days(cells, params):
    time = _time(params)
    is_month = time['order'] == MONTH_ORDER
    texts = tf.strings.join([tokens.strip(cells), '-01']) if is_month else cells
    days = date_ops.to_days(texts, dates.YMD if is_month else time['order'])
    text = [f'the input {time["name"]} is not a time, as the data has them:', tf.boolean_mask(cells, ~tf.math.is_finite(days))]
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(tf.math.is_finite(days)), text, summarize=3)]):
        return tf.identity(days)


def input_parts(params: HParams) -> dict[str, list[dict[str, Any]]]:
    """Returns what each number of the features is, for the card of an export that takes these."""
    target, *others = _numbers(params)
    least = params.metadata['least_scale']
    scaled = f'{target["name"]}, minus the mean of the window, divided by its standard deviation, or by {least:.6g} if larger'
    past = [{'name': scaled}, *({name: one[name] for name in ('name', 'mean', 'std')} for one in others)]
    waves = [
        {'name': f'{wave} of 2 pi {number} t / {cycle["period"]}, t in days since 1970-01-01 UTC, of the last row'}
        for cycle in params.metadata['cycles']
        for number in range(1, cycle['harmonics'] + 1)
        for wave in ('sine', 'cosine')
    ]
    scale = [{'name': 'mean of the window'}, {'name': f'its standard deviation, or {least:.6g} if larger'}]
    return {'past': past, WINDOW_SCALE: scale, **({'calendar': waves} if waves else {})}


def _numbers(params):
    columns = params.metadata['columns']
    return [*of_kind(columns, TARGET), *of_kind(columns, NUMERIC)]


def _time(params):
    return of_kind(params.metadata['columns'], TIME)[0]
