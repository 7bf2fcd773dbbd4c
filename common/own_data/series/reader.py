"""The rows of a table as series: the columns by their roles, and the values of each group in the order of time."""

from collections.abc import Iterator, Mapping, Sequence
import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, listed, show
from estimator_trainer.common.own_data.description import Feature, of_kind
from estimator_trainer.common.own_data.schema import CATEGORICAL, NUMERIC, TARGET
from estimator_trainer.common.own_data.series import timeline
from estimator_trainer.common.own_data.series.timeline import Step
from estimator_trainer.common.own_data.split_rows import BadRows
from estimator_trainer.common.own_data.splits import SplitFile
from estimator_trainer.common.own_data.tables import dates
from estimator_trainer.common.own_data.tables.blocks import Table
from estimator_trainer.common.own_data.tables.cells import is_missing, missing_values, to_numbers
from estimator_trainer.common.own_data.tables.checks import may_have_commas, warn_of_extremes, warn_of_short_years
from estimator_trainer.common.own_data.tables.columns import Settings
from estimator_trainer.common.own_data.tables.encoding import style_of
from estimator_trainer.common.own_data.tables.survey import Column, survey
from estimator_trainer.common.own_data.values import display, key
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.text import nearest

TIME, GROUP = 'time', 'group'  # Kinds of columns, besides TARGET and NUMERIC.
_MAX_DISTINCT = 10**5
_CORRECT = 'correct it, or remove the row'
_WRITTEN = {
    dates.YMD: 'as 2024-12-31',
    dates.DMY: 'as 31/12/2024 or 2024-12-31',
    dates.MDY: 'as 12/31/2024 or 2024-12-31',
    timeline.MONTH_ORDER: 'months, as 2024-12',
    timeline.INTEGER: 'integers, below 2^53',
}
_SUNDAY = 3  # Days after 1970-01-01, a Thursday.
_FIRST_DATE, _LAST_DATE = 19000101, 21991231  # As integers.
_YEAR, _MONTH = r'(?:19|20|21)\d\d', r'(?:0[1-9]|1[0-2])'
_COMPACT = [
    (what, written, re.compile(_YEAR + rest))
    for what, written, rest in (
        ('a quarter', 'its first day, 2024-10-01 for 20244', '[1-4]'),
        ('a month', '2024-12 for 202412', _MONTH),
        ('a week', 'its first day, 2024-12-30 for 202501', r'(?:0[1-9]|[1-4]\d|5[0-3])'),
        ('a day of a year', '2024-12-31 for 2024366', r'(?:00[1-9]|0[1-9]\d|[12]\d\d|3[0-5]\d|36[0-6])'),
        ('a time', '2024-12-31 23:00 for 2024123123', _MONTH + r'(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])(?:[0-5]\d){0,2}'),
    )
]
_COUNTS = (  # In milliseconds, and what 0 is.
    ('seconds since 1970', 1000, 0),
    ('milliseconds since 1970', 1, 0),
    ('microseconds since 1970', 1e-3, 0),
    ('nanoseconds since 1970', 1e-6, 0),
    ('days of a spreadsheet', timeline.DAY, -25569 * timeline.DAY),  # Since 1899-12-30.
)
_FIRST_COUNTED, _LAST_COUNTED = 5 * 365 * timeline.DAY, 80 * 365 * timeline.DAY  # About 1975 to 2050, since 1970.


class Series(NamedTuple):
    """The rows of a group, in the order of time.

    Attributes:
      times: int64 [n], ascending; see `timeline`.
      values: float64 [n, columns], the target first, then the other columns of numbers, NaN where these are missing.
      lines: int [n], where the rows are in the file.
    """

    times: np.ndarray
    values: np.ndarray
    lines: np.ndarray


