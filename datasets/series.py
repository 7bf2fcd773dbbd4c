"""Your own series: forecasts from a table with a column of times, a column of numbers, and perhaps one of groups.

--hparams=table_file=sales.csv,time=date,target=sales,group=store,window=30,horizon=7 learns from the last 30 rows of a store to
predict the next 7 values. The last share of the time is held out for evaluation; see docs/series.md.
"""

from collections.abc import Iterator
import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, check_range, listed
from estimator_trainer.common.own_data.conversions import convert_once, read_metadata, read_summary
from estimator_trainer.common.own_data.description import of_kind
from estimator_trainer.common.own_data.series import features, reader, timeline, windowing
from estimator_trainer.common.own_data.series.timeline import Step
from estimator_trainer.common.own_data.series.windowing import Windows
from estimator_trainer.common.own_data.splits import fingerprint
from estimator_trainer.common.own_data.tables import cells, evidence
from estimator_trainer.common.own_data.tables.files import SUFFIXES, open_rows, open_table
from estimator_trainer.common.records import records
from estimator_trainer.common.targets import BASELINES
from estimator_trainer.common.unicode_forms import under_names_of
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = tuple(f'*{suffix}' for suffix in SUFFIXES)
PARSED_ONCE = True
LACKS = ('image', 'label')
_VERSION = 2  # Of the conversion.
parse_batch = features.parse_batch
raw_specs = features.raw_specs
from_raw = features.from_raw
input_parts = features.input_parts


