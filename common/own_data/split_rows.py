"""Rows of files as the examples of splits, and invalid rows."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
import dataclasses
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import write as write_file
from estimator_trainer.common.files import write_json
from estimator_trainer.common.own_data.lines import Row, convert
from estimator_trainer.common.own_data.splits import SplitFile, log_outdated
from estimator_trainer.common.records import records

Read = Callable[[], Iterator[Row]]
Encode = Callable[[Any], Any]
Part = tuple[int, Collection[Any], Collection[RunError]]


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

    def check(self, file: SplitFile, split: str, num_sound: int, num_rows: int) -> None:
        """Raises RunError if a split has no sound rows; after the last one of a file also if too many are invalid."""
        if not num_sound:
            raise RunError(f'{file.path}: has no row for the split {split}')
        if not self._count or split != file.splits[-1]:
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
        try:
            record: bytes | RunError = records.encode(convert(path, row, encode))
        except RunError as error:
            record = error
        yield {'line': row.position.line}, record


@dataclasses.dataclass(frozen=True)
class SplitExamples(Iterable[Any]):
    """The examples of one split in a file; iterating reads and checks the file.

    parts yields, for some rows at a time, their number, the examples of those in the split, and the errors of these.

    Iterating raises RunError if the split has no rows, or, at the end of the last split, if too many rows are invalid.
    """

    file: SplitFile
    split: str
    parts: Callable[[], Iterable[Part]]
    bad: BadRows

    def __iter__(self) -> Iterator[Any]:
        total = count = 0
        for num_rows, examples, errors in self.parts():
            total += num_rows
            count += len(examples)
            for error in errors:
                self.bad.add(error)
            yield from examples
        self.bad.check(self.file, self.split, count, total)


def parts_of_rows(file: SplitFile, split: str, read: Read, encode: Encode) -> Iterator[Part]:
    """Yields the parts of a split for `SplitExamples`, row by row."""
    for row in read():
        if file.split_of(row.position.row) != split:
            yield 1, (), ()
            continue
        try:
            yield 1, [convert(file.path, row, encode)], ()
        except RunError as error:
            yield 1, (), [error]


def read_summary(directory: str) -> str:
    """Returns the summary in a directory; '' if an older version wrote it."""
    path = os.path.join(directory, 'summary.txt')
    if not tf.io.gfile.exists(path):
        return ''
    with tf.io.gfile.GFile(path) as file:
        return file.read()


def write(directory: str, source: str, facts: Mapping[str, Any], summary: str, examples: Mapping[str, Iterable[Any]]) -> None:
    """Writes the metadata, and the examples of splits as TFRecord files, to a directory named by `fingerprint`.

    Args:
      source: the user's path, for messages.
      summary: of the data, for people.
      examples: of each split, as for `records.write`.
    """
    tf.io.gfile.makedirs(directory)
    write_json(os.path.join(directory, 'metadata.json'), facts)
    write_file(os.path.join(directory, 'summary.txt'), summary)
    records.write(directory, examples, fingerprint=os.path.basename(directory))
    log_outdated(directory, source)
