"""The rows of a file that belong to a split, without holding them in memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import os
from typing import Any

import tensorflow.compat.v1 as tf

from common.data import records
from common.errors import RunError
from common.files import write_json
from common.formats.lines import Row, convert
from common.formats.splits import log_outdated


class BadRows:
    """Counts the rows that are skipped because something is wrong with them.

    Args:
      max_share: the largest share of such rows among all.
    """

    def __init__(self, max_share: float):
        self._max_share = max_share
        self._count = 0
        self._first: RunError | None = None

    def add(self, error: RunError) -> None:
        """Raises RunError, with the row's place and the cure, if no row may be wrong."""
        self._count += 1
        self._first = self._first or error
        if not self._max_share:
            raise RunError(f'{error}: correct it, or skip such rows with --hparams=max_bad_share=0.01')

    def sound(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yields the rows that are not wrong; adds the others."""
        for row in rows:
            if isinstance(row.value, RunError):
                self.add(row.value)
            else:
                yield row

    def check(self, path: str, num_rows: int) -> None:
        """Logs how many rows were skipped; raises RunError if they are too many."""
        if not self._count:
            return
        if self._count > self._max_share * num_rows:
            raise RunError(
                f'{path}: {self._count} of {num_rows} rows are wrong, more than max_bad_share={self._max_share:g}; '
                f'the first: {self._first}'
            )
        tf.logging.warning('%s: %d of %d rows are skipped; the first: %s', path, self._count, num_rows, self._first)


class SplitRows(Iterable[Any]):
    """The examples of one split in a file, for `records.write`: an iteration reads the file, and checks it by the way.

    Iterating raises RunError if a split has no row, or, at the end of the last split, if too many rows are wrong.
    """

    def __init__(
        self,
        path: str,
        split: str,
        read: Callable[[], Iterator[Row]],
        split_of: Callable[[int], str],
        encode: Callable[[Any], Any],
        bad: BadRows,
        is_last: bool,
    ):
        """Takes what `split_rows` takes; bad counts the wrong rows of all splits, and is_last says that none follows."""
        self._path, self._split, self._is_last = path, split, is_last
        self._read, self._split_of, self._encode = read, split_of, encode
        self._bad = bad

    def __iter__(self) -> Iterator[Any]:
        total = count = 0
        for row in self._read():
            total += 1
            if self._split_of(row.position.row) == self._split:
                try:
                    example = convert(self._path, row, self._encode)
                except RunError as error:
                    self._bad.add(error)
                else:
                    count += 1
                    yield example
        if not count:
            raise RunError(f'{self._path}: has no row for the split {self._split}')
        if self._is_last:
            self._bad.check(self._path, total)


def split_rows(
    path: str,
    splits: Sequence[str],
    read: Callable[[], Iterator[Row]],
    split_of: Callable[[int], str],
    encode: Callable[[Any], Any],
    max_bad_share: float,
) -> dict[str, SplitRows]:
    """Returns {split: examples} of a file; each is to be iterated over once, in this order.

    Args:
      path: the file, for messages.
      splits: names of the splits.
      read: yields the rows.
      split_of: returns the split of the row with this number.
      encode: returns the example of a row's value, or raises RunError if the row is wrong.
      max_bad_share: as for `BadRows`.
    """
    bad = BadRows(max_bad_share)
    return {split: SplitRows(path, split, read, split_of, encode, bad, split == splits[-1]) for split in splits}


def write(directory: str, source: str, facts: Mapping[str, Any], examples: Mapping[str, SplitRows]) -> None:
    """Writes the metadata and the TFRecord files of a directory that is named by `fingerprint`.

    Args:
      directory: where to.
      source: what the user gives, for messages.
      facts: the metadata.
      examples: of each split, from `split_rows`.
    """
    tf.io.gfile.makedirs(directory)
    write_json(os.path.join(directory, 'metadata.json'), facts)
    records.write(directory, examples, fingerprint=os.path.basename(directory))
    log_outdated(directory, source)
