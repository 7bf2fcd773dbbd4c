"""Reads a table's training rows, and finds what each column is.

One pass does for most columns; those whose cells need to be read otherwise than as plain numbers take a second one.
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from estimator_trainer.common.own_data.blocks import Block, Table, ahead
from estimator_trainer.common.own_data.cells import counts, is_missing, to_days, to_numbers
from estimator_trainer.common.own_data.columns import ColumnProfile, Numbers, Settings, kind_of
from estimator_trainer.common.own_data.evidence import Reading
from estimator_trainer.common.own_data.numbers import POINT
from estimator_trainer.common.own_data.schema import CATEGORICAL
from estimator_trainer.common.own_data.split_rows import BadRows
from estimator_trainer.common.own_data.splits import SplitFile
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
    for block, rows, groups in _sound_rows(table, bad, trained):
        for each in trained.splits:
            indices = pa.array(rows[_chosen(trained, each, block, rows)])
            for name, of_splits in classes.items():
                cells = block.columns[table.header.index(name)].take(indices)
                of_splits[each].add(counts(cells.filter(pa.array(~is_missing(cells, settings.missing)))))
        chosen = _chosen(trained, split, block, rows)
        _update(table, block, rows[chosen], groups[chosen], profiles)
        if len(rows):
            last = {name: cells[int(rows[-1])].as_py() for name, cells in zip(table.header, block.columns) if name in profiles}
    columns = {}
    for name, profile in profiles.items():
        reading = profile.reading()
        kind = kind_of(profile, reading)
        columns[name] = Column(name, profile, reading, kind, profile.numbers, profile.values)
    _complete(table, trained, split, columns, settings)
    return columns, classes, last


def count_values(table: Table, names: Collection[str], settings: Settings, bad: BadRows) -> dict[str, ValueCounts]:
    """Returns {name: counts of the values of this column} of all rows of a table, for the columns that it has."""
    found = {name: ValueCounts(settings.max_distinct) for name in table.header if name in names}
    for block, rows, _ in _sound_rows(table, bad):
        for name, values in found.items():
            cells = block.columns[table.header.index(name)].take(pa.array(rows))
            values.add(counts(cells.filter(pa.array(~is_missing(cells, settings.missing)))))
    return found


def trained_cells(table: Table, trained: SplitFile, split: str, names: Collection[str], missing: Any) -> Iterator[list[str]]:
    """Yields the present cells of columns in a split, in blocks."""
    for block, rows, _ in _sound_rows(table, BadRows(1)):
        indices = pa.array(rows[_chosen(trained, split, block, rows)])
        for name in names:
            cells = block.columns[table.header.index(name)].take(indices)
            yield cells.filter(pa.array(~is_missing(cells, missing))).to_pylist()


def rows_of(table: Table, name: str, values: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yields the numbers of the rows that have one of some values in a column, and this value."""
    wanted = pa.array(sorted(values), pa.string())
    for block, rows, _ in _sound_rows(table, BadRows(1)):
        cells = block.columns[table.header.index(name)].take(pa.array(rows))
        is_wanted = pyarrow.compute.is_in(cells, value_set=wanted)
        numbers = block.first.row + rows[is_wanted.to_numpy(zero_copy_only=False)]
        yield from zip(numbers.tolist(), cells.filter(is_wanted).to_pylist())


def grouped_rows(table: Table, target: str, group: str, missing: Any) -> Iterator[tuple[int, str, str]]:
    """Yields the number, the target and the group of each row that has a target; all groups are '' without such a column."""
    for block, rows, _ in _sound_rows(table, BadRows(1)):
        cells = [block.columns[table.header.index(name)].take(pa.array(rows)) for name in filter(None, [target, group])]
        is_present = ~is_missing(cells[0], missing)
        found = [each.filter(pa.array(is_present)).to_pylist() for each in cells]
        numbers = (block.first.row + rows[is_present]).tolist()
        yield from zip(numbers, found[0], found[1] if group else itertools.repeat(''))


def _chosen(file, split, block, rows):
    """Returns which rows of a block are in a split, bool."""
    return file.are_in(split, block.first.row, len(block))[rows]


def _update(table, block, rows, groups, profiles):
    for name, cells in zip(table.header, block.columns):
        if name in profiles and len(rows):
            profiles[name].update(cells.take(pa.array(rows)), lambda i: block.line(int(rows[i])), groups)


def _sound_rows(table: Table, bad: BadRows, file: SplitFile | None = None) -> Iterator[tuple[Block, np.ndarray, np.ndarray]]:
    """Yields the blocks of a table, the indices of their sound rows that are not empty, and the groups that these belong to.

    With a file, it knows the splits of the rows then.
    """
    number = 0
    for block in ahead(_assigned(table, file) if file else table.blocks()):
        for error in block.faults.values():
            bad.add(error)
        rows = np.setdiff1d(block.filled, list(block.faults)) if block.faults else block.filled
        yield block, rows, (number + np.arange(len(rows))) // _GROUP
        number += len(rows)


def _assigned(table, file):
    for block in table.blocks():
        file.are_in(file.splits[0], block.first.row, len(block))  # It remembers them, and a thread has the time.
        yield block


def _complete(table, trained, split, columns, settings):
    """Reads the table again for the columns whose statistics are incomplete."""
    pending = {name: column for name, column in columns.items() if _is_incomplete(column)}
    for column in pending.values():
        if column.kind == CATEGORICAL or not column.reading:
            column.values = ValueCounts(settings.max_distinct)
        else:
            column.numbers = Numbers()
    for block, rows, groups in _sound_rows(table, BadRows(1)) if pending else ():
        chosen = _chosen(trained, split, block, rows)
        for name, cells in zip(table.header, block.columns):
            if name in pending:
                taken = cells.take(pa.array(rows[chosen]))
                present = ~is_missing(taken, settings.missing)
                _measure(pending[name], taken.filter(pa.array(present)), groups[chosen][present])


def _is_incomplete(column):
    reading = column.reading
    if column.kind in (None, CATEGORICAL) or not reading:
        return column.kind == CATEGORICAL and not column.profile.is_complete
    return bool(reading.order or reading.style)


def _measure(column, cells, groups):
    reading = column.reading
    if column.kind == CATEGORICAL or not reading:
        column.values.add(counts(cells))
        return
    values = to_days(cells, reading.order) if reading.order else to_numbers(cells, reading.style)
    is_read = ~np.isnan(values)
    column.numbers.update(values[is_read], groups[is_read])
