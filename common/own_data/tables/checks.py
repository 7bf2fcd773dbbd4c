"""Checks of how the columns of a table are read: errors with their place and cure, and warnings of what was decided."""

from collections.abc import Mapping
import re

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, show
from estimator_trainer.common.own_data.extremes import warn_of_extreme
from estimator_trainer.common.own_data.schema import CATEGORICAL, DATE, ID, NUMERIC, TARGET
from estimator_trainer.common.own_data.tables import dates
from estimator_trainer.common.own_data.tables.blocks import Table
from estimator_trainer.common.own_data.tables.numbers import COMMA
from estimator_trainer.common.own_data.tables.survey import Column

_TOTALS = frozenset(
    'total totals sum summe gesamt gesamtsumme gesamtergebnis insgesamt somme suma totale totaal eindtotaal'.split()
) | {'grand total', 'total general', 'total général', 'totale complessivo', 'total geral'}  # As pivot tables name them, too.
_MOMENT = re.compile(
    r'(19|20)\d\d-(\d{1,2}|W\d\d)\b|\d{1,2}\.?[ -](de )?[^\W\d]{3,}\.?[ -](de )?(19|20)\d\d\b'
    r'|(.* )?\d{1,4}:\d\d(:\d\d(\.\d+)?)?( ?[AaPp]\.?[Mm]\.?| [A-Z]{3,4})?$'
)  # A month, a week, a date with the name of a month, or a time.
_ID = re.compile(r'(^|[\W_])(id|nr)[\W_]*$', re.IGNORECASE)  # Names of columns.
_ID_OF = re.compile(r'[a-z0-9](Id|ID|Nr|No)$')
_IGNORE = 'give the kind ignore in --hparams=schema=FILE'
CURE = 'to change that, give its kind in --hparams=schema=FILE'


def check_readings(table: Table, columns: Mapping[str, Column], named: Mapping[str, str], max_bad_share: float) -> None:
    """Raises an error if a column can be read in two ways, or has bad cells; warns of what is not as programs write it.

    Args:
      named: {name: role} of the columns with a role.
    """
    has_commas = may_have_commas(table, columns)
    for name, column in columns.items():
        place = f'{table.path}: column {name}'
        if column.reading and column.reading.wrong:
            raise UsageError(f'{place}: {column.reading.wrong}')
        _check_dates(place, table, column)
        _warn_of_style(place, table, column, has_commas)
        if column.reading and column.kind in (NUMERIC, DATE) and named.get(name) != TARGET:
            check_unread(table, column, max_bad_share)
            warn_of_extremes(place, column)
            _warn_of_zeros(place, column)
            if name not in named and not column.profile.given:
                _warn_of_integers(place, column)
        if column.kind in (CATEGORICAL, None) and not column.profile.given:
            _warn_of_mixture(place, table, column)


def may_be_id(name: str) -> bool:
    """Whether a name of a column is one of ids, such as customer_id or PassengerId, other than ID, which has a role."""
    return name.lower() != ID and bool(_ID.search(name) or _ID_OF.search(name))


def may_have_commas(table: Table, columns: Mapping[str, Column]) -> bool:
    """Whether a column has decimal commas, or all may have: spreadsheets that write these separate cells by semicolons."""
    decimals = [column.style['style']['decimal'] for column in columns.values() if column.style]
    has_points = any(column.profile.has_points for column in columns.values())
    return COMMA in decimals or getattr(table, 'delimiter', '') == ';' and not has_points


def check_unread(table: Table, column: Column, max_bad_share: float) -> None:
    """Raises RunError if a cell is neither missing nor what nearly all others of the column are; warns if rows may be wrong."""
    if not column.profile.evidence.first_unread:
        return
    line, cell = column.profile.evidence.first_unread
    what = 'a date' if column.kind == DATE else 'a number'
    text = f'{table.path}: {table.unit} {line}: column {column.name}: {show(cell)} is not {what}, as nearly all others are'
    if max_bad_share:
        tf.logging.warning('%s: such rows are skipped; %s.', text, CURE)
        return
    missing = f'read it as missing with {_as_missing(cell)}, ' if _as_missing(cell) else ''
    raise RunError(
        f'{text}: correct it, {missing}skip such rows with '
        '--hparams=max_bad_share=0.01, or make the column categorical in --hparams=schema=FILE'
    )


def warn_of_extremes(place: str, column: Column) -> None:
    """Warns of numbers or dates far from all others, which may mark missing ones."""
    order = column.reading.order if column.reading else ''
    for value, reason in column.numbers.extremes.items():
        cells = column.profile.values.counts() if order else ()
        cell = next((cell for cell in cells if dates.in_order(cell, order) == value), f'{value:.15g}')
        warn_of_extreme(place, cell, reason, _as_missing(cell) or '--hparams=missing')


def warn_of_totals(table: Table, columns: Mapping[str, Column], last: Mapping[str, str]) -> None:
    """Warns if the last row, {name: cell}, may be the totals of the others, as spreadsheets have them."""
    for name, cell in last.items():
        if cell.rstrip(' :').casefold() in _TOTALS and columns[name].values.counts().get(cell, 0) < 2:
            tf.logging.warning(
                '%s: column %s is %s in the last row: if that has totals, remove it.', table.path, name, show(cell)
            )


