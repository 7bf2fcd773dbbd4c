"""TFRecord files of tf.Example: encoded, written in parallel, described by a manifest, verified, and read."""

from collections.abc import Iterable, Mapping, Sequence
import contextlib
import itertools
import math
import numbers
import os
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

from google.protobuf.message import DecodeError
import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import read_json
from estimator_trainer.common.graphs import plain
from estimator_trainer.common.locks import taking_turns
from estimator_trainer.common.records import manifest, shards
from estimator_trainer.common.records.conversion import Conversion

_seen_unwritten: set[str] = set()  # The directories that this process has found unwritten.
_LARGEST_INTEGER = np.iinfo(np.int64).max
_INFINITE = 2.0**128 - 2.0**103  # The least number that float32 rounds to infinity.
_BUFFERS, _BUFFER = 1 << 24, 1 << 18  # Bytes read ahead in all files together, and at most in one.


def encode(features: Mapping[str, Any] | bytes) -> bytes:
    """Returns one example as a serialized tf.train.Example.

    Args:
      features: {name: value}. A value is bytes, str, int, float, a list of bytes or str, or an array or list of ints or floats,
        which is flattened and stored as int64 or float32. Or the serialized example, whose features are put in order: others
        have written them in one that differs between processes, so that the same data would have other checksums.

    Raises:
      TypeError: a value is of another type.
      ValueError: a number is too large for int64 or float32.
    """
    example = tf.train.Example()
    if isinstance(features, bytes):
        try:
            example.ParseFromString(features)
        except DecodeError:  # A record of another kind.
            return features
        ordered = example.SerializeToString(deterministic=True)
        return ordered if len(ordered) == len(features) else features  # Of another kind, which only looks like one.
    stored = example.features.feature
    for name, value in features.items():
        _set(stored[name], name, value)
    return example.SerializeToString(deterministic=True)  # Maps are unordered.


def _set(feature, name, value):
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        feature.bytes_list.value.append(value)
        return
    if isinstance(value, float):
        if _INFINITE <= abs(value) < math.inf:
            raise _too_large(name, value)
        feature.float_list.value.append(value)
        return
    if isinstance(value, numbers.Integral):
        feature.int64_list.value.append(int(value))
        return
    if isinstance(value, list) and value and all(isinstance(item, (str, bytes)) for item in value):
        feature.bytes_list.value.extend(item.encode() if isinstance(item, str) else item for item in value)
        return
    values = np.asarray(value).ravel()
    if values.dtype.kind in 'iub':
        if values.dtype == np.uint64 and (values > _LARGEST_INTEGER).any():
            raise _too_large(name, values.max())
        feature.int64_list.value.extend(values.astype(np.int64).tolist())
    elif values.dtype.kind == 'f':
        if values.dtype.itemsize > 4 and (larger := values[(np.abs(values) >= _INFINITE) & np.isfinite(values)]).size:
            raise _too_large(name, larger[0])
        feature.float_list.value.extend(values.tolist())
    else:
        raise TypeError(f'{name}: cannot store {type(value).__name__} in a tf.train.Example')


def _too_large(name, value):
    return ValueError(f'{name}: {value:g} is too large for an int64 or a float32 of a tf.train.Example')


def write(
    directory: str,
    splits: Mapping[Any, Sequence[Mapping[str, Any] | None] | Iterable[Any]],
    num_shards: int | None = None,
    fingerprint: str | None = None,
) -> None:
    """Writes splits as TFRecord files, in parallel, and a manifest that makes them valid.

    Each file is written under a temporary name and renamed, the manifest last, so `read` rejects the files of an interrupted
    run. If another process is writing the directory, waits, then uses its result. On a terminal a progress bar counts the
    examples.

    Args:
      directory: created if it does not exist.
      splits: {split: examples}. Examples are a sequence, anything with len() and [i], of features for `encode`. Several threads
          index it, so a sequence that creates its items on access works in parallel. None, such as for an unreadable picture,
          is skipped. Any other iterable, such as a generator over the rows of a large file, is written in one pass: by one
          thread, to groups of four files of about 150 MB, numbered in the order of the examples; after an interruption it is
          iterated over again, skipping written examples. It may yield lists of serialized examples instead; for a key of
          several splits, which are then written in the same pass, it yields {split: such a list}.
      num_shards: number of files per split, for a sequence. Example i goes to file i modulo num_shards. By default, files have
        about 150 MB, as estimated from some of the examples, and there are at least 4, and at most 512.
      fingerprint: identifies the input, such as the path, size and time of the source and the options: the same fingerprint
          implies the same examples. Files finished by an interrupted run with the same fingerprint are kept; without one, all
          are rewritten.

    Raises:
      RunError: the directory cannot be written, or creating an example fails.
    """
    is_rewritten = directory not in _seen_unwritten and is_written(directory, fingerprint)
    with _writing(directory):
        # Another process may have written it since this one, or the caller, saw that it was not.
        if is_rewritten or not is_written(directory, fingerprint):
            Conversion(directory, encode, fingerprint).run(splits, num_shards)
    _seen_unwritten.discard(directory)


