"""The rows of tables as the examples of splits, and of files for --input."""

from collections.abc import Iterable, Iterator
import dataclasses
from typing import Any

import numpy as np

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.own_data.blocks import Table
from estimator_trainer.common.own_data.encoding import Encode
from estimator_trainer.common.own_data.split_rows import BadRows
from estimator_trainer.common.own_data.splits import SplitFile


def read_rows(table: Table, encode: Encode) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the rows of a table, or 'row'; an error for an invalid row."""
    for block in table.blocks():
        encoded = encode(block, np.arange(len(block)))
        records: list[bytes | RunError] = [b''] * len(block)
        for index, record in zip(encoded.indices, encoded.examples.to_pylist()):
            records[index] = record
        for index, error in encoded.faults.items():
            records[index] = error
        for index, found in enumerate(records):
            yield {table.unit: block.line(index)}, found


@dataclasses.dataclass(frozen=True)
class SplitTable(Iterable[bytes]):
    """The serialized examples of one split in a table; iterating reads and checks its file.

    Iterating raises RunError if the split has no rows, or, at the end of the last split, if too many rows are invalid.
    """

    file: SplitFile
    split: str
    table: Table
    encode: Encode
    bad: BadRows

    def __iter__(self) -> Iterator[bytes]:
        total = count = 0
        for block in self.table.blocks():
            total += len(block)
            encoded = self.encode(block, np.flatnonzero(self.file.are_in(self.split, block.first.row, len(block))))
            for error in encoded.faults.values():
                self.bad.add(error)
            count += len(encoded.indices)
            yield from encoded.examples.to_pylist()
        if not count:
            raise RunError(f'{self.file.path}: has no row for the split {self.split}')
        if self.split == self.file.splits[-1]:
            self.bad.check(self.file.path, total)
