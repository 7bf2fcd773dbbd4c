"""TFRecord files of tf.Example: encoded, written in parallel, described by a manifest, and read."""

import concurrent.futures
import hashlib
import numbers
import os
import threading

import numpy as np
import tensorflow.compat.v1 as tf
import tqdm

from common.errors import RunError, UsageError
from common.files import read_json, replacing, write_json

MANIFEST = 'manifest.json'
NUM_SHARDS = 4
_REPORT_EVERY = 1000


def encode(features):
    """Serializes one example.

    Args:
      features: dict of name to bytes, str, int, float, or an array or list of ints or floats (stored flat, as int64 or
        float32).

    Returns:
      bytes, a serialized tf.train.Example.

    Raises:
      TypeError: a value is of another type.
    """
    example = tf.train.Example()
    for name, value in features.items():
        _set(example.features.feature[name], name, value)
    return example.SerializeToString()


def _set(feature, name, value):
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        feature.bytes_list.value.append(value)
        return
    if isinstance(value, numbers.Integral):
        feature.int64_list.value.append(int(value))
        return
    values = np.asarray(value).ravel()
    if values.dtype.kind in 'iub':
        feature.int64_list.value.extend(values.astype(np.int64).tolist())
    elif values.dtype.kind == 'f':
        feature.float_list.value.extend(values.tolist())
    else:
        raise TypeError(f'{name}: cannot store {type(value).__name__} in a tf.train.Example')


def write(directory, splits, num_shards=NUM_SHARDS):
    """Writes splits as TFRecord files, several at a time, and a manifest that makes them valid.

    Each file is written beside its place and renamed, the manifest last, so that a run that was stopped leaves nothing
    that `read` would take. On a terminal a progress bar counts the examples.

    Args:
      directory: str, made if it is not there.
      splits: dict of split name to a sequence, anything with a len() and an [i], of features for `encode`. Its items are
        taken by several threads, so that one that makes them as they are asked for works in parallel.
      num_shards: int, files a split. Example i goes to file i modulo num_shards.

    Raises:
      RunError: the directory cannot be written.
    """
    try:
        tf.io.gfile.makedirs(directory)
        files = _write_shards(directory, splits, num_shards)
        write_json(os.path.join(directory, MANIFEST), {
            'splits': {split: {'count': len(splits[split]), 'files': files[split]} for split in splits}})
    except tf.errors.OpError as error:
        raise RunError(f'{directory}: cannot be written: {error.message}; --data_dir names another place') from None


def _write_shards(directory, splits, num_shards):
    """Writes all files of all splits; returns {split: entries of the manifest}."""
    total = sum(len(examples) for examples in splits.values())
    stop = threading.Event()
    with tqdm.tqdm(total=total, unit='ex', desc=f'Writing {directory}', disable=None) as bar, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {split: [pool.submit(_write_shard, directory, split, shard, num_shards, examples, bar, stop)
                           for shard in range(num_shards)]
                   for split, examples in splits.items()}
        try:
            for future in concurrent.futures.as_completed(sum(futures.values(), [])):
                future.result()
        finally:
            stop.set()  # After an error or Ctrl-C, what is still being written need not be finished.
        return {split: [future.result() for future in shards] for split, shards in futures.items()}


def _write_shard(directory, split, shard, num_shards, examples, bar, stop):
    """Writes one file and returns its entry in the manifest."""
    name = f'{split}-{shard:05d}-of-{num_shards:05d}.tfrecord'
    path = os.path.join(directory, name)
    indices = range(shard, len(examples), num_shards)
    with replacing(path) as part:
        with tf.io.TFRecordWriter(part) as writer:
            for position, i in enumerate(indices, 1):
                if stop.is_set():
                    raise concurrent.futures.CancelledError
                writer.write(encode(examples[i]))
                if position % _REPORT_EVERY == 0:
                    bar.update(_REPORT_EVERY)
        bar.update(len(indices) % _REPORT_EVERY)
        with tf.io.gfile.GFile(part, 'rb') as file:
            content = file.read()
    return {'name': name, 'count': len(indices), 'bytes': len(content), 'sha256': hashlib.sha256(content).hexdigest()}


def is_written(directory):
    """Whether `write` has finished in this directory."""
    return tf.io.gfile.exists(os.path.join(directory, MANIFEST))


def read(directory, split):
    """Reads a split that `write` wrote.

    Returns:
      tf.data.Dataset of serialized tf.train.Example, string scalars, of known cardinality and always in one order.

    Raises:
      UsageError: there is no such split.
      RunError: the manifest is damaged, or a file is missing or not of the size that it was written with.
    """
    path = os.path.join(directory, MANIFEST)
    try:
        splits = read_json(path)['splits']
        if splits and split not in splits:
            raise UsageError(f'{path}: there is no split {split}, but {", ".join(splits)}')
        entry = splits[split]
        files = [os.path.join(directory, item['name']) for item in entry['files']]
        sizes = [item['bytes'] for item in entry['files']]
    except (ValueError, KeyError, TypeError) as error:
        reason = error if isinstance(error, ValueError) else f'{path}: does not describe the split {split}'
        raise RunError(f'{reason}: delete {directory} to convert the data again') from None
    for name, size in zip(files, sizes):
        found = tf.io.gfile.stat(name).length if tf.io.gfile.exists(name) else 'missing'
        if found != size:
            raise RunError(f'{name}: {size} bytes were written, now it is {found}: delete {directory} to convert the data '
                           'again')
    records = tf.data.Dataset.from_tensor_slices(files).interleave(
        tf.data.TFRecordDataset, cycle_length=len(files), block_length=1)
    return records.apply(tf.data.experimental.assert_cardinality(entry['count']))