def find_columns(table: Table, params: HParams) -> tuple[list[Feature], list[str]]:
    """Returns the columns by their roles, {'name', 'kind', ...}, and the names of those that are ignored.

    The first is that of the time, with its 'order' and 'has_zone'; then the group's, if there is one, the target's,
    and other columns of numbers, which may have a 'style'.

    Raises:
      UsageError: a column is missing, has two roles, or can be read in two ways.
      RunError: the cells of the time or the target are no times or no numbers.
    """
    roles = _find_roles(table, params)
    kinds = {name: CATEGORICAL if role == GROUP else None for name in table.header if name for role in [roles.get(name)]}
    settings = Settings(_MAX_DISTINCT, missing_values(params.missing), params.decimal, params.dates)
    whole = SplitFile(table.path, ('train',))
    found = survey(table, whole, 'train', kinds, (), [*roles], settings, BadRows(1))[0]
    columns: list[Feature] = []
    ignored, has_commas = [], may_have_commas(table, found)
    for name in sorted(found, key=lambda name: [TIME, GROUP, TARGET, None].index(roles.get(name))):
        column, role = found[name], roles.get(name)
        if role == GROUP:
            columns.append({'name': name, 'kind': GROUP})
        elif role == TIME:
            order, first = _order_of(table, column), column.profile.evidence.first
            has_zone = bool(first and timeline.have_zones(pa.array([first[1]]), order)[0])
            columns.append({'name': name, 'kind': TIME, 'order': order, 'has_zone': has_zone})
        elif role == TARGET or column.kind == NUMERIC:
            columns.append({'name': name, 'kind': role or NUMERIC, **_style(table, column, role == TARGET, has_commas)})
        else:
            ignored.append(name)
    return columns, ignored


def _find_roles(table, params):
    roles: dict[str, str] = {}
    names = [*filter(None, table.header)]
    for role in (TIME, TARGET, GROUP):
        name = params[role]
        if name not in names and (name or role != GROUP):
            wrong = f'{name}: there is no such column{nearest(name, names)}' if name else 'COLUMN is required'
            raise UsageError(f'--hparams={role}={wrong}; {table.path} has: {listed(names, 20)}')
        if name in roles:
            raise UsageError(f'{role}={name}: the column is also the {roles[name]}: name another')
        if name:
            roles[name] = role
    return roles


def _order_of(table: Table, column: Column) -> str:
    """Returns the order of the column of times; raises an error if its cells are no times."""
    reading, place, profile = column.reading, f'{table.path}: column {column.name}', column.profile
    if not profile.num_present:
        raise RunError(f'{table.path}: has no rows')
    if reading and reading.wrong:
        raise UsageError(f'{place}: {reading.wrong}')
    is_plain = reading is not None and not reading.style and profile.is_integer
    values = [*column.values.counts()] if not is_plain else []
    order = timeline.find_order(reading.order if reading else '', is_plain, values)
    if order == timeline.INTEGER:
        _check_integers(place, column)
    if order and not profile.evidence.first_unread or order == timeline.MONTH_ORDER:
        warn_of_short_years(place, table, column)
        return order
    if profile.evidence.first_unread and reading:
        line, cell = profile.evidence.first_unread
        place = f'{table.path}: {table.unit} {line}: column {column.name}'
    else:
        cell = next((cell for cell in values if not timeline.is_month(cell)), values[0])
    raise RunError(
        f'{place}: {show(cell)} is no time: write times as 2024-12-31, 2024-12-31 23:00, 2024-12 or as integers; a week or a '
        'quarter as its first day'
    )


def _check_integers(place, column):
    """Raises RunError for dates, or parts of them, without hyphens; warns of integers that may count from a date on."""
    first, last = column.numbers.min, column.numbers.max
    if _FIRST_DATE <= first and last <= _LAST_DATE:
        raise RunError(f'{place}: {first:.0f} seems to be a date: write it as 2024-12-31')
    values = [f'{float(each):.0f}' for each in (first, last, *column.values.counts())]  # Few or none are counted of many.
    for what, written, pattern in _COMPACT:
        if all(map(pattern.fullmatch, values)):
            cure = f'write it as {written}; if these are numbers of steps, subtract a constant'
            raise RunError(f'{place}: {values[0]} seems to be {what}: {cure}')
    for what, units, begin in _COUNTS:
        moments = [begin + end * units for end in (first, last)]
        if all(_FIRST_COUNTED <= each < _LAST_COUNTED for each in moments):
            shown = str(np.datetime64(round(moments[0]), 'ms').astype('datetime64[s]')).replace('T', ' ')
            if last >= timeline.MAX_INTEGER:
                raise RunError(f'{place}: {values[0]} seems to be {what}: write it as {shown}')
            text = '%s: the integers are read as numbers of steps, without a calendar: if they are %s, write %s as %s.'
            tf.logging.warning(text, place, what, values[0], shown)


