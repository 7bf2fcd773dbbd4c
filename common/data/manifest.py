"""manifest.json, next to TFRecord files: their names, sizes and checksums at the time of writing."""

from collections.abc import Iterator, Mapping, Sequence
import os
from typing import Any

import tensorflow.compat.v1 as tf

from common.data import tfrecord
from common.errors import RunError, UsageError
from common.files import read_json, write_json

_NAME = 'manifest.json'
_verified: dict[str, tuple[int, int] | None] = {}  # {path: (bytes, time of the last change)} of files verified by this process.


def exists(directory: str) -> bool:
    return tf.io.gfile.exists(_path(directory))


def save(directory: str, files: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Writes the manifest.

    Args:
      directory: the one of the files.
      files: {split: list of dicts of 'name', str, and the count, bytes, sha256 and crc32 of its `tfrecord.Scan`}.
    """
    write_json(
        _path(directory),
        {'splits': {split: {'count': sum(item['count'] for item in items), 'files': items} for split, items in files.items()}},
    )


def load(directory: str, split: str) -> dict[str, Any]:
    """Returns {'count': int, 'files': list} of a split, as `save` wrote it.

    Raises:
      UsageError: there is no such split.
      RunError: the manifest is corrupt.
    """
    splits = _load(directory)
    if split not in splits:
        raise UsageError(f'{_path(directory)}: unknown split {split}; available: {", ".join(splits)}')
    return splits[split]


def check(directory: str, item: Mapping[str, Any]) -> str:
    """Verifies a file against its entry in the manifest and returns its path. Each file is read only once, unless it changes.

    Raises:
      RunError: the file is missing, or differs from what was written.
    """
    path = os.path.join(directory, item['name'])
    try:
        stat = tf.io.gfile.stat(path)
        state = (stat.length, stat.mtime_nsec)
    except tf.errors.OpError:
        state = None
    if state is None or _verified.get(path) != state:
        defect = _find_defect(path, item)
        if defect:
            raise RunError(f'{path}: {defect}: delete {directory} to convert the data again')
    _verified[path] = state
    return path


def clear_cache() -> None:
    """Makes `check` read every file again."""
    _verified.clear()


def _find_defect(path, written):
    try:
        return tfrecord.find_damage(path, tfrecord.scan(path), written)
    except tf.errors.OpError as error:
        return 'is missing' if isinstance(error, tf.errors.NotFoundError) else f'cannot be read: {error.message}'


def locate_record(record: bytes) -> str | None:
    """Returns which of the verified files contains a serialized tf.train.Example, and where; None if none does."""
    for path in _verified:
        offsets = tfrecord.scan(path).offsets
        for number, found in enumerate(tfrecord.read(path, len(offsets))):
            if found == record:
                return f'{path}: record {number}, at byte {offsets[number]}'
    return None


_counts: dict[str, int] = {}  # {path: number of records} of the files that `check_alone` has verified.


def check_alone(path: str) -> int:
    """Verifies a file that no manifest describes by its records' checksums, unless it was before; returns its records' number.

    Raises:
      RunError: the file is missing, compressed or corrupt.
    """
    try:
        stat = tf.io.gfile.stat(path)
        state = (stat.length, stat.mtime_nsec)
        if path not in _counts or _verified.get(path) != state:
            with tf.io.gfile.GFile(path, 'rb') as file:
                if file.read(2) == b'\x1f\x8b':
                    raise RunError(f'{path}: is compressed with GZIP: decompress it, with gunzip')
            found = tfrecord.scan(path)
            defect = None if tfrecord.is_intact(path, found) else tfrecord.find_damage(path, found)
            if defect:
                raise RunError(f'{path}: {defect}: restore it')
            _counts[path] = found.count
    except tf.errors.OpError as error:
        raise RunError(f'{path}: cannot be read: {error.message}') from None
    _verified[path] = state
    return _counts[path]


def verify(directory: str) -> Iterator[str]:
    """Yields a line for each file of a directory, which says whether the file is as it was written.

    Without a manifest, all files named *.tfrecord are verified by their records' checksums.

    Raises:
      UsageError: there are no files.
      RunError: the manifest is corrupt; or files are, after all lines have been yielded.
    """
    files: dict[str, dict[str, Any] | None]
    if exists(directory):
        files = {os.path.join(directory, item['name']): item for entry in _load(directory).values() for item in entry['files']}
    else:
        files = dict.fromkeys(sorted(tf.io.gfile.glob(os.path.join(directory, '*.tfrecord'))))
    if not files:
        raise UsageError(
            f'{directory}: contains neither {_NAME} nor *.tfrecord files'
            if tf.io.gfile.isdir(directory)
            else f'{directory}: is not a directory'
        )
    corrupt = 0
    for path, item in files.items():
        defect = _find_defect(path, item)
        corrupt += defect is not None
        yield f'{path}: {defect or ("as written" if item else "intact")}'
    if corrupt:
        raise RunError(f'{directory}: {corrupt} of {len(files)} files are corrupt')


def _load(directory):
    path = _path(directory)
    reason: str | ValueError = f'{path}: does not describe the data'
    try:
        splits = read_json(path)['splits']
        if splits and all(_is_valid(entry) for entry in splits.values()):
            return splits
    except ValueError as error:
        reason = error
    except (KeyError, TypeError, AttributeError):
        pass
    raise RunError(f'{reason}: delete {directory} to convert the data again')


def _is_valid(entry):
    names = [item['name'] for item in entry['files']]
    return (
        names
        and len(set(names)) == len(names)
        and all(
            isinstance(item['name'], str)
            and item['name']
            and item['name'] == os.path.basename(item['name'])
            and isinstance(item['sha256'], str)
            and all(map(_is_count, [item['count'], item['bytes'], *item.get('crc32', [])]))
            for item in entry['files']
        )
        and entry['count'] == sum(item['count'] for item in entry['files'])
    )


def _is_count(value):
    return type(value) is int and value >= 0


def _path(directory):
    return os.path.join(directory, _NAME)
