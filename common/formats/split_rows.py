"""The rows of a file that belong to a split, without holding them in memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
import dataclasses
from typing import Any

import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.formats.lines import Row, convert


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


@dataclasses.dataclass(frozen=True)
class SplitRows(Iterable[Any]):
    """The examples of one split in a file, for `records.write`: each iteration reads the file. count is their number."""

    path: str
    split: str
    count: int
    read: Callable[[], Iterator[Row]]
    split_of: Callable[[int], str]
    encode: Callable[[Any], Any]

    def __iter__(self) -> Iterator[Any]:
        for row in self.read():
            if self.split_of(row.position.row) == self.split:
                try:
                    yield convert(self.path, row, self.encode)
                except RunError:
                    pass  # Counted by `split_rows`.


def split_rows(
    path: str,
    splits: Sequence[str],
    read: Callable[[], Iterator[Row]],
    split_of: Callable[[int], str],
    encode: Callable[[Any], Any],
    max_bad_share: float,
) -> dict[str, SplitRows]:
    """Reads a file once, to check and count its rows, and returns {split: examples}.

    Args:
      path: the file, for messages.
      splits: names of the splits.
      read: yields the rows.
      split_of: returns the split of the row with this number.
      encode: returns the example of a row's value, or raises RunError if the row is wrong.
      max_bad_share: as for `BadRows`.

    Raises:
      RunError: too many rows are wrong.
    """
    counts = dict.fromkeys(splits, 0)
    bad, total = BadRows(max_bad_share), 0
    for row in read():
        total += 1
        try:
            convert(path, row, encode)
            counts[split_of(row.position.row)] += 1
        except RunError as error:
            bad.add(error)
    bad.check(path, total)
    return {split: SplitRows(path, split, counts[split], read, split_of, encode) for split in splits}
