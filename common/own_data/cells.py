"""Conversion of a table's cells to values of tf.train.Examples."""

from collections.abc import Callable, Mapping, Sequence
import re
from typing import Any

from estimator_trainer.common.errors import RunError, UsageError, show
from estimator_trainer.common.graphs import plain
from estimator_trainer.common.own_data.description import Feature
from estimator_trainer.common.own_data.schema import CATEGORICAL, LABEL, NUMERIC, REGRESSION, TARGET, WEIGHT

# Markers of missing cells.
MISSING = frozenset(['', 'NA', 'NaN', 'nan', 'null', 'NULL', 'None', '?'])
_FLOAT32_MAX = 3.4028234e38
_INTEGER = re.compile(r'[+-]?[0-9]{1,39}')


def make_encoder(
    path: str, header: Sequence[str], facts: Mapping[str, Any], has_labels: bool
) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Returns a function from a row's cells to {column: value}, without missing ones; it raises RunError for an invalid cell.

    Args:
      path: of a table with the columns of the metadata; the target, the id and the weight may be missing.
      header: the names of its columns.
      facts: the metadata.
      has_labels: whether the function returns the target and the weight.

    Raises:
      UsageError: a column is missing.
    """
    kinds = {column['name']: column['kind'] for column in facts['columns']}
    places = {name: i for i, name in enumerate(header)}
    missing = [name for name, kind in kinds.items() if kind in (NUMERIC, CATEGORICAL) and name not in places]
    if missing:
        raise UsageError(f'{path}: has no column {", ".join(missing[:10])}, which the model requires')
    wanted = {name: kind for name, kind in kinds.items() if name in places and (has_labels or kind not in (TARGET, WEIGHT))}
    items = [(places[name], name, _make_converter(kind, facts)) for name, kind in wanted.items()]

    def encode(cells):
        example = {}
        for i, name, convert in items:
            try:
                value = convert(cells[i])
            except RunError as error:
                raise RunError(f'column {name}: {error}') from None
            if value is not None:
                example[name] = value
        return example

    return encode


def _make_converter(kind, facts):
    """Returns a function from a cell to a float or str, None if missing; it raises RunError for an invalid cell."""
    is_number = _is_number(kind, facts)
    wants_integer = kind == TARGET and all(re.fullmatch(r'-?\d+', name) for name in facts.get('class_names', ()))

    def convert(cell):
        if cell in MISSING:
            if kind in (TARGET, WEIGHT):
                raise RunError(f'the {kind} is missing')
            return None
        if not is_number:
            return to_integer_text(cell) if wants_integer else cell
        number = to_number(cell)
        if number is None:
            raise RunError(f'{show(cell)} is not a number')
        if kind == WEIGHT and number < 0:
            raise RunError(f'a weight must not be negative, but is {cell}')
        return number

    return convert


def _is_number(kind, facts):
    return kind in (NUMERIC, WEIGHT) or kind == TARGET and facts['task'] == REGRESSION


@plain
def encoded_features(facts: Mapping[str, Any]) -> list[Feature]:
    """Returns the columns of the metadata as features for `example_parser`, with the storage types of their values."""
    return [
        {
            **column,
            'kind': LABEL if column['kind'] == TARGET else column['kind'],
            'stored': 'float' if _is_number(column['kind'], facts) else 'bytes',
            'values': 1,
        }
        for column in facts['columns']
    ]


def to_integer_text(cell: str) -> str:
    """Returns an integer in its shortest form, such as '1' for '1.0'; any other cell unchanged."""
    number = to_number(cell)
    if number is None or number != int(number):
        return cell
    return str(int(cell if _INTEGER.fullmatch(cell) else number))  # A float may lose digits.


def to_number(cell: str) -> float | None:
    """Returns the number in a cell; None if there is none, or it is not finite in float32."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) <= _FLOAT32_MAX and '_' not in cell else None  # Python reads 1_0 as 10.


def is_almost_number(cell: str) -> bool:
    """Whether a cell is a number with a decimal comma, or too large, or infinite."""
    try:
        float(cell.replace(',', '.'))
    except ValueError:
        return False
    return '_' not in cell
