"""Cells of a column, in Arrow arrays: which are missing, and the numbers and dates in them."""

from collections.abc import Callable, Collection
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from estimator_trainer.common.own_data.tables import dates
from estimator_trainer.common.own_data.tables.numbers import FLOAT32_MAX, Style, to_number
from estimator_trainer.common.own_data.values import MISSING, spellings

_MAX_ZEROS = 6  # After a number, as in columns of a fixed number of decimals.


def missing_values(added: Collection[str] = ()) -> Any:
    """Returns the texts of missing cells, string [n]: the usual ones, and those that the user added, in all their spellings."""
    return pa.array(sorted(MISSING.union(*(_written(str(text)) for text in added))), pa.string())


def facts(added: Collection[str]) -> list[list[str]]:
    """Returns how the user's texts of missing cells are understood, for the name of a conversion."""
    return [missing_values(added).to_pylist()] if added else []


def _written(text):
    """Returns the spellings of a missing value; of a number, unless it is a code such as 007, those of all programs."""
    found, number = [text, *spellings(text)], to_number(text)
    if number is not None and not re.match('[+-]?0[0-9]', text):
        found += [
            str(number),
            pa.scalar(number).cast(pa.string()).as_py(),
            *([str(int(number))] if number.is_integer() else []),
        ]
    points = [shown if '.' in shown else f'{shown}.' for shown in found if re.fullmatch(r'[+-]?[0-9]+(\.[0-9]+)?', shown)]
    return found + [point + '0' * count for point in points for count in range(1, _MAX_ZEROS + 1)]


def is_missing(cells: Any, missing: Any) -> np.ndarray:
    """Returns which cells are missing, bool [n]."""
    return pyarrow.compute.is_in(cells, missing).to_numpy(zero_copy_only=False)


def present(cells: Any, missing: Any) -> Any:
    """Returns those of cells, string [n], that are not missing."""
    return cells.filter(pa.array(~is_missing(cells, missing)))


def are_numbers(missing: Any, style: Style | None = None) -> bool:
    """Whether texts of missing cells, string [n], would be numbers otherwise; if not, a number is never missing."""
    return bool(missing_numbers(missing, style))


def missing_numbers(missing: Any, style: Style | None = None) -> list[float]:
    """Returns the numbers among the texts of missing cells, string [n]: those that mark missing ones, such as -999."""
    found = to_numbers(missing, style)
    return np.unique(found[~np.isnan(found)]).tolist()


def to_numbers(cells: Any, style: Style | None = None) -> np.ndarray:
    """Returns the numbers in cells, float64 [n]; NaN where there is none, or it is not finite in float32.

    Args:
      cells: string [n].
      style: how they are written; by default as programs write them.
    """
    if style is None:
        try:
            values = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # Some are none, or written as Python alone reads them.
            return _each(cells, to_number)
        with np.errstate(invalid='ignore'):
            return np.where(np.abs(values) <= FLOAT32_MAX, values, np.nan)
    return _each(cells, style.number)


def to_days(cells: Any, order: str) -> np.ndarray:
    """Returns the dates in cells, in days since 1970-01-01, float64 [n]; NaN where there is none in this order."""
    return _each(cells, lambda cell: dates.in_order(cell, order))


def _each(cells, function: Callable[[str], float | None]):
    """Applies a function to each distinct cell."""
    encoded = cells.dictionary_encode()
    found = [function(cell) for cell in encoded.dictionary.to_pylist()]
    values = np.array([np.nan if value is None else value for value in found], np.float64)
    return values[encoded.indices.to_numpy(zero_copy_only=False)] if len(cells) else np.zeros(0)


def counts(cells: Any) -> dict[str, int]:
    """Returns {cell: how often it occurs}."""
    found = pyarrow.compute.value_counts(cells)
    return dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist()))
