"""Conversion of examples to TFRecord files and a manifest, resumable after an interruption."""

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
import concurrent.futures
import contextlib
import itertools
import os
import threading
import time
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import files, memory
from estimator_trainer.common.console import make_bar
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.plugins.traceback_filter import in_a_line
from estimator_trainer.common.records import manifest, tfrecord

NUM_SHARDS = 4
MAX_SHARDS = 512  # Evaluation reads all at once, and 1,024 is a common limit of open files.
SHARD_BYTES = 150 * 10**6
_SAMPLE = 16
_REPORT_EVERY = 1000
_PROGRESS = 'manifest.partial.json'


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
            if name.endswith('.part'):
                files.remove_abandoned(os.path.join(directory, name))
        self._load_progress()

    def run(self, splits: Mapping[str, Any], num_shards: int | None) -> None:
        """Writes {split: examples}; num_shards is that of a split whose examples have a length, None derives it."""
        start = time.monotonic()
        sized = {split: examples for split, examples in splits.items() if _is_sized(examples)}
        shards = {split: num_shards or self._estimate_shards(split, examples) for split, examples in sized.items()}
        planned = [
            f'{split}, {len(sized[split]):,} examples to {shards[split]} files' if split in sized else f'{split}, in one pass'
            for split in splits
        ]
        tf.logging.info('Writing %s: %s.', self._directory, '; '.join(planned))
        total = sum(map(len, sized.values())) if len(sized) == len(splits) else None
        with make_bar(total=total, unit='ex', desc=f'Writing {self._directory}') as self._bar:
            written = self._write(splits, sized, shards)
        num_groups = {split: NUM_SHARDS for split in splits if split not in sized}
        manifest.save(self._directory, written, num_groups, self._fingerprint)
        items = [item for of_split in written.values() for item in of_split]
        for name in {*self._obsolete, *self._kept} - {item['name'] for item in items}:
            self._remove(name)
        self._remove(_PROGRESS)
        count = sum(item['count'] for item in items)
        if count < self._items:
            tf.logging.warning('%s: %d of %d examples were skipped.', self._directory, self._items - count, self._items)
        size, seconds = memory.to_text(sum(item['bytes'] for item in items)), time.monotonic() - start
        tf.logging.info(f'Wrote {self._directory}: {count:,} examples, {size}, in {len(items)} files; it took {seconds:.1f} s.')

    def _write(self, splits, sized, shards):
        """Writes all splits, those with a length in threads; returns {split: entries in the manifest}."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            futures = {
                split: [pool.submit(self._write_shard, split, examples, shard, shards[split]) for shard in range(shards[split])]
                for split, examples in sized.items()
            }
            try:
                # In this thread, to which the source, such as a database, may belong.
                passes = {split: self._write_pass(split, splits[split]) for split in splits if split not in sized}
                for future in concurrent.futures.as_completed(sum(futures.values(), [])):
                    future.result()
            finally:
                self._stop.set()  # Stops the other threads after an error or Ctrl-C.
        return {split: [future.result() for future in futures[split]] if split in sized else passes[split] for split in splits}

    def _estimate_shards(self, split, examples):
        """Estimates the number of files from the size of some examples."""
        numbers = range(0, len(examples), max(len(examples) // _SAMPLE, 1))[:_SAMPLE]
        sample = [self._make(split, number, lambda i=number: examples[i]) for number in numbers]
        size = sum(map(_size, sample)) / max(len(sample), 1) * len(examples)
        return min(max(round(size / SHARD_BYTES), NUM_SHARDS), MAX_SHARDS)

    def _write_shard(self, split, examples, shard, num_shards):
        """Writes the examples of a sequence whose index modulo num_shards is `shard`; returns the file's manifest entry."""
        name = f'{split}-{shard:05d}-of-{num_shards:05d}.tfrecord'
        numbers = range(shard, len(examples), num_shards)
        kept = self._find_kept([name])
        if kept:
            self._count(len(numbers))
            return kept[0]
        with self._writing([name]) as ((writer,), entries):
            for position, number in enumerate(numbers, 1):
                record = self._make(split, number, lambda i=number: examples[i])
                if record is not None:
                    writer.write(record)
                if position % _REPORT_EVERY == 0:
                    self._count(_REPORT_EVERY)
            self._count(len(numbers) % _REPORT_EVERY)
        self._keep(entries, len(numbers))
        return entries[0]

    def _write_pass(self, split, examples):
        """Writes an iterable to groups of NUM_SHARDS files, one group after the other; returns their entries."""
        items = self._numbered(split, examples)
        written: list[dict[str, Any]] = []
        while True:
            names = [f'{split}-{shard:05d}.tfrecord' for shard in range(len(written), len(written) + NUM_SHARDS)]
            kept = self._find_kept(names)
            if kept:
                collections.deque(itertools.islice(items, self._kept[names[0]]['items']), maxlen=0)  # Skips them.
                written += kept
                continue
            first = list(itertools.islice(items, 1))
            if written and not first:
                return written
            written += self._write_group(split, names, itertools.chain(first, items))

    def _write_group(self, split, names, items):
        """Writes items to files in turn, until these are full; returns their entries."""
        size, count, num_items = 0, 0, 0
        with self._writing(names) as (writers, entries):
            for number, item in items:
                record = item if type(item) is bytes else self._make(split, number, lambda item=item: item)
                num_items += 1
                if record is not None:
                    writers[count % NUM_SHARDS].write(record)
                    size += _size(record)
                    count += 1
                if size >= NUM_SHARDS * SHARD_BYTES:
                    break
        self._keep(entries, num_items)
        return entries

    def _numbered(self, split, examples):
        """Yields (number, example), and counts them."""
        iterator, number = iter(examples), 0
        while True:
            try:
                example = next(iterator)
            except StopIteration:
                break
            except Exception as error:
                raise self._error(split, number, error) from None
            yield number, example
            number += 1
            if number % _REPORT_EVERY == 0:
                self._count(_REPORT_EVERY)
        self._count(number % _REPORT_EVERY)

    @contextlib.contextmanager
    def _writing(self, names):
        """Yields a writer per file, and a list that gets their manifest entries when the block ends."""
        entries: list[dict[str, Any]] = []
        with contextlib.ExitStack() as stack:
            parts = [stack.enter_context(files.atomic_path(os.path.join(self._directory, name))) for name in names]
            with contextlib.ExitStack() as open_files:
                yield [open_files.enter_context(tf.io.TFRecordWriter(part)) for part in parts], entries
            entries += [manifest.describe(name, tfrecord.scan(part)) for name, part in zip(names, parts)]

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

    def _load_progress(self):
        """Finds the files finished by an interrupted run."""
        try:
            progress = files.read_json(os.path.join(self._directory, _PROGRESS))
            kept = {
                os.path.basename(name): {'sha256': str(item['sha256']), 'items': int(item['items'])}
                for name, item in progress['files'].items()
                if name.endswith('.tfrecord')
            }
            is_same = self._fingerprint is not None and progress['fingerprint'] == self._fingerprint
        except (ValueError, KeyError, TypeError, AttributeError):
            kept, is_same = {}, False
        self._kept: dict[str, Any] = kept if is_same else {}
        self._obsolete |= set() if is_same else {*kept}
        if self._kept:
            tf.logging.info('%s: continuing a conversion that was interrupted.', self._directory)

    def _find_kept(self, names):
        """Returns the entries of files finished by an interrupted run; None if one is missing or has changed."""
        entries = []
        for name in names:
            path = os.path.join(self._directory, name)
            if name not in self._kept or not tf.io.gfile.exists(path):
                return None
            entries.append(manifest.describe(name, tfrecord.scan(path)))
            if entries[-1]['sha256'] != self._kept[name]['sha256']:
                return None
        return entries

    def _keep(self, entries, items):
        """Records finished files and the number of items in them together."""
        if self._fingerprint is None:
            return
        with self._lock:
            self._kept.update({entry['name']: {'sha256': entry['sha256'], 'items': items} for entry in entries})
            path = os.path.join(self._directory, _PROGRESS)
            files.write_json(path, {'fingerprint': self._fingerprint, 'files': self._kept})

    def _remove(self, name):
        path = os.path.join(self._directory, name)
        if tf.io.gfile.exists(path):
            tf.io.gfile.remove(path)


def _is_sized(examples: Sequence | Iterable) -> bool:
    return hasattr(examples, '__len__') and hasattr(examples, '__getitem__')


def _size(record):
    return 0 if record is None else len(record) + tfrecord.FRAMING
