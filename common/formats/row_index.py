"""The rows of a file that belong to a split, with random access, without holding them in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import functools
import itertools
import threading
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.formats.lines import Position, Row, convert

# A block of rows ends at the first of these.
_BLOCK_ROWS = 1000
_BLOCK_BYTES = 1 << 20
_KEPT_BLOCKS = 16


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


class SplitRows(Sequence[Any]):
    """The examples of one split in a file, for `records.write`; see `index_rows`."""

    def __init__(self, load_block: Callable[[int], Mapping[str, Sequence[Any]]], counts: Sequence[int], split: str):
        self._load_block, self._split = load_block, split
        self._ends = np.cumsum(counts)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, i: Any) -> Any:
        block = int(np.searchsorted(self._ends, i, side='right'))
        return self._load_block(block)[self._split][i - (self._ends[block - 1] if block else 0)]


def index_rows(
    path: str,
    splits: Sequence[str],
    read: Callable[[Position | None], Iterator[Row]],
    split_of: Callable[[int], str],
    encode: Callable[[Any], Any],
    max_bad_share: float,
) -> dict[str, SplitRows]:
    """Reads a file once and returns {split: examples}, sequences that read it again as they are indexed.

    Only the place of every thousandth row, or mebibyte, and the last few blocks of rows are kept in memory.

    Args:
      path: the file, for messages.
      splits: names of the splits.
      read: yields the rows from a position on, or all.
      split_of: returns the split of the row with this number.
      encode: returns the example of a row's value, or raises RunError if the row is wrong.
      max_bad_share: as for `BadRows`.

    Raises:
      RunError: too many rows are wrong.
    """
    starts: list[Position] = []
    counts: dict[str, list[int]] = {split: [] for split in splits}
    sizes: list[int] = []
    bad = BadRows(max_bad_share)
    for row in read(None):
        if not starts or sizes[-1] == _BLOCK_ROWS or row.position.offset - starts[-1].offset >= _BLOCK_BYTES:
            starts.append(row.position)
            sizes.append(0)
            for split in splits:
                counts[split].append(0)
        sizes[-1] += 1
        try:
            convert(path, row, encode)
            counts[split_of(row.position.row)][-1] += 1
        except RunError as error:
            bad.add(error)
    bad.check(path, sum(sizes))
    lock = threading.Lock()

    @functools.lru_cache(_KEPT_BLOCKS)
    def load(block):
        examples: dict[str, list[Any]] = {split: [] for split in splits}
        for row in itertools.islice(read(starts[block]), sizes[block]):
            try:
                examples[split_of(row.position.row)].append(convert(path, row, encode))
            except RunError:
                pass  # Counted above.
        return examples

    def load_once(block):
        with lock:
            return load(block)

    return {split: SplitRows(load_once, counts[split], split) for split in splits}
