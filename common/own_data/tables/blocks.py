"""Rows of tables in blocks: a column of a block is an Arrow array of texts, which are decided about and encoded together."""

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
import concurrent.futures
import dataclasses
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.own_data.lines import Position

_T = TypeVar('_T')
LINE, ROW = 'line', 'row'  # What the rows of a file are called in messages.


@dataclasses.dataclass(frozen=True)
class Block:
    """Consecutive rows of a table.

    Attributes:
      first: the position of the first row.
      columns: string [n] each, in the order of the table's header; '' in wrong rows.
      faults: {index: what is wrong with a row}.
      lines: of the rows; None if each has one line.
    """

    first: Position
    columns: Sequence[Any]
    faults: Mapping[int, RunError] = dataclasses.field(default_factory=dict)
    lines: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def filled(self) -> np.ndarray:
        """The indices of the rows with cells that are not empty, or of wrong rows, int [n]: spreadsheets save others, too."""
        is_empty = are_rows(self.columns, [''] * len(self.columns))
        is_empty[list(self.faults)] = False
        return np.flatnonzero(~is_empty)

    def line(self, index: int) -> int:
        """Returns the line of a row, from 1 on."""
        return self.lines[index] if self.lines else self.first.line + index


def are_rows(columns: Sequence[Any], row: Sequence[str]) -> np.ndarray:
    """Returns which rows of columns, string [n] each, have these cells, bool [n]."""
    found = np.ones(len(columns[0]), bool)
    for column, cell in zip(columns, row):
        found &= pyarrow.compute.equal(column, cell).to_numpy(zero_copy_only=False)
        if not found.any():
            break
    return found


class Table(Protocol):
    """A table of texts.

    Attributes:
      path: of the file.
      header: the names of the columns; '' for a column without a name.
      unit: what a row is called in messages, LINE or ROW.
      numbers: the columns that have numbers by their type, not as texts: their decimals follow a point.
    """

    path: str
    header: list[str]
    unit: str
    numbers: Collection[str]

    def blocks(self) -> Iterator[Block]:
        """Yields all rows."""
        ...


def ahead(values: Iterable[_T]) -> Iterator[_T]:
    """Yields values while a thread makes the next one: Arrow reads and encodes without Python's lock."""
    iterator = iter(values)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (value := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield value


def check_distinct(path: str, header: Sequence[str], place: str = 'the file', cure: str = 'rename one') -> None:
    """Raises RunError if two columns of a header have one name; columns without a name may be several."""
    if twice := next((name for name, count in collections.Counter(header).items() if name and count > 1), None):
        raise RunError(f'{path}: {place} names two columns {twice}: {cure}')


def from_rows(first: Position, rows: Sequence[Any], width: int) -> Block:
    """Returns a block of `lines.Row`, with lists of `width` cells."""
    faults = {i: row.value for i, row in enumerate(rows) if isinstance(row.value, RunError)}
    empty = [''] * width
    cells = [empty if i in faults else row.value for i, row in enumerate(rows)]
    columns = [pa.array(column, pa.string()) for column in zip(*cells)] if cells else [pa.array([], pa.string())] * width
    return Block(first, columns, faults, [row.position.line for row in rows])
