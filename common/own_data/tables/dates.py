"""Dates and times in the cells of a column: their order of day, month and year, and what a model learns from them."""

import calendar
from collections.abc import Sequence
import datetime
import math
import re
from typing import Any

import numpy as np

YMD, DMY, MDY = ORDERS = ('ymd', 'dmy', 'mdy')
CYCLES = {'year': 365.2425, 'week': 7.0, 'day': 1.0}  # In days.
MONTHS = {name.lower(): i for names in (calendar.month_name, calendar.month_abbr) for i, name in enumerate(names) if name} | {
    'sept': 9
}
OFFSET = r'Z|UTC|[+-]\d\d(?::?\d\d)?'  # From UTC, of the time of the day.
ZONED = rf':\d\d.*(?:{OFFSET})$'  # Of cells with a time.
_SPACES = r'(?u:\s)*'  # Of all of Unicode; digits are ASCII's, as graphs read them.
_TIME = (
    r'(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d(?:[.,]\d+)?))?'
    rf'{_SPACES}(?P<half>[AaPp]\.?[Mm]\.?)?{_SPACES}(?P<zone>{OFFSET})?)?'
)
_YEAR_FIRST = re.compile(rf'(?P<year>\d{{4}})(?P<by>[-/.])(?P<month>\d{{1,2}})(?P=by)(?P<day>\d{{1,2}}){_TIME}', re.ASCII)
_YEAR_LAST = re.compile(
    rf'(?P<first>\d{{1,2}})(?P<by>[-/.])(?P<second_part>\d{{1,2}})(?P=by)(?P<year>\d{{4}}|(?<!-)\d\d){_TIME}',
    re.ASCII,
)
_DAY_MONTH = re.compile(rf'(?P<day>\d{{1,2}})\.?[ -](?P<month>[A-Za-z]{{3,9}})\.?[ -](?P<year>\d{{4}}|\d\d){_TIME}', re.ASCII)
_MONTH_DAY = re.compile(rf'(?P<month>[A-Za-z]{{3,9}})\.? (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){_TIME}', re.ASCII)
_PIVOT = 69  # Of years of two digits.
_EPOCH = datetime.date(1970, 1, 1).toordinal()


def read(cell: str) -> dict[str, float]:
    """Returns {order: days since 1970-01-01, UTC} for each order in which a cell is a date; {} if it is none.

    A date with a year of four digits first, or with the name of a month, has one order, YMD; 03/04/2024 has two. Years of two
    digits are 1969 to 2068, as in POSIX.
    """
    if match := _YEAR_FIRST.fullmatch(cell):
        return _valid({YMD: (match['year'], match['month'], match['day'])}, match)
    if match := _YEAR_LAST.fullmatch(cell):
        first, second = match['first'], match['second_part']
        orders = {DMY: (match['year'], second, first), MDY: (match['year'], first, second)}
        return _valid({DMY: orders[DMY]} if match['by'] == '.' else orders, match)
    match = _DAY_MONTH.fullmatch(cell) or _MONTH_DAY.fullmatch(cell)
    month = match and MONTHS.get(match['month'].lower())
    return _valid({YMD: (match['year'], month, match['day'])}, match) if match and month else {}


def has_short_year(cell: str) -> bool:
    """Whether the year of a date has two digits."""
    match = _YEAR_LAST.fullmatch(cell) or _DAY_MONTH.fullmatch(cell)
    return match is not None and len(match['year']) == 2


def zone_of(cell: str) -> str | None:
    """Returns the offset of a date with a time, such as Z, '' if it has none; None if there is no time, or no date."""
    for form in (_YEAR_FIRST, _YEAR_LAST, _DAY_MONTH, _MONTH_DAY):
        if match := form.fullmatch(cell):
            return (match['zone'] or '') if match['hour'] else None
    return None


def to_date(days: float) -> datetime.date:
    """Returns the date of days since 1970-01-01."""
    return datetime.date.fromordinal(_EPOCH + math.floor(days))


def in_order(cell: str, order: str) -> float | None:
    """Returns the days since 1970-01-01 of a date in an order, or in the only one that it may have; None if it is none."""
    found = read(cell)
    return found.get(order) if order in found or len(found) != 1 else (found.get(YMD) if YMD in found else None)


def _valid(orders, match):
    found = {}
    for order, parts in orders.items():
        try:
            year, month, day = map(int, parts)
            century = 0 if len(match['year']) > 2 else 1900 if year >= _PIVOT else 2000
            found[order] = datetime.date(century + year, month, day).toordinal() - _EPOCH + _time(match)
        except ValueError:
            continue
    return found


def _time(match):
    """Returns the time of a day in days, UTC; raises ValueError if there is no such time."""
    if not match['hour']:
        return 0.0
    hour, minute, second = int(match['hour']), int(match['minute']), float((match['second'] or '0').replace(',', '.'))
    if match['half']:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + 12 * (match['half'][0] in 'pP')
    if hour > 23 or minute > 59 or second >= 61:
        raise ValueError
    zone = re.sub('[^0-9+-]', '', match['zone'] or '')
    offset = int(zone[:3]) * 60 + int(f'{zone[0]}0{zone[3:]}') if zone else 0
    return (hour * 60 + minute - offset) / 1440 + second / 86400


def cycles(first: float, last: float, has_times: bool) -> list[str]:
    """Returns the CYCLES that a range of days covers."""
    covered = [name for name, period in CYCLES.items() if last - first >= period]
    return covered if has_times else [name for name in covered if name != 'day']


def parts(days: Any, name: str, origin: float, found: Sequence[str], library: Any = np) -> dict[str, Any]:
    """Returns what a model learns from dates, float64 [n]: the days since the origin, and the sine and cosine of each cycle.

    Args:
      days: since 1970-01-01, float64 [n]; NaN if missing.
      name: of the column.
      origin: in days since 1970-01-01.
      found: the names of its cycles.
      library: that of the days, NumPy or TensorFlow.
    """
    result = {name: days - origin}
    for cycle in found:
        phase = 2 * math.pi * days / CYCLES[cycle]
        result |= {f'{name}: {cycle}, sine': library.sin(phase), f'{name}: {cycle}, cosine': library.cos(phase)}
    return result
