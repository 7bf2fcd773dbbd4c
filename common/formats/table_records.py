"""The rows of a table as tf.train.Examples: what is stored of a row, and how that is parsed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from common.errors import RunError, UsageError
from common.formats.cells import is_number, make_converter
from common.formats.delimited import Table
from common.formats.description import Feature
from common.formats.schema import CATEGORICAL, LABEL, NUMERIC, TARGET, WEIGHT


def make_encoder(table: Table, facts: Mapping[str, Any], has_labels: bool) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Returns a function from the cells of a row to {column: value}, without those that are missing.

    Args:
      table: any with the columns of the metadata; the target, the id and the weight may be missing.
      facts: the metadata.
      has_labels: whether the function returns the target and the weight.

    Returns:
      A function that raises RunError if a row is wrong.

    Raises:
      UsageError: a column is missing.
    """
    places = {name: i for i, name in enumerate(table.header)}
    kinds = {column['name']: column['kind'] for column in facts['columns']}
    missing = [name for name, kind in kinds.items() if kind in (NUMERIC, CATEGORICAL) and name not in places]
    if missing:
        raise UsageError(f'{table.path}: has no column {", ".join(missing[:10])}, which the model takes')
    items = [
        (places[name], name, make_converter(kind, facts))
        for name, kind in kinds.items()
        if name in places and (has_labels or kind not in (TARGET, WEIGHT))
    ]

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


def stored_features(facts: Mapping[str, Any]) -> list[Feature]:
    """Returns the columns of the metadata as `example_parser` takes features: with what an encoder stores of each."""
    return [
        {
            **column,
            'kind': LABEL if column['kind'] == TARGET else column['kind'],
            'stored': 'float' if is_number(column['kind'], facts['task']) else 'bytes',
            'values': 1,
        }
        for column in facts['columns']
    ]
