"""Rows of files as the examples of splits, and invalid rows."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
import dataclasses
import functools
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.own_data.lines import Row
from estimator_trainer.common.own_data.splits import SplitFile
from estimator_trainer.common.records import records

Encode = Callable[[Any], Any]
Part = tuple[int, Mapping[str, list[bytes]], Collection[RunError]]


class BadRows:
    """Counts invalid rows, which are skipped.

    Args:
      max_share: the maximum share of invalid rows.
    """

    def __init__(self, max_share: float):
        self.max_share = max_share
        self._count = 0
        self._first: RunError | None = None

    def add(self, error: RunError) -> None:
        """Raises RunError, with the row's location and the cure, if no row may be invalid."""
        self._count += 1
        self._first = self._first or error
        if not self.max_share:
            raise RunError(f'{error}: correct it, or skip such rows with --hparams=max_bad_share=0.01')

    def sound(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yields the valid rows; counts the others."""
        for row in rows:
            if isinstance(row.value, RunError):
                self.add(row.value)
            else:
                yield row

    def check(self, file: SplitFile, counts: Mapping[str, int], num_rows: int) -> None:
        """Raises RunError if one of a file's splits has no sound rows, or too many rows are invalid."""
        for split, count in counts.items():
            if not count:
                raise RunError(f'{file.path}: has no row for the split {split}')
        if not self._count:
            return
        if self._count > self.max_share * num_rows:
            raise RunError(
                f'{file.path}: {self._count} of {num_rows} rows are wrong, more than max_bad_share={self.max_share:g}; '
                f'the first: {self._first}'
            )
        tf.logging.warning('%s: %d of %d rows are skipped; the first: %s', file.path, self._count, num_rows, self._first)


def read_rows(path: str, rows: Iterable[Row], encode: Encode) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields ({'line': number}, record) for the rows of a file for --input; an error for an invalid row."""
    for row in rows:
        yield {'line': row.position.line}, _record(path, row, encode)


def _record(path, row, encode):
    """Returns the serialized example of a row; the RunError of what is wrong with it, which names the file and the line."""
    if isinstance(row.value, RunError):
        return row.value
    try:
        return records.encode(encode(row.value))
    except RunError as error:
        return RunError(f'{path}: line {row.position.line}: {error}')


@dataclasses.dataclass(frozen=True)
class FileExamples(Iterable[Mapping[str, list[bytes]]]):
    """The serialized examples of a file by their splits; iterating reads and checks the file.

    parts yields, for some rows at a time, their number, {split: examples}, and what is wrong with other rows.

    Iterating raises RunError at the end if a split has no rows, or if too many rows are invalid.
    """

    file: SplitFile
    parts: Callable[[], Iterable[Part]]
    bad: BadRows

    def __iter__(self) -> Iterator[Mapping[str, list[bytes]]]:
        total, counts = 0, dict.fromkeys(self.file.splits, 0)
        for num_rows, examples, errors in self.parts():
            total += num_rows
            for error in errors:
                self.bad.add(error)
            for split, found in examples.items():
                counts[split] += len(found)
            yield examples
        self.bad.check(self.file, counts, total)


def examples_of_rows(
    sources: Mapping[SplitFile, Callable[[], Iterator[Row]]], encode: Encode, max_bad_share: float
) -> dict[tuple[str, ...], FileExamples]:
    """Returns {splits of a file: its examples}, encoded row by row, of {file: function that reads its rows}."""
    return {
        file.splits: FileExamples(file, functools.partial(_parts, file, read, encode), BadRows(max_bad_share))
        for file, read in sources.items()
    }


def _parts(file, read, encode):
    for row in read():
        record = _record(file.path, row, encode)
        is_sound = isinstance(record, bytes)
        yield 1, {file.split_of(row.position.row): [record]} if is_sound else {}, () if is_sound else [record]


def places_of_rows(file: SplitFile, name: str, rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yields {'file', 'line'} of the examples that `examples_of_rows` makes of rows for a split of the file."""
    for row in rows:
        if file.split_of(row.position.row) == name and not isinstance(row.value, RunError):
            yield {'file': file.path, 'line': row.position.line}