def get_params() -> dict[str, Any]:
    return {
        'table_file': '',  # CSV, Parquet, Arrow (Feather) or JSON Lines.
        'time': '',  # The column of dates or times.
        'target': '',  # The column to forecast.
        'group': '',  # A column whose values are series of their own, such as stores; without it, the table is one series.
        'window': 30,  # Past rows that a forecast is made from.
        'horizon': 7,  # Future rows that are forecast.
        'season': 0,  # Rows of a season, of the second baseline; 0 for the usual one of the interval, such as 7 of days.
        'eval_share': 0.2,  # Of the times, the last ones.
        'missing': [],  # Texts of missing cells, in addition to empty ones, NA, N/A, NaN, null, None, ? and the like.
        'decimal': '',  # point or comma: what decimals follow; inferred if a column tells.
        'dates': '',  # dmy or mdy: the order of dates such as 03/04/2024; inferred if a column tells.
        'task': '',  # Set by the metadata.
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Converts the table to TFRecord files of windows, once for each state of the file and of the hyper-parameters."""
    _check(params)
    convert_once(_directory(data_dir, params), params.table_file, lambda: _converted(params))


def metadata(data_dir: str, params: HParams) -> dict[str, Any]:
    """Returns the facts about the training part.

    Returns:
      task: forecast, and its 'horizon'.
      columns: a list of {'name', 'kind'}, of the kinds time, which has its 'order' and 'has_zone'; group; target;
        and numeric, which has 'mean' and 'std'; the last two may have a 'style'.
      step: the interval, the fields of `timeline.Step`.
      season_length: the number of rows of a season.
      cycles: those of the calendar that are learned, {'period', in days, 'harmonics'}.
      least_scale: the least divisor of a window.
    """
    return read_metadata(_directory(data_dir, params))


def summary(data_dir: str, params: HParams) -> str:
    """Returns what was found in the table, where it is cut, and what was decided."""
    return read_summary(_directory(data_dir, params))


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns serialized examples: 'past', 'time', and 'future' and 'baselines', the labels; see `windowing.Windows`."""
    known = ('train', 'eval') if params.eval_share else ('train',)
    if split not in known:
        raise UsageError(f'--dataset=series has no split {split}, but {" and ".join(known)}: --input takes other files')
    return records.read(_directory(data_dir, params), split)


def places(split: str, data_dir: str, params: HParams) -> Iterator[dict[str, Any]]:
    """Yields the group of each window of a split, the times that it forecasts, and the baselines."""
    del data_dir
    columns, step = params.metadata['columns'], Step(**params.metadata['step'])
    found = reader.read(_open(params.table_file, params), columns, params.missing)
    cut = windowing.find_cut(found, params, step)
    windows = windowing.all_windows(found, params, params.metadata['season_length'])
    windows = windowing.split_windows(windows, cut)[split]
    for number in range(len(windows)):
        times = step.texts(windows.future_times(number))
        baselines = {name: values.tolist() for name, values in zip(BASELINES, windows.baselines(number))}
        yield {**_fields(columns, windows.place(number)[0], times), **baselines}


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'group', 'time': the next times}, record) for each group's last window, or an error."""
    for fields, window in _last(_open(path, params), params):
        yield fields, window if isinstance(window, RunError) else records.encode(window)


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'group', 'time'}, record) for each window with a future, of groups with enough rows, or an error."""
    table = _open(path, params)
    columns, found, step = _known(table, params)
    windowing.check_lengths(path, found, params)
    windows = windowing.all_windows(found, params, params.metadata['season_length'])
    _warn_of_season(path, windows)
    for number in range(len(windows)):
        (group, _), window = windows.place(number), windows[number]
        wrong = windowing.lost_in_float32(window['past'][:, 0], params.metadata['least_scale'])
        record = RunError(f'{path}: {reader.label(columns, group)}{wrong}') if wrong else records.encode(window)
        yield _fields(columns, group, step.texts(windows.future_times(number))), record


def take_rows(params: HParams, rows: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]] | None:
    """Returns the raw inputs of the last window of each group in rows of a program, and its 'group' and next times, 'time'.

    Args:
      rows: a DataFrame of pandas or polars, a table of Arrow, a list of dicts, or a dict of columns.

    Returns:
      None if they are none of these, but raw inputs themselves.

    Raises:
      RunError, UsageError: a column is missing, a cell is wrong, or a group has too few rows.
    """
    time, *others = params.metadata['columns']
    names = [column['name'] for column in others if column['kind'] != reader.GROUP]
    known = [column['name'] for column in params.metadata['columns']]
    if isinstance(rows, dict):
        rows = under_names_of(rows, known)
    elif isinstance(rows, list):
        rows = [under_names_of(row, known) if isinstance(row, dict) else row for row in rows]
    first = rows[0] if isinstance(rows, list) and rows else rows
    if isinstance(first, dict) and _is_window(first, names[0], time['name'], first is rows):
        return None
    table = open_rows(rows, known)
    if table is None:
        return None
    fields, windows = zip(*_last(table, params))
    short = [number for number, window in enumerate(windows) if isinstance(window, RunError)]
    if short:
        groups = listed([fields[number]['group'] for number in short if 'group' in fields[number]], 20)
        raise RunError(f'{windows[short[0]]}{f", or leave out {groups}" if len(short) < len(windows) else ""}')
    past = np.stack([window['past'] for window in windows]).astype(np.float32)
    arrays = {name: past[:, :, i] for i, name in enumerate(names)}
    if params.metadata['cycles']:
        ends = Step(**params.metadata['step']).texts([window['time'] for window in windows])
        arrays[time['name']] = np.array([text.encode() for text in ends], object)
    return arrays, {name: np.array([one[name] for one in fields], object) for name in fields[0]}


def _is_window(row: dict[str, Any], target: str, time: str, are_columns: bool) -> bool:
    """Whether a dict has raw inputs, with the past in one item, rather than a row, or columns of rows."""
    past: Any = row.get(target)
    return np.ndim(past) != int(are_columns) or are_columns and (time not in row or isinstance(row[time], (str, bytes)))


def _last(table, params):
    """Yields the group and the next times of each series, and its last window, or the error of one that cannot be forecast."""
    columns, found, step = _known(table, params)
    for group, series in found.items():
        past, place = series.values[-params.window :], f'{table.path}: {reader.label(columns, group)}'
        if len(series.times) < params.window:
            has = f'{len(series.times)} rows, but window={params.window} requires as many'
            yield _fields(columns, group, []), RunError(f'{place}{has}: give more of its past')
        elif wrong := windowing.lost_in_float32(past[:, 0], params.metadata['least_scale']):
            yield _fields(columns, group, []), RunError(f'{place}{wrong}')
        else:
            times = step.texts(step.after(int(series.times[-1]), params.horizon))
            yield _fields(columns, group, times), {'past': past, 'time': int(series.times[-1])}


def _open(path, params):
    return open_table(path, {column['name'] for column in params.metadata['columns']})


def _known(table, params):
    """Returns the columns, {group: Series} and the interval of rows of a trained model's kind."""
    columns, step = params.metadata['columns'], Step(**params.metadata['step'])
    found = reader.read(table, columns, params.missing)
    reader.check_regular(table, columns, found, step)
    return columns, found, step


