"""Profiles of columns: what their cells are, and statistics of them."""

from collections.abc import Callable
import dataclasses
import functools
import operator
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from estimator_trainer.common.own_data.extremes import Numbers
from estimator_trainer.common.own_data.schema import CATEGORICAL, DATE, NUMERIC, TEXT
from estimator_trainer.common.own_data.tables.cells import are_numbers, counts, is_missing, to_numbers
from estimator_trainer.common.own_data.tables.evidence import Evidence, Reading
from estimator_trainer.common.own_data.tables.numbers import COMMA, Style
from estimator_trainer.common.own_data.vocabulary import ValueCounts

_MIN_DISTINCT_ROWS = 10
_WORDS_OF_A_TEXT = 3
_LONG = 100  # Characters: longer cells hardly occur again, and would fill the memory.
_WORD = re.compile(r'[^\W\d_]+')
_FIRST_ROUNDED = 2.0**53  # From here on, different integers may be one float64.
_THOUSANDS = r'^[+-]?[1-9]\d{0,2}(\.\d{3})+$'  # Of numbers whose decimals follow a comma.


def _count_words(cell):
    return _count_few_words(cell) if len(cell) < _LONG else len(_WORD.findall(cell))


@functools.lru_cache(1 << 16)
def _count_few_words(cell):
    return len(_WORD.findall(cell))


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all columns of a table have in common.

    Attributes:
      max_distinct: maximum number of counted values of a column.
      missing: string [n], the texts of missing cells.
      decimal: POINT, COMMA, or '' to infer it.
      order: one of dates.ORDERS, or '' to infer it.
    """

    max_distinct: int
    missing: Any
    decimal: str = ''
    order: str = ''

    @functools.cached_property
    def may_miss_numbers(self) -> bool:
        """Whether a number can be the text of a missing cell."""
        return are_numbers(self.missing)


class ColumnProfile:
    """Statistics of a column's cells so far.

    Args:
      settings: see `Settings`.
      kind: the kind of the column, if given.
      is_counted: whether its values are counted even if all are numbers.

    Attributes:
      values: counts of its values; only complete if is_complete.
      numbers: of the cells that are plain numbers.
      evidence: of the others.
      num_present, num_missing: numbers of cells.
      is_complete: whether all values were counted.
    """

    def __init__(self, settings: Settings, kind: str | None = None, is_counted: bool = False):
        self.settings, self.given = settings, kind
        self.values, self.numbers, self.evidence = ValueCounts(settings.max_distinct), Numbers(), Evidence()
        self.num_present = self.num_missing = self._num_plain = self._num_words = 0
        self.is_complete = True
        self._has_bare = False  # Integers without a point, below 1,000.
        self.padded = ''  # The first integer with leading zeros.
        self._equal: set[str] = set()  # Cells that are one number in float64, as large integers may be.
        self._is_counted = is_counted or kind in (CATEGORICAL, TEXT)
        self._is_read = kind not in (CATEGORICAL, TEXT)
        self._fits_comma = True

    def update(self, cells: Any, lines: Callable[[int], int], groups: np.ndarray) -> None:
        """Adds cells, string [n]; lines returns the line of one by its index; for groups see `Numbers.update`."""
        values = self._all_numbers(cells)
        places = np.arange(len(cells)) if values is not None else np.flatnonzero(~is_missing(cells, self.settings.missing))
        present = cells if len(places) == len(cells) else cells.take(pa.array(places))
        self.num_missing += len(cells) - len(present)
        self.num_present += len(present)
        if self._is_read:
            self._read(
                present, to_numbers(present) if values is None else values, lambda i: lines(int(places[i])), groups[places]
            )
        if self._is_counted or not self._is_read or self.evidence.total:
            found = counts(present)
            self.values.add(found)
            if values is None:
                self._num_words += sum(map(operator.mul, found.values(), map(_count_words, found)))
        elif len(present):
            self.is_complete = False

    def _all_numbers(self, cells):
        """Returns the numbers in cells; None unless all are numbers as programs write them, and none is missing."""
        if not self._is_read or self.evidence.total or self.num_missing or self.settings.may_miss_numbers:
            return None  # Then it is faster to look for missing cells first.
        values = to_numbers(cells)
        return None if np.isnan(values).any() else values

    def _read(self, present, values, lines, groups):
        is_number = ~np.isnan(values)
        self._num_plain += int(is_number.sum())
        self.numbers.update(values[is_number], groups[is_number])
        if self.numbers.min == self.numbers.max and abs(self.numbers.min) >= _FIRST_ROUNDED and not self.is_rounded:
            self._equal.update(pyarrow.compute.unique(present.filter(pa.array(is_number))).to_pylist())
        if self._fits_comma and not self.numbers.is_integer:
            fractions = present.filter(pa.array(is_number & (values != np.trunc(values))))
            fits = pyarrow.compute.match_substring_regex(fractions, _THOUSANDS)
            self._fits_comma = pyarrow.compute.all(fits, min_count=0).as_py()
            bare = values[is_number & ~pyarrow.compute.match_substring(present, '.').to_numpy(zero_copy_only=False)]
            self._has_bare = self._has_bare or bool(len(bare) and np.abs(bare).max() < 1000)
        if not self.padded and self.numbers.is_integer:
            is_padded = pyarrow.compute.match_substring_regex(present, '^0[0-9]')  # But not 0.0, as pandas writes 0.
            self.padded = next(iter(present.filter(pyarrow.compute.and_(is_padded, pa.array(is_number))).to_pylist()), '')
        if is_number.all():
            return
        places = np.flatnonzero(~is_number)
        others = present.take(pa.array(places)).to_pylist()
        first = {cell: int(i) for cell, i in zip(reversed(others), places[::-1])}
        for cell, count in counts(pa.array(others, pa.string())).items():
            self.evidence.add(cell, count, lines(first[cell]))
        self._is_read = self.evidence.unread <= self.num_present / 2  # Nine in ten being numbers is now unlikely.

    def reading(self) -> Reading | None:
        """Returns how its cells are read as numbers or dates; None if they are neither."""
        if not self._is_read or not self.num_present:
            return None
        settings = self.settings
        if not self.evidence.total:
            is_comma = settings.decimal == COMMA and self._fits_comma and not self.numbers.is_integer
            return Reading(Style(COMMA) if is_comma else None)
        return self.evidence.reading(self._num_plain, self._fits_comma, settings.decimal, settings.order)

    def may_be_thousands(self, has_commas: bool = False) -> bool:
        """Whether all numbers with a point are like 1.234, which may be thousands unless given, and others are below 1,000.

        Args:
          has_commas: whether another column has decimal commas, or the file is likely to, so that none need be below 1,000.
        """
        has_points = not self.numbers.is_integer
        is_open = not self.settings.decimal and self._fits_comma
        return is_open and self.evidence.may_be_thousands(has_points, has_commas or self._has_bare)

    @property
    def has_points(self) -> bool:
        """Whether a number has a point that cannot separate thousands."""
        return self.evidence.has_points or not self.numbers.is_integer and not self._fits_comma

    @property
    def is_rounded(self) -> bool:
        """Whether its numbers are equal only because float64 rounds them."""
        return len(self._equal) > 1

    @property
    def share_of_numbers(self) -> float:
        """The share of its cells that are numbers or dates, as far as they were read."""
        return (self._num_plain + self.evidence.total - self.evidence.unread) / max(self.num_present, 1)

    @property
    def is_free_text(self) -> bool:
        """Whether most cells differ and have several words."""
        total = self.values.total
        is_varied = not self.values.is_exact or len(self.values) > total / 2
        return total >= _MIN_DISTINCT_ROWS and is_varied and self._num_words >= _WORDS_OF_A_TEXT * total

    @property
    def identifies(self) -> bool:
        """Whether each row has its own value, like an id."""
        is_each = self.values.are_distinct and not self.num_missing and self.is_complete
        return is_each and self.values.total >= _MIN_DISTINCT_ROWS

    @property
    def is_integer(self) -> bool:
        """Whether each cell is an integer."""
        return not self.evidence.total and self.numbers.is_integer


def kind_of(profile: ColumnProfile, reading: Reading | None) -> str | None:
    """Returns NUMERIC, DATE, CATEGORICAL or TEXT; None for an uninformative column: it is empty, or identifies the rows."""
    if profile.given:
        return profile.given
    if reading:
        return DATE if reading.order else NUMERIC
    if profile.is_free_text:
        return TEXT
    return None if profile.identifies or not profile.num_present else CATEGORICAL
