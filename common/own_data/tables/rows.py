"""The rows of tables as the examples of splits, and of files for --input."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.own_data.alarm import warn_of_unknown
from estimator_trainer.common.own_data.description import of_kind
from estimator_trainer.common.own_data.schema import CATEGORICAL
from estimator_trainer.common.own_data.split_rows import Part
from estimator_trainer.common.own_data.splits import SplitFile
from estimator_trainer.common.own_data.tables.blocks import Table, ahead
from estimator_trainer.common.own_data.tables.cells import counts, missing_values, present
from estimator_trainer.common.own_data.tables.encoding import Encode
from estimator_trainer.common.own_data.vocabulary import ValueCounts

_MAX_DISTINCT = 10**5  # Counted values of a column of --input.


def read_rows(
    table: Table, encode: Encode, facts: Mapping[str, Any], skips_empty: bool = False, max_rows: int | None = None
) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the rows of a table, or 'row'; an error for an invalid row.

    Rows of empty cells are skipped if skips_empty is true; at most max_rows are encoded together.

    At the end, warns if most values of one of the columns in the metadata, facts, are unknown.
    """
    known = {table.header.index(feature['name']): feature for feature in of_kind(facts['columns'], CATEGORICAL)}
    missing = missing_values(facts.get('missing', ()))
    found = {place: ValueCounts(_MAX_DISTINCT) for place in known}
    for block in table.blocks():
        for place, values in found.items():
            values.add(counts(present(block.columns[place], missing)))
        for indices in _pieces(block.filled if skips_empty else np.arange(len(block)), max_rows):
            encoded = encode(block, indices)
            records: dict[int, bytes | RunError] = dict(zip(encoded.indices.tolist(), encoded.examples.to_pylist()))
            for index, record in sorted({**records, **encoded.faults}.items()):
                yield {table.unit: block.line(index)}, record
    for place, feature in known.items():
        warn_of_unknown(f'values of column {feature["name"]}', feature['vocabulary'], found[place].counts(), table.path)


def parts_of_table(file: SplitFile, table: Table, encode: Encode, max_rows: int | None = None) -> Iterator[Part]:
    """Yields the parts of a file for `FileExamples`, block by block, or of at most max_rows."""
    yield from ahead(_parts(file, table, encode, max_rows))


def _parts(file, table, encode, max_rows):
    for block, count, encoded in _encoded(table, encode, max_rows):
        chosen = {split: pa.array(_chosen(file, split, block, encoded)) for split in file.splits}
        found = {split: encoded.examples.filter(of_split).to_pylist() for split, of_split in chosen.items()}
        yield count, found, encoded.faults.values()


def places_in_table(
    file: SplitFile, split: str, table: Table, encode: Encode, pictures: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yields {'file', 'line'} of each example of a split, or 'row'; also 'picture' from the column of this name."""
    for block, _, encoded in ahead(_encoded(table, encode)):
        names = block.columns[table.header.index(pictures)] if pictures else None
        for index in encoded.indices[_chosen(file, split, block, encoded)].tolist():
            picture = {} if names is None else {'picture': names[index].as_py()}
            yield {'file': file.path, table.unit: block.line(index), **picture}


def _encoded(table, encode, max_rows=None):
    """Yields each block with a number of its rows, empty ones too, and these rows encoded."""
    for block in ahead(table.blocks()):
        count = len(block)
        for indices in _pieces(block.filled, max_rows):
            yield block, count, encode(block, indices)
            count = 0


def _pieces(indices, max_rows):
    size = max_rows or max(len(indices), 1)
    return [indices[begin : begin + size] for begin in range(0, max(len(indices), 1), size)]


def _chosen(file, split, block, encoded):
    """Returns which of the encoded rows of a block are in a split, bool."""
    return file.are_in(split, block.first.row, len(block))[encoded.indices]