def _fields(columns, group, times):
    return {**({'group': group} if of_kind(columns, reader.GROUP) else {}), **({'time': times} if times else {})}


def _check(params):
    for name in ('window', 'horizon'):
        check_range(params, name, 1)
    check_range(params, 'season', 0)
    check_range(params, 'eval_share', 0, 0.9)
    evidence.check_given(params)
    if params.folds:
        raise UsageError(
            f'folds={params.folds}: --dataset=series is split by time, and folds would mix past and future: omit the folds; '
            'eval_share gives the last share of the time that is evaluated on'
        )
    if params.train_split != 'train':
        raise UsageError(
            f'train_split={params.train_split}: --dataset=series trains on the times before the evaluation: omit it'
        )
    path = params.table_file
    if not path:
        raise UsageError('--hparams=table_file=PATH is required: a table with a column of times')
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        what = 'is a directory' if tf.io.gfile.exists(path) else 'there is no such file'
        raise UsageError(f'--hparams=table_file={path}: {what}: give one table, which is split by time')


def _directory(data_dir, params):
    names = ('time', 'target', 'group', 'window', 'horizon', 'season', 'eval_share', 'missing', 'decimal', 'dates')
    facts = [*(params[name] for name in names), *cells.facts(params.missing)]
    key = fingerprint(params.table_file, [params.table_file], facts, 1 if _is_older(params) else _VERSION)
    return os.path.join(data_dir, f'series-{key}')


def _is_older(params):
    """Whether a model was trained when the metadata did not say whether times have offsets."""
    return 'columns' in params.metadata and 'has_zone' not in params.metadata['columns'][0]


def _converted(params: HParams) -> tuple[dict[str, Any], str, dict[str, Windows]]:
    """Returns the metadata, a summary, and the windows of each split."""
    path = params.table_file
    table = open_table(path, [params.time, params.target, params.group])
    columns, ignored = reader.find_columns(table, params)
    if ignored:
        tf.logging.warning('%s: the columns %s are ignored: they are no numbers.', path, ', '.join(ignored))
    found = reader.read(table, columns, params.missing)
    step = timeline.find_step([series.times for series in found.values()], columns[0]['order'])
    if step is None:
        cure = f'is group={params.group} the column that tells series apart?' if params.group else 'add rows'
        raise RunError(f'{path}: no series has two times: {cure}')
    step = step._replace(has_zone=columns[0]['has_zone'])
    reader.check_regular(table, columns, found, step)
    windowing.check_target(path, columns, windowing.check_lengths(path, found, params), params.window)
    cut, season = windowing.find_cut(found, params, step), params.season or step.season()
    splits = windowing.split_windows(windowing.all_windows(found, params, season), cut)
    facts = windowing.describe(path, columns, splits, step, cut, season)
    _warn_of_season(path, splits.get('eval', splits['train']))
    _warn_of_new(path, splits)
    if _is_older(params):
        facts['columns'][0].pop('has_zone')
        facts['step'].pop('has_zone')
    return facts, windowing.summarize(path, facts, splits, cut, ignored, params.season), splits


def _warn_of_season(path: str, evaluated: Windows) -> None:
    """Warns of windows of the evaluation that begin before a whole season is known."""
    count = int((evaluated.lasts + 1 < evaluated.season).sum())
    if count:
        text = '%s: %d of %d windows have less than a season of %d rows before them: there, the last value is that baseline.'
        tf.logging.warning(text, path, count, len(evaluated), evaluated.season)


def _warn_of_new(path: str, splits: dict[str, Windows]) -> None:
    """Warns of groups that are evaluated on, but not learned from."""
    trained = splits['train']
    new = np.setdiff1d(splits.get('eval', trained).groups, trained.groups)
    if len(new):
        text = '%s: some series are in the split eval only: %s. The model knows no groups, and forecasts them like others.'
        tf.logging.warning(text, path, listed([trained.names[group] for group in new], 5))
