"""manifest.json, beside TFRecord files: which there are and what they were when they were written."""

import os

import tensorflow.compat.v1 as tf

from common.data import tfrecord
from common.errors import RunError, UsageError
from common.files import read_json, write_json

_NAME = 'manifest.json'
_whole = {}  # The files that this process has found to be as written: {path: (bytes, time of the last change)}.


def exists(directory):
    return tf.io.gfile.exists(_path(directory))


def save(directory, files):
    """Writes the manifest.

    Args:
      directory: str.
      files: {split: list of dict of 'name', str, and the count, bytes, sha256 and crc32 of its `tfrecord.Scan`}.
    """
    write_json(
        _path(directory),
        {'splits': {split: {'count': sum(item['count'] for item in items), 'files': items} for split, items in files.items()}},
    )


def load(directory, split):
    """Returns {'count': int, 'files': list} of a split, as `save` wrote it.

    Raises:
      UsageError: there is no such split.
      RunError: the manifest is damaged.
    """
    splits = _load(directory)
    if split not in splits:
        raise UsageError(f'{_path(directory)}: unknown split {split}; available: {", ".join(splits)}')
    return splits[split]


def check(directory, item):
    """Returns the path of a file that `save` was told of. It is read from end to end, unless that was done before.

    Raises:
      RunError: it is missing, or is not what was written.
    """
    path = os.path.join(directory, item['name'])
    try:
        stat = tf.io.gfile.stat(path)
        state = (stat.length, stat.mtime_nsec)
    except tf.errors.OpError:
        state = None
    if state is None or _whole.get(path) != state:
        damage = _find_damage(path, item)
        if damage:
            raise RunError(f'{path}: {damage}: delete {directory} to convert the data again')
    _whole[path] = state
    return path


def clear_cache():
    """Has `check` read every file again."""
    _whole.clear()


def _find_damage(path, written):
    try:
        return tfrecord.find_damage(path, tfrecord.scan(path), written)
    except tf.errors.OpError as error:
        return 'is missing' if isinstance(error, tf.errors.NotFoundError) else f'cannot be read: {error.message}'


def locate_record(record):
    """Says in which of the files that were checked a serialized tf.train.Example lies; None if in none."""
    for path in _whole:
        offsets = tfrecord.scan(path).offsets
        for number, found in enumerate(tfrecord.read(path, len(offsets))):
            if found == record:
                return f'{path}: record {number}, at byte {offsets[number]}'
    return None


def verify(directory):
    """Yields a line for each file of a directory, which says whether it is as it was written.

    Where there is no manifest, it is of all files named *.tfrecord, and says whether their checksums are right.

    Raises:
      UsageError: there are none.
      RunError: the manifest is damaged; or files are, when all lines have been said.
    """
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
    damaged = 0
    for path, item in files.items():
        damage = _find_damage(path, item)
        damaged += damage is not None
        yield f'{path}: {damage or ("as written" if item else "intact")}'
    if damaged:
        raise RunError(f'{directory}: {damaged} of {len(files)} files are corrupt')


def _load(directory):
    path = _path(directory)
    reason = f'{path}: does not describe the data'
    try:
        splits = read_json(path)['splits']
        if splits and all(_is_sound(entry) for entry in splits.values()):
            return splits
    except ValueError as error:
        reason = error
    except (KeyError, TypeError, AttributeError):
        pass
    raise RunError(f'{reason}: delete {directory} to convert the data again')


def _is_sound(entry):
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
