"""The TFRecord files behind a tf.data.Dataset, and the offsets of their records, for reading from any position."""

from collections.abc import Mapping, Sequence
import dataclasses
import functools
import hashlib
import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.graphs import plain
from estimator_trainer.common.paths import resolve
from estimator_trainer.common.records import tfrecord

_MAX_BLOCKS = 1 << 20
_BUFFER = 1 << 18
_READERS = 4


class Blocks(NamedTuple):
    """Blocks of consecutive records of a file, or parts of them: int64 vectors.

    Attributes:
      file: the number of the file.
      offset: the byte offset to read from.
      skip: number of records to skip there.
      first: number of records of the split before the block, counted file by file.
      count: the number of its records.
    """

    file: tf.Tensor
    offset: tf.Tensor
    skip: tf.Tensor
    first: tf.Tensor
    count: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Shards:
    """The files of a split.

    directory is theirs; items are their entries in the manifest, in the order of the split's records. These are one of each of
    the first `interleaved` files in turn, then of the next.
    """

    directory: str
    items: Sequence[Mapping[str, Any]]
    interleaved: int = 1

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(item['count'] for item in self.items)

    @property
    def mean_bytes(self) -> float:
        """The mean size of a record in its file."""
        return sum(item['bytes'] for item in self.items) / max(self.count, 1)

    @property
    def sha256(self) -> str:
        """A checksum of the contents of all files, independent of their directory."""
        return hashlib.sha256(' '.join(item['sha256'] for item in self.items).encode()).hexdigest()

    @property
    def are_elsewhere(self) -> bool:
        """Whether the files are outside of the directory: written by others, they are read one after the other."""
        return all(os.path.basename(item['name']) != item['name'] for item in self.items)

    @property
    def numbers(self) -> np.ndarray:
        """The number, counted file by file, of each record in the order of the split: int64 [count]."""
        counts = [item['count'] for item in self.items]
        files = np.repeat(np.arange(len(counts)), counts)
        places = np.concatenate([np.arange(count) for count in counts])
        return np.lexsort([files % self.interleaved, places, files // self.interleaved])  # The last key comes first.

    @functools.cached_property
    def paths(self) -> Sequence[str]:
        return [resolve(self.directory, item['name']) for item in self.items]

    def blocks(self, max_records: int) -> np.ndarray:
        """Divides the split into blocks of at most max_records; returns int64 [blocks, 5], with the columns of Blocks."""
        max_records = max(max_records, self.count // _MAX_BLOCKS, 1)
        found, first = [], 0
        for number, (path, item) in enumerate(zip(self.paths, self.items)):
            index = item.get('index') or _scanned_index(path)
            for i, offset in enumerate(index['offsets']):
                size = min(index['every'], item['count'] - i * index['every'])
                for skip in range(0, size, max_records):
                    found.append((number, offset, skip, first + skip, min(max_records, size - skip)))
                first += size
        return np.array(found, np.int64).reshape([-1, 5])

    def read(self, blocks: Blocks) -> tf.data.Dataset:
        """Returns a string vector of the records of each block."""
        paths = tf.constant(self.paths)

        @plain
        def read_block(block):
            # tf.data.TFRecordDataset has no byte_offsets.
            variant = tf.raw_ops.TFRecordDatasetV2(
                filenames=[paths[block.file]],
                compression_type='',
                buffer_size=tf.constant(_BUFFER, tf.int64),
                byte_offsets=[block.offset],
            )
            records = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
            return tf.data.experimental.get_single_element(records.skip(block.skip).take(block.count).batch(block.count))

        return tf.data.Dataset.from_tensor_slices(blocks).map(read_block, _READERS)


@functools.cache
def _scanned_index(path):
    tf.logging.info('%s has no index, as it was written by an older version: it is read through.', path)
    found = tfrecord.scan(path)
    return tfrecord.make_index(found.offsets, found.bytes)


def attach(records: tf.data.Dataset, shards: Shards) -> tf.data.Dataset:
    """Marks a dataset as that of all records of the shards; transformations lose the mark."""
    records._shards = shards
    return records


def find(records: tf.data.Dataset, num_examples: int | None = None) -> Shards | None:
    """Returns the Shards of a dataset; None for an unmarked dataset, or if num_examples are not all records."""
    shards = getattr(records, '_shards', None)
    return shards if shards and num_examples in (None, shards.count) else None
