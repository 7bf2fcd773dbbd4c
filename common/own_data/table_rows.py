"""The rows of tables as the examples of splits, and of files for --input."""

from collections.abc import Iterable, Iterator, Sequence
import dataclasses
from typing import Any

import numpy as np

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.own_data.alarm import warn_of_unknown
from estimator_trainer.common.own_data.blocks import Table, ahead
from estimator_trainer.common.own_data.cells import counts
from estimator_trainer.common.own_data.description import Feature, of_kind
from estimator_trainer.common.own_data.encoding import Encode
from estimator_trainer.common.own_data.schema import CATEGORICAL
from estimator_trainer.common.own_data.split_rows import BadRows
from estimator_trainer.common.own_data.splits import SplitFile
from estimator_trainer.common.own_data.vocabulary import ValueCounts

_MAX_DISTINCT = 10**5  # Counted values of a column of --input.


def read_rows(
    table: Table, encode: Encode, features: Sequence[Feature], skips_empty: bool = False
) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the rows of a table, or 'row'; an error for an invalid row.

    Rows of empty cells are skipped if skips_empty is true.

    At the end, warns if most values of one of the features are unknown.
    """
    known = {table.header.index(feature['name']): feature for feature in of_kind(features, CATEGORICAL)}
    found = {place: ValueCounts(_MAX_DISTINCT) for place in known}
    for block in table.blocks():
        for place, values in found.items():
            values.add(counts(block.columns[place]))
        encoded = encode(block, block.filled if skips_empty else np.arange(len(block)))
        records: dict[int, bytes | RunError] = dict(zip(encoded.indices.tolist(), encoded.examples.to_pylist()))
        for index, record in sorted({**records, **encoded.faults}.items()):
            yield {table.unit: block.line(index)}, record
    for place, feature in known.items():
        warn_of_unknown(f'values of column {feature["name"]}', feature['vocabulary'], found[place].counts(), table.path)


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
        for block, encoded in ahead(self._encoded()):
            total += len(block)
            for error in encoded.faults.values():
                self.bad.add(error)
            count += len(encoded.indices)
            yield from encoded.examples.to_pylist()
        self.bad.check(self.file, self.split, count, total)

    def _encoded(self):
        for block in self.table.blocks():
            filled = block.filled
            yield block, self.encode(block, filled[self.file.are_in(self.split, block.first.row, len(block))[filled]])

    def places(self) -> Iterator[dict[str, Any]]:
        """Yields {'file', 'line'} of each example, or 'row'."""
        for block, encoded in ahead(self._encoded()):
            for index in encoded.indices:
                yield {'file': self.file.path, self.table.unit: block.line(int(index))}
