"""The rows of a table as serialized tf.train.Examples, by the metadata of its dataset."""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from estimator_trainer.common import unicode_forms
from estimator_trainer.common.errors import RunError, UsageError, show
from estimator_trainer.common.graphs import plain
from estimator_trainer.common.own_data.description import Feature, facts_of_target
from estimator_trainer.common.own_data.examples import serialization
from estimator_trainer.common.own_data.schema import CATEGORICAL, DATE, IMAGE, LABEL, NUMERIC, REGRESSION, TARGET, TEXT, WEIGHT
from estimator_trainer.common.own_data.tables import dates
from estimator_trainer.common.own_data.tables.blocks import Block, Table
from estimator_trainer.common.own_data.tables.cells import are_numbers, is_missing, missing_values, to_days, to_numbers
from estimator_trainer.common.own_data.tables.numbers import POINT, Style, to_number
from estimator_trainer.common.own_data.tables.zones import Zones
from estimator_trainer.common.own_data.values import display, key, of_float
from estimator_trainer.common.targets import is_multilabel

LEARNED = (NUMERIC, CATEGORICAL, DATE, TEXT)


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Rows of a block: the indices of the sound ones, int [n], their examples, binary [n], and {index: error} of the others."""

    indices: np.ndarray
    examples: Any
    faults: Mapping[int, RunError]


Encode = Callable[[Block, np.ndarray], Encoded]


def make_encoder(table: Table, facts: Mapping[str, Any], has_labels: bool) -> Encode:
    """Returns a function that encodes the rows of a block with the given indices, int [n].

    Args:
      table: with the columns of the metadata; the target, the id and the weight may be missing.
      facts: the metadata.
      has_labels: whether the examples contain the target and the weight.

    Raises:
      UsageError: a column is missing.
    """
    places = {name: i for i, name in enumerate(table.header)}
    absent = [column['name'] for column in facts['columns'] if column['kind'] in LEARNED and column['name'] not in places]
    if absent:
        there = ', '.join(filter(None, table.header[:10])) + (', ...' if len(table.header) > 10 else '')
        raise UsageError(
            f'{table.path}: has no column {", ".join(absent[:10])}, which the model requires; its columns are: {there}'
        )
    missing = missing_values(facts.get('missing', ()))
    columns = [
        (places[column['name']], column, _converter(column, facts, missing, style_of(column, table.numbers), table.path))
        for column in facts['columns']
        if column['name'] in places and column['kind'] != IMAGE and (has_labels or column['kind'] not in (TARGET, WEIGHT))
    ]

    def encode(block: Block, indices: np.ndarray) -> Encoded:
        faults = {i: block.faults[i] for i in indices.tolist() if i in block.faults} if block.faults else {}
        is_sound = ~np.isin(indices, list(faults))
        rows = pa.array(indices)
        found: dict[str, Any] = {}
        for place, column, convert in columns:
            cells = block.columns[place] if len(rows) == len(block) else block.columns[place].take(rows)
            values, wrong = convert(cells)
            found |= values
            for j in np.flatnonzero(wrong & is_sound) if wrong is not None else ():
                index, reason = int(indices[j]), _reason(column, cells[j : j + 1], facts, missing, table.numbers)
                where = f'{table.path}: {table.unit} {block.line(index)}'
                faults[index] = RunError(f'{where}: column {column["name"]}: {reason}')
                is_sound[j] = False
        serialized = serialization.serialize(found) if found else pa.array([b''] * len(indices), pa.binary())
        return Encoded(
            indices[is_sound], serialized.filter(pa.array(is_sound)) if faults else serialized, dict(sorted(faults.items()))
        )

    return encode


def _reason(column, cells, facts, missing, typed):
    """Returns what is wrong with the one of some cells."""
    kind, cell = column['kind'], cells[0].as_py()
    if is_missing(cells, missing)[0]:
        return f'the {kind} is missing' + (
            f': {show(cell)} counts as missing; if it is a value, write another text' if cell else ''
        )
    if kind == WEIGHT and to_numbers(cells, style_of(column, typed))[0] < 0:
        return f'a weight must not be negative, but is {cell}'
    classes = '0 or 1' if is_multilabel(facts) else 'one of the classes'
    wanted = 'a date' if kind == DATE else 'a number' if _is_number(column, facts) else classes
    return f'{show(cell)} is not {wanted}'


def _converter(column, facts, missing, style, path):
    """Returns a function from the cells of a column to {name: values to serialize} and which are wrong, or None."""
    name, kind = column['name'], column['kind']
    if _is_number(column, facts):
        may_be_missing = are_numbers(missing, style)

        def to_floats(cells):
            values = to_numbers(cells, style)
            wrong = np.isnan(values)
            if may_be_missing or wrong.any():
                is_absent = is_missing(cells, missing)
                values[is_absent] = np.nan
                wrong = wrong | is_absent if kind in (TARGET, WEIGHT) else wrong & ~is_absent
            return {name: values}, wrong | (values < 0) if kind == WEIGHT else wrong

        return to_floats
    if kind == DATE:
        zones = Zones(column, f'{path}: column')

        def to_parts(cells):
            days, is_absent = to_days(cells, column['order']), is_missing(cells, missing)
            days[is_absent] = np.nan
            for cell in _unlike(zones, cells.filter(pa.array(~np.isnan(days))))[:1].to_pylist():
                zones.check(cell)
            return dates.parts(days, name, column['origin'], column['cycles']), np.isnan(days) & ~is_absent

        return to_parts
    texts = serialization.Texts(name, _stored(column, facts, {*missing.to_pylist()}))

    def to_texts(cells):
        entries = texts(cells)
        wrong = pyarrow.compute.equal(entries, b'').to_numpy(zero_copy_only=False) if kind == TARGET else None
        return {name: entries}, wrong

    return to_texts


def _unlike(zones, cells):
    """Returns the times among dates whose offset, or lack of one, is unlike the training data."""
    if zones.has_zone is None:
        return cells[:0]
    have_zones = pyarrow.compute.match_substring_regex(cells, dates.ZONED)
    are_unlike = pyarrow.compute.not_equal(have_zones, zones.has_zone)
    return cells.filter(pyarrow.compute.and_(are_unlike, pyarrow.compute.match_substring(cells, ':')))


def _stored(column, facts, missing):
    """Returns a function from a cell of a column of texts to the text that is stored; None if it is missing, or no class."""
    if column['kind'] == TEXT:  # A missing one has no words.
        return lambda cell: '' if cell in missing else as_read(cell, TEXT)
    if column['kind'] == TARGET:
        names = _by_key(facts_of_target(facts, column['name'])['class_names'])
        return lambda cell: None if cell in missing else names.get(key(cell))
    if column['kind'] != CATEGORICAL:
        return lambda cell: None if cell in missing else cell
    known = _by_key(column['vocabulary'])
    return lambda cell: None if cell in missing else known.get(key(cell), as_read(cell, CATEGORICAL))


def _by_key(names):
    """Returns {key: value}; also of floats of typed tables, which older versions wrote with other exponents."""
    numbers = {value: to_number(value) for value in names}
    floats = {value: number for value, number in numbers.items() if number and not 1e-4 <= abs(number) < 1e10}
    return {of_float(number): value for value, number in floats.items()} | {key(value): value for value in reversed(names)}


def as_read(cell: str, kind: str) -> str:
    """Returns a cell of a column of texts in one spelling: a category as `values.display` does, a free text in NFC."""
    if kind == CATEGORICAL:
        return display(cell)
    return unicode_forms.composed(cell) if kind == TEXT else cell


def _is_number(column, facts):
    kind = column['kind']
    return kind in (NUMERIC, WEIGHT) or kind == TARGET and facts_of_target(facts, column['name'])['task'] == REGRESSION


def style_of(column: Feature, typed: Collection[str] = ()) -> Style | None:
    """Returns how the numbers of a column of the metadata are written; None if as programs write them.

    Args:
      column: of the metadata.
      typed: the columns with decimal points, whatever the training data has; see `Table.numbers`.
    """
    if 'style' not in column:
        return None
    style = Style(**column['style'])
    return dataclasses.replace(style, decimal=POINT) if column['name'] in typed else style


@plain
def encoded_features(facts: Mapping[str, Any]) -> list[Feature]:
    """Returns the columns of the metadata, but for pictures, as features for `parser`, with their storage types.

    A date is several numbers: see `dates.parts`.
    """
    features: list[Feature] = []
    for column in facts['columns']:
        if column['kind'] == IMAGE:
            continue
        kind = LABEL if column['kind'] == TARGET else column['kind']
        feature = {**column, 'kind': kind, 'stored': 'float' if _is_number(column, facts) else 'bytes', 'values': 1}
        features += _parts_of(column) if kind == DATE else [feature]
    return features


def _parts_of(column) -> Sequence[Feature]:
    names = dates.parts(np.zeros(0), column['name'], 0.0, column['cycles'])
    first = {'mean': column['mean'], 'std': column['std'], 'indicator': column['indicator']}
    return [
        {'name': name, 'kind': NUMERIC, 'stored': 'float', 'values': 1, **({'mean': 0.0, 'std': 1.0} if i else first)}
        for i, name in enumerate(names)
    ]