def _style(table: Table, column: Column, is_target: bool, has_commas: bool) -> dict[str, Any]:
    """Returns {'style'} of a column of numbers that are not written as programs do; raises an error if they are none."""
    place, reading, profile = f'{table.path}: column {column.name}', column.reading, column.profile
    if reading and reading.wrong:
        raise UsageError(f'{place}: {reading.wrong}')
    if reading is None or not column.is_number or profile.evidence.first_unread:
        line, cell = profile.evidence.first_unread or profile.evidence.first or (1, '')
        cure = '' if is_target else f', or read it as missing with --hparams=missing=[{cell}]'
        raise RunError(
            f'{table.path}: {table.unit} {line}: column {column.name}: {show(cell)} is not a number: correct it{cure}'
        )
    if reading.style and profile.evidence.first:
        line, cell = profile.evidence.first
        value = reading.style.number(cell)
        shown = f'{show(cell)} in {table.unit} {line}'
        tf.logging.warning('%s: the cells are read as numbers, such as %s as %s.', place, shown, value)
    if profile.may_be_thousands(has_commas):
        text = '%s: points are read as decimal points: if 1.234 is 1234, give --hparams=decimal=comma.'
        tf.logging.warning(text, place)
    warn_of_extremes(place, column)
    return column.style


def read(table: Table, columns: Sequence[Feature], missing: Sequence[str] = ()) -> dict[str, Series]:
    """Returns {group: Series} of a table, in the order of the groups' first rows; the group is '' without such a column.

    Spellings of one group, see `values.key`, are one, shown as the first of them.

    Args:
      columns: as of `find_columns`.
      missing: further texts of missing cells.

    Raises:
      UsageError: a column is missing.
      RunError: a cell is wrong or missing, where it must not be, or a group has two values for a time; the message names the
        file and the line.
    """
    if lacking := [column['name'] for column in columns if column['name'] not in table.header]:
        has = listed([*filter(None, table.header)], 20)
        raise UsageError(f'{table.path}: has no column {", ".join(lacking)}, which a forecast requires; it has: {has}')
    parts = [*_parts(table, columns, missing_values(missing))]
    if not parts:
        raise RunError(f'{table.path}: has no rows')
    times, values, lines, have_zones = (np.concatenate([part[i] for part in parts]) for i in range(4))
    if (times % timeline.DAY).any():  # Midnights are days, whatever their offset.
        _warn_of_zones(table, columns[0], lines, have_zones)
    encoded = pa.chunked_array([part[4] for part in parts]).combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    shown = {key(name): display(name) for name in reversed(names)}
    shown = {each: shown[each] for each in map(key, names)}
    number = {each: i for i, each in enumerate(shown)}
    codes = np.array([number[key(name)] for name in names])[encoded.indices.to_numpy(zero_copy_only=False)]
    order = np.lexsort([times, codes])
    places = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    found = dict(zip(shown.values(), (Series(times[one], values[one], lines[one]) for one in places)))
    _check_distinct(table, columns, found)
    return found


def _warn_of_zones(table, time, lines, have_zones):
    """Warns of times without an offset beside others that have one, in the table or in the training data."""
    place, known = f'{table.path}: column {time["name"]}', time.get('has_zone')
    if have_zones.any() and not have_zones.all():
        text = '%s: times have an offset, but that in %s %d has none: times without one are read as UTC.'
        tf.logging.warning(text, place, table.unit, lines[~have_zones][0])
    elif known is not None and have_zones[0] != known:
        has, are, cure = ('no offset', 'are read as', 'it') if known else ('an offset', 'become', 'none, as there')
        text = '%s: the times have %s, unlike those of the training data, and %s UTC: write %s.'
        tf.logging.warning(text, place, has, are, cure)


def _parts(table, columns, missing) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Any]]:
    """Yields times, values, lines, which times have an offset, and groups of the rows of each block that are not empty."""
    for block in table.blocks():
        for fault in block.faults.values():
            raise RunError(f'{fault}: correct it')
        rows = block.filled
        if not len(rows):
            continue
        lines = np.array([block.line(int(row)) for row in rows])
        cells = {column['name']: block.columns[table.header.index(column['name'])].take(pa.array(rows)) for column in columns}
        (time,) = of_kind(columns, TIME)
        times, are_known = timeline.to_times(cells[time['name']], time['order'])
        _refuse(table, time, cells, lines, ~are_known, f'is no time: {_CORRECT}; times are {_WRITTEN[time["order"]]}')
        groups: Any = pa.array([''] * len(rows), pa.string())
        for group in of_kind(columns, GROUP):
            groups = cells[group['name']]
            _refuse(table, group, cells, lines, is_missing(groups, missing), f'names no group: {_CORRECT}')
        numbers = [*of_kind(columns, TARGET), *of_kind(columns, NUMERIC)]
        values = np.stack([_numbers(table, one, cells, lines, missing) for one in numbers], 1)
        yield times, values, lines, timeline.have_zones(cells[time['name']], time['order']), groups


