"""Reads a table's training rows, and finds what each column is.

One pass does for most columns; those whose cells need to be read otherwise than as plain numbers take a second one.
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses
import itertools
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from estimator_trainer.common.own_data.extremes import Numbers
from estimator_trainer.common.own_data.schema import CATEGORICAL
from estimator_trainer.common.own_data.split_rows import BadRows
from estimator_trainer.common.own_data.splits import SplitFile
from estimator_trainer.common.own_data.tables.blocks import Block, Table, ahead
from estimator_trainer.common.own_data.tables.cells import counts, is_missing, present, to_days, to_numbers
from estimator_trainer.common.own_data.tables.columns import ColumnProfile, Settings, kind_of
from estimator_trainer.common.own_data.tables.evidence import Reading
from estimator_trainer.common.own_data.tables.numbers import POINT
from estimator_trainer.common.own_data.values import key
from estimator_trainer.common.own_data.vocabulary import ValueCounts

_GROUP = 1000  # Rows whose moments are merged together.


@dataclasses.dataclass
class Column:
    """What is known about a column.

    Attributes:
      profile: of its cells.
      reading: how they are read as numbers or dates; None if they are neither.
      kind: NUMERIC, DATE, CATEGORICAL, TEXT, or None if it is uninformative.
      numbers: statistics of its numbers, or of its dates in days since 1970-01-01.
      values: counts of its values, if it has no numbers or they were asked for.
    """

    name: str
    profile: ColumnProfile
    reading: Reading | None
    kind: str | None
    numbers: Numbers
    values: ValueCounts

    @property
    def is_number(self) -> bool:
        """Whether its cells are read as numbers."""
        return self.reading is not None and not self.reading.order and not self.reading.wrong

    @property
    def style(self) -> dict[str, Any]:
        """The metadata of a column of numbers that programs do not write so: {'style'}, the items of its Style; else {}."""
        style = self.reading.style if self.reading else None
        return {'style': dataclasses.asdict(style)} if style else {}


def survey(
    table: Table,
    trained: SplitFile,
    split: str,
    kinds: Mapping[str, str | None],
    targets: Collection[str],
    counted: Collection[str],
    settings: Settings,
    bad: BadRows,
) -> tuple[dict[str, Column], dict[str, dict[str, ValueCounts]], dict[str, str]]:
    """Reads the rows of a table.

    Returns:
      {name: Column} of the training rows, {target: {split: counts of its values}} of all rows, {name: cell} of the last row.

    Args:
      table: the table.
      trained: its file.
      split: the one to train on.
      kinds: {name: the given kind, or None} of the columns to look at.
      targets: those whose values are counted in all splits.
      counted: those whose values are counted even if all are numbers.
      settings: see `Settings`.
      bad: counts wrong rows.
    """
    of_typed = dataclasses.replace(settings, decimal=POINT)
    profiles = {
        name: ColumnProfile(of_typed if name in table.numbers else settings, kind, name in counted)
        for name, kind in kinds.items()
    }
    classes = {name: {each: ValueCounts(settings.max_distinct) for each in trained.splits} for name in targets}
    last: dict[str, str] = {}
    for rows in _sound_rows(table, bad, trained):
        for each in trained.splits:
            of_split = rows.of(trained, each)
            for name, counted_in in classes.items():
                counted_in[each].add(counts(present(of_split.cells(name), settings.missing)))
        chosen = rows.of(trained, split)
        for name, profile in profiles.items() if len(chosen.indices) else ():
            profile.update(chosen.cells(name), chosen.line, chosen.groups)
        if len(rows.indices):
            last = {name: rows.columns[name][int(rows.indices[-1])].as_py() for name in profiles}
    columns = {}
    for name, profile in profiles.items():
        reading = profile.reading()
        columns[name] = Column(name, profile, reading, kind_of(profile, reading), profile.numbers, profile.values)
    _complete(table, trained, split, columns, settings)
    return columns, classes, last


def count_values(table: Table, names: Collection[str], settings: Settings, bad: BadRows) -> dict[str, ValueCounts]:
    """Returns {name: counts of the values of this column} of all rows of a table, for the columns that it has."""
    found = {name: ValueCounts(settings.max_distinct) for name in table.header if name in names}
    for rows in _sound_rows(table, bad):
        for name, values in found.items():
            values.add(counts(present(rows.cells(name), settings.missing)))
    return found


def has_values(table: Table, names: Collection[str], missing: Any) -> bool:
    """Whether a row of a table has a value in one of these columns."""
    return any(len(present(rows.cells(name), missing)) for rows in _sound_rows(table, BadRows(1)) for name in names)


def trained_cells(table: Table, trained: SplitFile, split: str, names: Collection[str], missing: Any) -> Iterator[list[str]]:
    """Yields the present cells of columns in a split, in blocks."""
    for rows in _sound_rows(table, BadRows(1)):
        of_split = rows.of(trained, split)
        for name in names:
            yield present(of_split.cells(name), missing).to_pylist()


def grouped_rows(table: Table, target: str, group: str, missing: Any) -> Iterator[tuple[int, str, str]]:
    """Yields the number, the target and the group of each row that has a target; '' of a missing group, or without groups."""
    unknown = {*missing.to_pylist()}
    for rows in _sound_rows(table, BadRows(1)):
        cells = [rows.cells(name) for name in filter(None, [target, group])]
        is_present = ~is_missing(cells[0], missing)
        found = [each.filter(pa.array(is_present)).to_pylist() for each in cells]
        numbers = (rows.block.first.row + rows.indices[is_present]).tolist()
        groups = ('' if cell in unknown else key(cell) for cell in found[1]) if group else itertools.repeat('')
        yield from zip(numbers, found[0], groups)


class _Rows(NamedTuple):
    """Rows of a block, by their indices, int [n], its columns by their names, and the groups that the rows belong to."""

    block: Block
    columns: Mapping[str, Any]
    indices: np.ndarray
    groups: np.ndarray

    def of(self, file: SplitFile, split: str) -> '_Rows':
        """Returns those in a split."""
        chosen = file.are_in(split, self.block.first.row, len(self.block))[self.indices]
        return self._replace(indices=self.indices[chosen], groups=self.groups[chosen])

    def cells(self, name: str) -> Any:
        return self.columns[name].take(pa.array(self.indices))

    def line(self, number: int) -> int:
        return self.block.line(int(self.indices[number]))


def _sound_rows(table: Table, bad: BadRows, file: SplitFile | None = None) -> Iterator[_Rows]:
    """Yields the sound rows of each block that are not empty; with a file, it knows their splits then."""
    number = 0
    for block in ahead(_assigned(table, file) if file else table.blocks()):
        for error in block.faults.values():
            bad.add(error)
        indices = np.setdiff1d(block.filled, list(block.faults)) if block.faults else block.filled
        yield _Rows(block, dict(zip(table.header, block.columns)), indices, (number + np.arange(len(indices))) // _GROUP)
        number += len(indices)


def _assigned(table, file):
    for block in table.blocks():
        file.are_in(file.splits[0], block.first.row, len(block))  # It remembers them, and a thread has the time.
        yield block


def _complete(table, trained, split, columns, settings):
    """Reads the table again for the columns whose statistics are incomplete."""
    pending = [column for column in columns.values() if _is_incomplete(column)]
    for column in pending:
        if column.kind == CATEGORICAL:
            column.values = ValueCounts(settings.max_distinct)
        else:
            column.numbers = Numbers()
    for rows in _sound_rows(table, BadRows(1)) if pending else ():
        chosen = rows.of(trained, split)
        for column in pending:
            cells = chosen.cells(column.name)
            is_present = ~is_missing(cells, settings.missing)
            _measure(column, cells.filter(pa.array(is_present)), chosen.groups[is_present])


def _is_incomplete(column):
    if column.kind == CATEGORICAL:
        return not column.profile.is_complete
    return column.kind is not None and bool(column.reading and (column.reading.order or column.reading.style))


def _measure(column, cells, groups):
    if column.kind == CATEGORICAL:
        column.values.add(counts(cells))
        return
    reading = column.reading
    values = to_days(cells, reading.order) if reading.order else to_numbers(cells, reading.style)
    is_read = ~np.isnan(values)
    column.numbers.update(values[is_read], groups[is_read])
