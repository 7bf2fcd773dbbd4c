"""TFRecord files of examples that arrive one after the other: in groups, over whose files the records are distributed."""

import collections
from collections.abc import Callable, Iterator, Sequence
import concurrent.futures
import contextlib
import itertools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import files
from estimator_trainer.common.records import manifest, tfrecord
from estimator_trainer.common.records.progress import Progress

NUM_SHARDS = 4
SHARD_BYTES = 150 * 10**6


@contextlib.contextmanager
def writing(directory: str, names: Sequence[str]) -> Iterator[tuple[list[Any], list[dict[str, Any]]]]:
    """Yields a writer per file, and a list that gets their manifest entries when the block ends."""
    entries: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(files.atomic_path(os.path.join(directory, name))) for name in names]
        with contextlib.ExitStack() as open_files:
            yield [open_files.enter_context(tf.io.TFRecordWriter(part)) for part in parts], entries
        with concurrent.futures.ThreadPoolExecutor() as pool:
            entries += map(manifest.describe, names, pool.map(tfrecord.scan, parts))


class Groups:
    """The files of one split, in groups of NUM_SHARDS files, one group after the other; a context manager.

    Args:
      directory: of the files.
      split: the split.
      progress: the files that need not be written again.
      encode: serializes the example of a number; returns None for one to skip.

    Attributes:
      entries: of the finished files in the manifest; of all after the block.
      count: number of examples that were added.
    """

    def __init__(self, directory: str, split: str, progress: Progress, encode: Callable[[int, Any], bytes | None]):
        self._directory, self._split, self._progress, self._encode = directory, split, progress, encode
        self.entries: list[dict[str, Any]] = []
        self.count = 0
        self._kept = 0  # Examples in the kept files of this group that are yet to be skipped.
        self._free = 0  # Bytes of this group.

    def __enter__(self) -> 'Groups':
        return self

    def add(self, examples: list[Any]) -> None:
        """Adds serialized examples, or one that is not serialized."""
        while examples:
            if not self._kept and self._free <= 0:
                self._begin()
            taken = min(self._kept, len(examples))
            self._kept -= taken
            if self._free > 0:
                taken = self._write(examples if type(examples[0]) is bytes else [self._encode(self.count, *examples)])
            self.count += taken
            examples = examples[taken:]

    def _begin(self):
        """Begins a group, or keeps one."""
        first = len(self.entries)
        names = [f'{self._split}-{shard:05d}.tfrecord' for shard in range(first, first + NUM_SHARDS)]
        kept = self._progress.find(names)
        if kept:
            self.entries += kept
            self._kept = self._progress.items(names[0])
            return
        self._stack = contextlib.ExitStack()
        self._writers, self._written = self._stack.enter_context(writing(self._directory, names))
        self._free, self._items, self._records = NUM_SHARDS * SHARD_BYTES, 0, 0

    def _write(self, records):
        """Writes records, or a None, until the group is full, and then ends it; returns their number."""
        found = records if records[0] is not None else []
        size = sum(map(len, found)) + tfrecord.FRAMING * len(found)
        if size >= self._free:
            sizes = itertools.accumulate(map(size_of, found))
            last, size = next((i, size) for i, size in enumerate(sizes) if size >= self._free)
            records = found = found[: last + 1]
        for i in range(min(NUM_SHARDS, len(found))):
            writer = self._writers[(self._records + i) % NUM_SHARDS]
            collections.deque(map(writer.write, found[i::NUM_SHARDS]), maxlen=0)  # Python's fastest loop.
        self._free -= size
        self._items += len(records)
        self._records += len(found)
        if self._free <= 0:
            self._end()
        return len(records)

    def _end(self):
        self._stack.close()
        self._free = 0
        self.entries += self._written
        self._progress.add(self._written, self._items)

    def __exit__(self, *error: Any) -> None:
        if error[0]:
            if self._free > 0:
                self._stack.__exit__(*error)
            return
        if not self.entries and self._free <= 0:  # A split without examples has files, too.
            self._begin()
        if self._free > 0:
            self._end()


def size_of(record: bytes | None) -> int:
    """Returns the bytes of a record in a file; 0 for None."""
    return 0 if record is None else len(record) + tfrecord.FRAMING
