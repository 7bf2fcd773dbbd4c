"""How the text of a table's cell becomes a value."""

from collections.abc import Callable, Mapping
import re
from typing import Any

from common.errors import RunError
from common.formats.schema import NUMERIC, REGRESSION, TARGET, WEIGHT
from common.values import show

# What counts as a missing cell.
MISSING = frozenset(['', 'NA', 'NaN', 'nan', 'null', 'NULL', 'None', '?'])
_FLOAT32_MAX = 3.4028234e38
_INTEGER = re.compile(r'[+-]?[0-9]{1,39}')


def is_number(kind: str, task: str) -> bool:
    """Whether the values of a column of this kind are numbers, in a dataset of this task; otherwise they are text."""
    return kind in (NUMERIC, WEIGHT) or kind == TARGET and task == REGRESSION


def make_converter(kind: str, facts: Mapping[str, Any]) -> Callable[[str], float | str | None]:
    """Returns a function from a cell of a column to its value; None if it is missing.

    Args:
      kind: of the column.
      facts: the metadata, for the target.

    Returns:
      A function that raises RunError if the cell is wrong.
    """
    wants_number, is_required = is_number(kind, facts['task']), kind in (TARGET, WEIGHT)
    wants_integer = kind == TARGET and all(re.fullmatch(r'-?\d+', name) for name in facts.get('class_names', ()))

    def convert(cell):
        if cell in MISSING:
            if is_required:
                raise RunError(f'the {kind} is missing')
            return None
        if not wants_number:
            return to_integer_text(cell) if wants_integer else cell
        number = to_number(cell)
        if number is None:
            raise RunError(f'{show(cell)} is not a number')
        if kind == WEIGHT and number < 0:
            raise RunError(f'a weight must not be negative, but is {cell}')
        return number

    return convert


def to_integer_text(cell: str) -> str:
    """Returns an integer in its shortest form, such as '1' for '1.0'; any other cell as it is."""
    number = to_number(cell)
    if number is None or number != int(number):
        return cell
    return str(int(cell if _INTEGER.fullmatch(cell) else number))  # A float may not hold all digits.


def to_number(cell: str) -> float | None:
    """Returns the number in a cell; None if there is none, or it is not finite in float32."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) <= _FLOAT32_MAX and '_' not in cell else None  # Python reads 1_0 as 10.


def is_almost_number(cell: str) -> bool:
    """Whether a cell is a number with a decimal comma, or one that is too large or infinite."""
    try:
        float(cell.replace(',', '.'))
    except ValueError:
        return False
    return '_' not in cell