def _numbers(table, column, cells, lines, missing):
    texts = cells[column['name']]
    values, are_missing = to_numbers(texts, style_of(column, table.numbers)), is_missing(texts, missing)
    values[are_missing] = np.nan
    if column['kind'] == TARGET:
        cure = 'a target must not be missing: write it, or remove rows that are yet to come'
        _refuse(table, column, cells, lines, are_missing, f'is no number: {cure}')
    _refuse(table, column, cells, lines, np.isnan(values) & ~are_missing, f'is no number: {_CORRECT}')
    return values


def _refuse(table, column, cells, lines, are_wrong, reason):
    """Raises RunError if some cells are wrong; it names the first one."""
    if are_wrong.any():
        first = int(are_wrong.argmax())
        text = (
            f'{table.path}: {table.unit} {lines[first]}: column {column["name"]}: {show(cells[column["name"]][first].as_py())}'
        )
        raise RunError(f'{text} {reason}{_more(int(are_wrong.sum()), "rows like this")}')


def _check_distinct(table, columns, found):
    (time,), groups = of_kind(columns, TIME), of_kind(columns, GROUP)
    for group, series in found.items():
        same = np.flatnonzero(np.diff(series.times) == 0)
        if len(same):
            first, second = series.lines[same[0] : same[0] + 2]
            cure = 'name the column that tells them apart with --hparams=group=COLUMN'
            if groups:
                cure = f'write into column {groups[0]["name"]} all that tells them apart, as a store and a product'
            raise RunError(
                f'{table.path}: {table.unit}s {first} and {second}: {label(columns, group)}two values for '
                f'{_text(time, series.times[same[0]])}: remove one, or {cure}{_if_clocks_changed(time, series.times[same[0]])}'
            )


def _if_clocks_changed(column, time):
    """Returns the cure if clocks may have changed at a time without an offset: in the first hours of a Sunday; else ''."""
    day, clock = divmod(int(time), timeline.DAY)
    is_early = day % 7 == _SUNDAY and 0 < clock <= 4 * timeline.HOUR
    if column['order'] not in dates.ORDERS or column.get('has_zone') or not is_early:
        return ''
    return '; if clocks changed then, write times with their offset, as 2024-10-27 02:00+01:00'


def label(columns: Sequence[Feature], group: str) -> str:
    """Returns a group for messages, as 'store a: '; '' without such a column."""
    found = of_kind(columns, GROUP)
    return f'{found[0]["name"]} {group}: ' if found else ''


def check_regular(table: Table, columns: Sequence[Feature], found: Mapping[str, Series], step: Step) -> None:
    """Raises RunError if a group has a gap, or a time off the interval; the message names the file and the line."""
    counts = {group: step.between(series.times) for group, series in found.items()}
    wrong = {group: np.flatnonzero(of_group != 1) for group, of_group in counts.items()}
    total, rows = sum(map(len, wrong.values())), sum(map(len, counts.values()))
    is_local = columns[0].get('has_zone') and any((series.times % timeline.DAY).any() for series in found.values())
    is_local = is_local and (step.unit != timeline.TIME or step.size >= timeline.DAY)
    local = '; if these are local dates, write them without offsets, as 2024-12-31' if is_local else ''
    if 2 * total > rows:
        raise RunError(
            f'{table.path}: the times have no common interval: only {rows - total} of {rows} rows follow the one before by '
            f'{step.describe()}: write a row for each hour, day or month{local}'
        )
    for group, series in found.items():
        if not len(wrong[group]):
            continue
        first = int(wrong[group][0])
        before, now = (_text(columns[0], time) for time in series.times[first : first + 2])
        place = f'{table.path}: {table.unit} {series.lines[first + 1]}: {label(columns, group)}{now} comes after {before}'
        more, missing = _more(total, 'gaps in all'), counts[group][first] - 1
        if missing >= 1 and missing == np.round(missing):
            are = f'{missing:.0f} times are' if missing > 1 else 'a time is'
            cure = 'add a row for each, as with 0 where nothing was sold'
            is_hour = step.unit == timeline.TIME and missing * step.size == timeline.HOUR
            cure += _if_clocks_changed(columns[0], series.times[first + 1]) if is_hour else local
            raise RunError(f'{place}: {are} missing: {cure}; the interval is {step.describe()}{more}')
        raise RunError(
            f'{place}, which does not fit {step.describe()}, the interval of other rows: correct or remove it{local}{more}'
        )


def _text(column, time):
    step = Step(timeline.TIME, 1, order=column['order'], has_zone=column.get('has_zone', False))
    return step.texts([time])[0]


def _more(count, what):
    return f' ({count:,} {what})' if count > 1 else ''