def _check_dates(place, table, column):
    """Raises UsageError if a column that should have dates has none."""
    reading, first = column.reading, column.profile.evidence.first
    if column.kind == DATE and not column.profile.num_present:
        raise UsageError(f'{place} has no dates in the rows that are trained on: {_IGNORE}')
    if column.kind == DATE and not (reading and reading.order):
        shown = f'{show(first[1])} in {table.unit} {first[0]}' if first else 'numbers'
        raise UsageError(f'{place} has no dates, but {shown}: give another kind, or write dates as 2024-12-31')


def _warn_of_style(place, table, column, has_commas):
    """Warns of numbers that programs do not write, and of years of two digits."""
    reading, evidence = column.reading, column.profile.evidence
    if reading and reading.style and evidence.first:
        line, cell = evidence.first
        value = reading.style.number(cell)
        shown = '' if value is None else f', such as {show(cell)} in {table.unit} {line} as {value:.15g}'
        tf.logging.warning('%s: the cells are read as numbers%s; %s.', place, shown, CURE)
    if reading and not reading.order and column.profile.may_be_thousands(has_commas):
        tf.logging.warning(
            '%s: points are read as decimal points, but all numbers with one have three digits after it: if 1.234 is 1234, '
            'give --hparams=decimal=comma.',
            place,
        )
    warn_of_short_years(place, table, column)
    _warn_of_zones(place, table, column)


def warn_of_short_years(place: str, table: Table, column: Column) -> None:
    """Warns of dates whose years have two digits."""
    reading = column.reading
    if reading and reading.order and column.profile.evidence.first_short:
        line, cell = column.profile.evidence.first_short
        days = dates.in_order(cell, reading.order)
        shown = '' if days is None else f', such as {show(cell)} in {table.unit} {line} as {dates.to_date(days)}'
        tf.logging.warning('%s: years of two digits are read as 1969 to 2068%s.', place, shown)


def _warn_of_zones(place, table, column):
    """Warns of times without an offset beside others that have one."""
    evidence = column.profile.evidence
    if column.reading and column.reading.order and evidence.first_zoned and evidence.first_local:
        (line, zoned), (other, local) = evidence.first_zoned, evidence.first_local
        tf.logging.warning(
            '%s: %s in %s %d has an offset, but %s in %s %d has none: times without one are read as UTC.',
            place,
            show(zoned),
            table.unit,
            line,
            show(local),
            table.unit,
            other,
        )


def _warn_of_zeros(place, column):
    """Warns of numbers that may be codes."""
    if not column.reading.order and column.profile.padded:
        tf.logging.warning('%s: %s has leading zeros, but is read as a number; %s.', place, show(column.profile.padded), CURE)


def _warn_of_integers(place, column):
    """Warns of integers that may be dates such as 20241231, or ids."""
    if column.reading.order or column.reading.style or not column.profile.is_integer:
        return
    ends = [f'{end:.0f}' for end in (column.numbers.min, column.numbers.max)]
    if all(len(end) == 8 and dates.read(f'{end[:4]}-{end[4:6]}-{end[6:]}') and '1900' <= end < '22' for end in ends):
        tf.logging.warning('%s: %s seems to be a date, but is read as a number: write dates as 2024-12-31.', place, ends[0])
    elif may_be_id(column.name) and column.profile.identifies:
        tf.logging.warning('%s: each row has another number, which is learned from; if they are ids, %s.', place, _IGNORE)


def _warn_of_mixture(place, table, column):
    """Warns if most cells are numbers, or seem to be dates or times, but the column is neither."""
    profile = column.profile
    taken = 'taken as categories' if column.kind else 'the column is ignored'
    if profile.share_of_numbers <= 0.5 or not profile.evidence.first:
        _, cell = profile.evidence.first_unread or (0, '')
        if _MOMENT.match(cell):
            cure = 'write dates as 2024-12-31 23:59, times and durations as numbers'
            tf.logging.warning('%s: %s is no date that is read: %s; %s.', place, show(cell), taken, cure)
        return
    line, cell = profile.evidence.first_unread or profile.evidence.first
    missing = _as_missing(cell) if profile.evidence.first_unread else ''
    tf.logging.warning(
        '%s: %d %% of the cells are %s, but %s in %s %d is %s: %s; %s%s.',
        place,
        round(100 * profile.share_of_numbers),
        'dates' if profile.evidence.has_dates else 'numbers',
        show(cell),
        table.unit,
        line,
        'none' if profile.evidence.first_unread else 'of another sort',
        taken,
        CURE,
        f', or {missing} if it is missing' if missing else '',
    )


def _as_missing(cell):
    """Returns the flag that makes a cell missing; '' if it cannot be written there."""
    return f'--hparams=missing=[{cell}]' if re.fullmatch(r'[^\s,\[\]\\"\'{}]{1,100}', cell) and cell.isprintable() else ''