@contextlib.contextmanager
def _writing(directory):
    """Creates and locks the directory for writing; raises RunError if it cannot be written."""
    try:
        tf.io.gfile.makedirs(directory)
        with taking_turns(os.path.join(directory, 'conversion')):
            yield
    except (tf.errors.OpError, OSError) as error:
        reason = getattr(error, 'message', None) or getattr(error, 'strerror', None) or error
        raise RunError(f'{directory}: cannot be written: {reason}; --data_dir names another place') from None


def index(directory: str, files: Mapping[str, Sequence[str]]) -> None:
    """Describes TFRecord files written by others, anywhere: `read(directory, split)` then reads them like its own.

    They are read once, to verify their records' checksums. Files compressed with GZIP or ZLIB are decompressed to the
    directory. Does nothing if the directory has been written.

    Args:
      directory: created if it does not exist.
      files: {split: paths}; the records of a split are in the order of its files.

    Raises:
      RunError: a file is missing or corrupt, or the directory cannot be written.
    """
    if not is_written(directory):
        with _writing(directory):
            if not is_written(directory):  # Another process may have written it meanwhile.
                manifest.index(directory, files)


def is_written(directory: str, fingerprint: str | None = None) -> bool:
    """Whether `write` has finished in this directory, with this fingerprint if it is not None."""
    found = manifest.exists(directory) and (fingerprint is None or manifest.fingerprint(directory) == fingerprint)
    (_seen_unwritten.discard if found else _seen_unwritten.add)(directory)
    return found


def kept(directory: str, split: str, are_kept: Sequence[bool]) -> list[int] | None:
    """Returns the numbers of the examples of a split's records, in their order; None if there are more records, or fewer.

    Args:
      are_kept: whether each example of the sequence that `write` was given has become a record, rather than None.
    """
    entry = manifest.load(directory, split)
    if sum(are_kept) != entry['count']:
        return None
    shards = len(entry['files'])
    in_shards = [[number for number in range(shard, len(are_kept), shards) if are_kept[number]] for shard in range(shards)]
    return [number for turn in itertools.zip_longest(*in_shards) for number in turn if number is not None]


def read(directory: str, split: str) -> tf.data.Dataset:
    """Reads a split written by `write`.

    First verifies every file by reading it: once, unless it changes; see `manifest.check`.

    Returns:
      Serialized tf.train.Example, string scalars, with known cardinality and in a fixed order, that of the examples if none was
      skipped. If a dataset module's `read` returns this dataset unchanged, training shuffles it in windows and need not keep it
      in memory.

    Raises:
      UsageError: there is no such split.
      RunError: the manifest is corrupt, or a file is missing or differs from what was written.
    """
    entry = manifest.load(directory, split)
    manifest.check(directory, entry['files'])
    found = shards.Shards(directory, entry['files'], entry['interleaved'])
    records = _interleave(found.paths, entry['interleaved'])
    return shards.attach(records.apply(tf.data.experimental.assert_cardinality(entry['count'])), found)


def _interleave(paths, width):
    """Returns the records of files: one from each of the first `width` files in turn, then from the next."""

    @plain
    def interleaved(group):
        return tf.data.Dataset.from_tensor_slices(group).interleave(
            plain(lambda path: tf.data.TFRecordDataset(path, buffer_size=min(_BUFFERS // width, _BUFFER))),
            cycle_length=width,
            block_length=1,
        )

    if len(paths) == width:
        return interleaved(paths)
    return tf.data.Dataset.from_tensor_slices(np.reshape(paths, [-1, width])).flat_map(interleaved)


def read_facts(path: str) -> dict[str, Any]:
    """Returns the JSON object in a file of a directory that `write` or `index` has written, about the records there.

    Raises:
      RunError: it is missing or broken.
    """
    try:
        return read_json(path)
    except ValueError as error:
        raise RunError(f'{error}: delete {os.path.dirname(path)} to convert the data again') from None


def decode(record: bytes) -> dict[str, tuple[str, Sequence[Any]]]:
    """Returns {name: (kind, values)} of a serialized tf.train.Example; a kind is bytes, float or int64.

    Raises:
      DecodeError: the record is not a tf.train.Example.
    """
    features = tf.train.Example.FromString(record).features.feature
    kinds = {name: feature.WhichOneof('kind') for name, feature in features.items()}
    return {name: (kind[:-5], getattr(features[name], kind).value) for name, kind in kinds.items() if kind}
