"""Evidence for how to read cells that programs do not read as numbers: as numbers that people write, or as dates."""

import collections
from collections.abc import Mapping
import dataclasses
from typing import Any

from estimator_trainer.common.errors import UsageError, show
from estimator_trainer.common.own_data.tables import dates, numbers
from estimator_trainer.common.own_data.tables.numbers import COMMA, POINT, Style

_MOSTLY = 0.9


@dataclasses.dataclass(frozen=True)
class Reading:
    """What was decided about a column.

    Attributes:
      style: how its numbers are written; None if as programs write them.
      order: one of dates.ORDERS if its cells are dates.
      wrong: what keeps it from being read, with the cure; ''.
    """

    style: Style | None = None
    order: str = ''
    wrong: str = ''


def check_given(params: Mapping[str, Any]) -> None:
    """Raises UsageError if one of the hyper-parameters decimal and dates is invalid."""
    for name, choices in (('decimal', numbers.DECIMALS), ('dates', (dates.DMY, dates.MDY))):
        if params[name] not in ('', *choices):
            raise UsageError(f'{name}={params[name]} must be {" or ".join(choices)}')


class Evidence:
    """Statistics of cells that are no plain numbers.

    Attributes:
      total: number of these cells.
      unread: number of those that are neither numbers nor dates.
      has_points: whether a number has a point that cannot separate thousands.
      first: (line, cell) of the first cell; first_unread of the first of those; first_short of the first date with a
        year of two digits; first_zoned of the first time with an offset, first_local of the first one without.
    """

    def __init__(self) -> None:
        self.total = self.unread = 0
        self.first: tuple[int, str] | None = None
        self.first_unread: tuple[int, str] | None = None
        self.first_short: tuple[int, str] | None = None
        self.first_zoned: tuple[int, str] | None = None
        self.first_local: tuple[int, str] | None = None
        self._numbers: collections.Counter[str] = collections.Counter()  # By decimal.
        self._dates: collections.Counter[str] = collections.Counter()  # By order.
        self._affixes: dict[str, tuple[int, str]] = {}
        self._has_small = self._has_points = self._is_clear = False  # Of numbers: 900 kg, 1.234 kg, and any other with a point.
        self.has_points = False
        self._either: tuple[int, str] | None = None  # 1,234 is two numbers.
        self._either_date: tuple[int, str] | None = None

    @property
    def has_dates(self) -> bool:
        """Whether some of these cells are dates."""
        return bool(self._dates)

    @property
    def has_zone(self) -> bool | None:
        """Whether its times have an offset; None if some have one and some none, or there are no times."""
        if (self.first_zoned is None) == (self.first_local is None):
            return None
        return self.first_local is None

    def may_be_thousands(self, has_points: bool, has_small: bool) -> bool:
        """Whether all numbers with a point are like 1.234, which may be thousands, and some others are below 1,000.

        Args:
          has_points, has_small: whether there are such ones among the plain numbers.
        """
        return not self._is_clear and (has_points or self._has_points) and (has_small or self._has_small)

    def add(self, cell: str, count: int, line: int) -> None:
        """Adds a cell that occurs `count` times, first in a line."""
        place = line, cell
        self.total += count
        self.first = self.first or place
        number, found = numbers.read(cell), dates.read(cell)
        if number is None and not found:
            self.unread += count
            self.first_unread = self.first_unread or place
        for order in found:
            self._dates[order] += count
        if len({*found.values()}) > 1:
            self._either_date = self._either_date or place
        if found and dates.has_short_year(cell):
            self.first_short = self.first_short or place
        if found and (zone := dates.zone_of(cell)) is not None:
            self.first_zoned = self.first_zoned or (place if zone else None)
            self.first_local = self.first_local or (None if zone else place)
        if number is None:
            return
        self._affixes.setdefault(number.affix, place)
        for decimal, value in ((POINT, number.point), (COMMA, number.comma)):
            self._numbers[decimal] += count * (value is not None)
        if number.point is None or number.comma is None:
            self._is_clear = True
            self.has_points |= number.comma is None
        elif number.has_comma:
            self._either = self._either or place
        elif number.point != number.comma:
            self._has_points = True
        else:
            self._has_small |= abs(number.point) < 1000

    def reading(self, num_plain: int, fits_comma: bool, decimal: str, order: str) -> Reading | None:
        """Returns how nearly all cells of the column are read; None if they are neither numbers nor dates.

        Args:
          num_plain: number of cells that are plain numbers.
          fits_comma: whether those are numbers if decimals follow a comma, too.
          decimal: POINT or COMMA, if the user gave it.
          order: one of dates.ORDERS, if the user gave it.
        """
        enough = _MOSTLY * (self.total + num_plain)
        read = {each: self._numbers[each] + num_plain for each in numbers.DECIMALS if each in (decimal or each)}
        if not fits_comma and COMMA in read:
            read[COMMA] = self._numbers[COMMA]
        best = max(read, key=lambda each: read[each])
        if read[best] >= enough:
            return self._numbers_read(best, read, num_plain)
        of_years = self._dates[dates.YMD]  # Which each column of another order may have, too.
        of_dates = {
            each: count + (of_years if each != dates.YMD else 0)
            for each, count in self._dates.items()
            if each in (order or each, dates.YMD)
        }
        if max(of_dates.values(), default=0) >= max(enough, 1):
            return self._dates_read(of_dates)
        return None

    def _numbers_read(self, best, read, num_plain):
        if self._either and len(read) == 2 and read[POINT] == read[COMMA]:
            line, cell = self._either
            point, comma = (f'{Style(each, self._affixes).number(cell):.15g}' for each in numbers.DECIMALS)
            either = f'{point} with a separator of thousands, or {comma} with a decimal comma'
            cure = 'say which with --hparams=decimal=point or --hparams=decimal=comma'
            return Reading(wrong=f'line {line}: {show(cell)} is {either}: {cure}')
        beside = {**({'': (0, '')} if num_plain else {}), **self._affixes}
        if wrong := _mixed(beside):
            return Reading(wrong=wrong)
        is_plain = best == POINT and not self._numbers[POINT]
        return Reading(None if is_plain else Style(best, sorted(beside)))

    def _dates_read(self, found):
        most = max(found.values())
        orders = [order for order in dates.ORDERS if found.get(order) == most]
        if len(orders) > 1 and self._either_date:
            line, cell = self._either_date
            cure = 'say which with --hparams=dates=dmy or --hparams=dates=mdy'
            return Reading(wrong=f'line {line}: {show(cell)} may begin with the day or with the month: {cure}')
        return Reading(order=orders[0])


def _mixed(affixes: Mapping[str, tuple[int, str]]) -> str:
    """Describes units that differ; '' if all numbers have the same."""
    units = {affix: place for affix, place in affixes.items() if affix}
    bare = '' in affixes and any(affix in '%‰' for affix in units)  # 45 % beside 0.45.
    if len(units) + bare < 2:
        return ''
    (line, cell), *others = units.values()
    other = f'line {others[0][0]}: {show(others[0][1])}' if others else 'a number without it'
    cure = 'write all in one unit, or give the kind categorical in --hparams=schema=FILE'
    return f'line {line}: {show(cell)}, but {other}: {cure}'
