"""Times of a series: how cells are read as times and written back, and the interval between them.

Times are int64: milliseconds since 1970-01-01, UTC, or, if the column has integers, these.
"""

from collections.abc import Sequence
import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute

from estimator_trainer.common.own_data.tables import cells, dates

DAY = 86_400_000
HOUR = DAY // 24
MAX_INTEGER = 2**53  # Those below are exact as float64.
MONTH_ORDER, INTEGER = 'ym', 'integer'  # Orders besides those of dates: 2024-12, and numbers of steps, years or the like.
TIME, WORKDAY, MONTH = 'time', 'workday', 'month'
HARMONICS = 3
_YEAR_MONTH = re.compile(r'\d{4}-(0[1-9]|1[0-2])')
_CYCLES = {'year': 2, **dict.fromkeys(('week', 'day'), 1)}  # Repetitions in the training data from which one is learned.
_UNITS = (('day', DAY), ('hour', HOUR), ('minute', 60_000), ('second', 1000), ('millisecond', 1))
_DAYS = {WORKDAY: 1, MONTH: 30}


class Step(NamedTuple):
    """The interval between the times of a series.

    Attributes:
      unit: TIME, of milliseconds or integers; WORKDAY, from Monday to Friday; or MONTH.
      size: the number of units, as 3 of quarters.
      day: of a month, from 1 on; in a shorter month, its last one.
      order: one of dates.ORDERS, MONTH_ORDER or INTEGER.
      has_clock: whether times are written with the time of the day.
      has_zone: whether they were read with offsets, and so are known to be UTC.
    """

    unit: str
    size: int
    day: int = 1
    order: str = dates.YMD
    has_clock: bool = False
    has_zone: bool = False

    def between(self, times: np.ndarray) -> np.ndarray:
        """Returns the steps from each of ascending times [n] to the next, float64 [n - 1]: whole numbers, unless irregular."""
        if self.unit == WORKDAY:
            days = times // DAY
            found = np.busday_count(_date(days[:-1]), _date(days[1:])).astype(float)
            is_off = ~np.is_busday(_date(days)) | (times % DAY != times[:1] % DAY)
            return np.where(is_off[1:] | is_off[:-1], np.nan, found)
        if self.unit == MONTH:
            months, day, length = _months(times)
            is_off = (day != np.minimum(self.day, length)) | (times % DAY != times[:1] % DAY)
            return np.where(is_off[1:] | is_off[:-1], np.nan, np.diff(months) / self.size)
        counts = np.diff(times) / self.size
        if self.order != INTEGER and self.size % DAY == 0:  # A day of summer time begins an hour earlier, in UTC.
            near = np.round(counts)
            return np.where(np.abs(counts - near) * self.size <= DAY // 24, near, counts)
        return counts

    def after(self, time: int, count: int) -> np.ndarray:
        """Returns the next `count` times, int64 [count]."""
        steps = np.arange(1, count + 1)
        if self.unit == TIME:
            return time + steps * self.size
        day, clock = divmod(int(time), DAY)
        if self.unit == WORKDAY:
            return np.busday_offset(_date(np.array(day)), steps, roll='backward').astype(np.int64) * DAY + clock
        months = _months(np.array([time]))[0] + steps * self.size
        first, length = _lengths(months)
        return (first + np.minimum(self.day, length) - 1) * DAY + clock

    def texts(self, times: Sequence[int] | np.ndarray) -> list[str]:
        """Returns times as the column has them, dates as in ISO 8601; with the time of the day also if one is not midnight."""
        if self.order == INTEGER:
            return [str(int(time)) for time in times]
        has_clock = self.has_clock or (np.asarray(times) % DAY).any()  # Other rows than those in training may have it.
        unit = 'M' if self.order == MONTH_ORDER else 'ms' if has_clock else 'D'
        found = np.datetime_as_string(np.asarray(times, 'datetime64[ms]').astype(f'datetime64[{unit}]')).tolist()
        zone = 'Z' if self.has_zone and unit == 'ms' else ''
        return [re.sub(r'(:\d\d)\.000$', r'\1', text) + zone for text in found]

    def season(self) -> int:
        """Returns the usual number of steps of a season: a day, a week or a year; 1 if there is none."""
        if self.unit == WORKDAY or self.order == INTEGER:
            return 5 if self.unit == WORKDAY else 1
        if self.unit == MONTH:
            return 12 // self.size if 12 % self.size == 0 else 1
        return {DAY: 7, 7 * DAY: 52}.get(self.size, DAY // self.size if DAY % self.size == 0 else 1)

    def cycles(self, span: int) -> list[dict[str, Any]]:
        """Returns the cycles of the calendar in a span: {'period', in days, 'harmonics'}; see `features`."""
        if self.order == INTEGER:
            return []
        step = _DAYS.get(self.unit, 1 / DAY) * self.size
        found = [(period, min(HARMONICS, int(period / step / 2)), _CYCLES[name]) for name, period in dates.CYCLES.items()]
        return [
            {'period': period, 'harmonics': count} for period, count, least in found if count and span >= least * period * DAY
        ]

    def describe(self) -> str:
        if self.unit != TIME or self.order == INTEGER:
            name = {WORKDAY: 'working day', MONTH: 'month'}.get(self.unit, 'step')
            return f'{self.size} {name}s' if self.size > 1 else f'a {name}'
        name, unit = next((name, unit) for name, unit in _UNITS if self.size % unit == 0)
        return f'{self.size // unit} {name}s' if self.size > unit else f'{"an" if name == "hour" else "a"} {name}'


def find_order(order: str, is_integer: bool, values: Sequence[str]) -> str | None:
    """Returns how the cells of a column are read as times; None if they are none.

    Args:
      order: as of `evidence.Reading`; '' if they are no dates.
      is_integer: whether all are integers.
      values: the distinct cells, if they are no numbers.
    """
    if order or is_integer:
        return order or INTEGER
    return MONTH_ORDER if values and all(map(is_month, values)) else None


def is_month(cell: str) -> bool:
    """Whether a cell is a month as 2024-12."""
    return bool(_YEAR_MONTH.fullmatch(cell))


def have_zones(texts: Any, order: str) -> np.ndarray:
    """Returns which of the times in cells, string [n], have an offset, as +02:00 or Z, bool [n]."""
    if order not in dates.ORDERS:
        return np.zeros(len(texts), bool)
    return pyarrow.compute.match_substring_regex(texts, dates.ZONED).to_numpy(zero_copy_only=False)


def to_times(texts: Any, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the times in cells, string [n], as int64 [n], and which of these are known, bool [n]."""
    if order == INTEGER:
        found = cells.to_numbers(texts)
        is_known = (found == np.trunc(found)) & (np.abs(found) < MAX_INTEGER)
        return np.where(is_known, found, 0).astype(np.int64), is_known
    if order == MONTH_ORDER:
        found = np.array([dates.read(f'{text}-01').get(dates.YMD, np.nan) for text in texts.to_pylist()], float)
    else:
        found = cells.to_days(texts, order)
    is_known = np.isfinite(found)
    return np.round(np.where(is_known, found, 0) * DAY).astype(np.int64), is_known


def find_step(groups: Sequence[np.ndarray], order: str) -> Step | None:
    """Returns the interval that most neighbors among ascending distinct times have; None if no group has two times.

    Args:
      groups: int64 [n] each.
      order: see `Step`.
    """
    gaps = np.concatenate([np.diff(times) for times in groups])
    if not len(gaps):
        return None
    sizes, counts = np.unique(gaps, return_counts=True)
    size, times = int(sizes[counts.argmax()]), np.concatenate(groups)
    if order == INTEGER:
        return Step(TIME, size, order=order)
    has_clock = bool((times % DAY).any())
    months, day, length = _months(times)
    last = 31 if (day == length).all() else int(day.max())
    is_same_clock = all((group % DAY == group[0] % DAY).all() for group in groups)
    if sizes[0] >= 28 * DAY and is_same_clock and (day == np.minimum(last, length)).all():
        found = np.concatenate([np.diff(_months(group)[0]) for group in groups])
        return Step(MONTH, int(np.bincount(found).argmax()), last, order, has_clock)
    if size == DAY and 3 * DAY in sizes and is_same_clock and np.is_busday(_date(times // DAY)).all():
        return Step(WORKDAY, 1, 1, order, has_clock)
    return Step(TIME, size, 1, order, has_clock)


def _date(days):
    return days.astype('datetime64[D]')


def _months(times):
    """Returns the months since 1970-01, the days of these, from 1 on, and the lengths of the months, int64 [n] each."""
    days = times // DAY
    months = _date(days).astype('datetime64[M]').astype(np.int64)
    first, length = _lengths(months)
    return months, days - first + 1, length


def _lengths(months):
    """Returns the first days of months, since 1970-01-01, and their lengths, int64 [n] each."""
    first, following = ((months + i).astype('datetime64[M]').astype('datetime64[D]').astype(np.int64) for i in (0, 1))
    return first, following - first
