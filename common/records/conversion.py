"""Conversion of examples to TFRecord files and a manifest, resumable after an interruption."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import concurrent.futures
import contextlib
import os
import threading
import time
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import files, memory
from estimator_trainer.common.console import make_bar
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.plugins.traceback_filter import in_a_line
from estimator_trainer.common.records import groups, manifest, progress
from estimator_trainer.common.records.progress import Progress

MAX_SHARDS = 512  # Evaluation reads all at once, and 1,024 is a common limit of open files.
_SAMPLE = 16
_REPORT_EVERY = 1000


class Conversion:
    """One conversion of a directory."""

    def __init__(self, directory: str, encode: Callable[[Any], bytes], fingerprint: str | None):
        """Begins it.

        Args:
          directory: locked against other conversions.
          encode: function that serializes an example.
          fingerprint: see `common.records.records.write`.
        """
        self._directory = directory
        self._encode = encode
        self._fingerprint = fingerprint
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._items = 0
        self._obsolete = set(manifest.remove(directory))
        for name in files.names_in(directory):
            files.remove_abandoned(os.path.join(directory, name))
        self._progress = Progress(directory, fingerprint)
        self._obsolete |= self._progress.obsolete

    def run(self, splits: Mapping[str, Any], num_shards: int | None) -> None:
        """Writes {split: examples}; num_shards is that of a split whose examples have a length, None derives it."""
        start = time.monotonic()
        sized = {split: examples for split, examples in splits.items() if _is_sized(examples)}
        shards = {split: num_shards or self._estimate_shards(split, examples) for split, examples in sized.items()}
        planned = [
            f'{key}, {len(sized[key]):,} examples to {shards[key]} files'
            if key in sized
            else f'{", ".join(_names(key))}, in one pass'
            for key in splits
        ]
        tf.logging.info('Writing %s: %s.', self._directory, '; '.join(planned))
        total = sum(map(len, sized.values())) if len(sized) == len(splits) else None
        with make_bar(total=total, unit='ex', desc=f'Writing {self._directory}') as self._bar:
            written = self._write(splits, sized, shards)
        num_groups = {split: groups.NUM_SHARDS for split in written if split not in sized}
        manifest.save(self._directory, written, num_groups, self._fingerprint)
        items = [item for of_split in written.values() for item in of_split]
        for name in {*self._obsolete, *self._progress.names} - {item['name'] for item in items}:
            self._remove(name)
        self._remove(progress.NAME)
        count = sum(item['count'] for item in items)
        if count < self._items:
            tf.logging.warning('%s: %d of %d examples were skipped.', self._directory, self._items - count, self._items)
        size, seconds = memory.to_text(sum(item['bytes'] for item in items)), time.monotonic() - start
        tf.logging.info(f'Wrote {self._directory}: {count:,} examples, {size}, in {len(items)} files; it took {seconds:.1f} s.')

    def _write(self, splits, sized, shards):
        """Writes all splits, those with a length in threads; returns {split: entries in the manifest}."""
        written: dict[str, Any] = {}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            futures = {
                split: [pool.submit(self._write_shard, split, examples, shard, shards[split]) for shard in range(shards[split])]
                for split, examples in sized.items()
            }
            try:
                # In this thread, to which the source, such as a database, may belong.
                for key, examples in splits.items():
                    if key not in sized:
                        written |= self._write_pass(key, examples)
                for future in concurrent.futures.as_completed(sum(futures.values(), [])):
                    future.result()
            finally:
                self._stop.set()  # Stops the other threads after an error or Ctrl-C.
        written |= {split: [future.result() for future in futures[split]] for split in sized}
        return {split: written[split] for key in splits for split in _names(key)}

    def _estimate_shards(self, split, examples):
        """Estimates the number of files from the size of some examples."""
        numbers = range(0, len(examples), max(len(examples) // _SAMPLE, 1))[:_SAMPLE]
        sample = [self._make(split, number, lambda i=number: examples[i]) for number in numbers]
        size = sum(map(groups.size_of, sample)) / max(len(sample), 1) * len(examples)
        return min(max(round(size / groups.SHARD_BYTES), groups.NUM_SHARDS), MAX_SHARDS)

    def _write_shard(self, split, examples, shard, num_shards):
        """Writes the examples of a sequence whose index modulo num_shards is `shard`; returns the file's manifest entry."""
        name = f'{split}-{shard:05d}-of-{num_shards:05d}.tfrecord'
        numbers = range(shard, len(examples), num_shards)
        kept = self._progress.find([name])
        if kept:
            self._count(len(numbers))
            return kept[0]
        with groups.writing(self._directory, [name]) as ((writer,), entries):
            for position, number in enumerate(numbers, 1):
                record = self._make(split, number, lambda i=number: examples[i])
                if record is not None:
                    writer.write(record)
                if position % _REPORT_EVERY == 0:
                    self._count(_REPORT_EVERY)
            self._count(len(numbers) % _REPORT_EVERY)
        self._progress.add(entries, len(numbers))
        return entries[0]

    def _write_pass(self, key, examples):
        """Writes an iterable of examples of one split, or of several splits together; returns {split: entries}."""
        splits = _names(key)
        with contextlib.ExitStack() as cleanup:
            found = {split: cleanup.enter_context(self._groups(split)) for split in splits}
            iterator, last = iter(examples), 0
            while True:
                try:
                    item = next(iterator)
                except StopIteration:
                    break
                except Exception as error:
                    raise self._error(splits[0], found[splits[0]].count, error) from None
                for split, added in [(key, item)] if isinstance(key, str) else item.items():
                    found[split].add(added if type(added) is list else [added])
                count = sum(each.count for each in found.values())
                if count - last >= _REPORT_EVERY:
                    self._count(count - last)
                    last = count
            self._count(sum(each.count for each in found.values()) - last)
        return {split: each.entries for split, each in found.items()}

    def _groups(self, split):
        def encode(number, example):
            return self._make(split, number, lambda: example)

        return groups.Groups(self._directory, split, self._progress, encode)

    def _make(self, split, number, make):
        """Returns an example, serialized; None for one to skip. Raises RunError if creating it fails."""
        if self._stop.is_set():
            raise concurrent.futures.CancelledError
        try:
            features = make()
            return None if features is None else self._encode(features)
        except Exception as error:
            raise self._error(split, number, error) from None

    def _error(self, split, number, error):
        if isinstance(error, (UsageError, RunError)):
            return error
        return RunError(f'{self._directory}: example {number} of the split {split} cannot be created: {in_a_line(error)}')

    def _count(self, number):
        with self._lock:
            before, self._items = self._items, self._items + number
            self._bar.update(self._items - before)

    def _remove(self, name):
        path = os.path.join(self._directory, name)
        if tf.io.gfile.exists(path):
            tf.io.gfile.remove(path)


def _names(key):
    """Returns the splits of a key: a split, or several that are written together."""
    return (key,) if isinstance(key, str) else key


def _is_sized(examples: Sequence | Iterable) -> bool:
    return hasattr(examples, '__len__') and hasattr(examples, '__getitem__')
