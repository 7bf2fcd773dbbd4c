"""Small files, local or remote: written beside their place and renamed, so that they are whole or absent. Locks."""

import contextlib
import errno
import fcntl
import functools
import json
import math
import os
import re
import socket
import uuid

import numpy as np
import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError


@contextlib.contextmanager
def atomic_path(path):
    """Gives the path of a file to write, which takes the place of `path` once the block has ended without an error.

    The path is nobody else's, so that of several processes that write the same file each leaves it whole. A lock on it keeps
    `remove_abandoned` from it.
    """
    part = f'{path}.{uuid.uuid4().hex}.part'
    with contextlib.ExitStack() as cleanup:
        if not is_remote(path):
            with contextlib.suppress(OSError):  # Whoever writes there finds out, too, and says so.
                cleanup.callback(os.close, _open_locked(part))
        try:
            yield part
            tf.io.gfile.rename(part, path, overwrite=True)
        except BaseException:
            if tf.io.gfile.exists(part):
                tf.io.gfile.remove(part)
            raise


def _open_locked(part):
    """Makes a file and locks it; returns its descriptor. `remove_abandoned` may have come between the two."""
    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _flock(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
        if os.path.exists(part):
            return descriptor
        os.close(descriptor)


def remove_abandoned(part):
    """Deletes a file that `replacing` has left behind.

    It stays if a process is still writing it, or if nobody knows: where there are no locks.
    """
    if is_remote(part):
        return
    with contextlib.suppress(FileNotFoundError, BlockingIOError):
        descriptor = os.open(part, os.O_RDWR)
        try:
            if _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                os.remove(part)
        finally:
            os.close(descriptor)


def is_remote(path):
    """Whether a path is one of TensorFlow's other file systems, such as gs://, which have no locks."""
    return '://' in path


def identify(directory):
    """Returns what tells a local directory from another one in its place; None where there is none, or it is remote."""
    try:
        stat = None if is_remote(directory) else os.stat(directory)
    except OSError:
        return None
    return stat and (stat.st_dev, stat.st_ino)


def check_identity(directory, identity):
    """Raises RunError if a directory is no longer the one that `identify` has seen."""
    if identify(directory) != identity:
        raise RunError(
            f'{directory}: was deleted or moved away during the training: move it back to resume from its last '
            'checkpoint, or rerun the command to start over'
        )


def check_scheme(flag, path):
    """Raises UsageError if the path that a flag gives is of a file system that TensorFlow does not have."""
    scheme = re.match(r'([a-zA-Z][0-9a-zA-Z.]*)://', path)
    known = tf.io.gfile.get_registered_schemes()
    if scheme and scheme[1] not in known:
        there = ', '.join(f'{name}://' for name in sorted(filter(None, known)))
        raise UsageError(
            f'--{flag}={path}: this TensorFlow has no file system {scheme[1]}:// (it has {there}): mount it as a '
            'directory and give that path'
        )


def write(path, content):
    """Writes a file of str, as UTF-8, or bytes."""
    with atomic_path(path) as part, tf.io.gfile.GFile(part, 'wb') as file:
        file.write(content)


def write_json(path, value):
    """Writes a value as indented JSON, as `dumps` has it."""
    write(path, dumps(value, indent=2) + '\n')


def dumps(value, indent=None):
    """Returns a value as JSON, which has no numbers that are not finite: they become "Infinity", "-Infinity" and "NaN"."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return 'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'
    return value


def explain(error):
    """Returns what an error of TensorFlow or Python says of a file, 'PATH: reason'; None if it is about something else."""
    if isinstance(error, OSError):
        return f'{error.filename}: {error.strerror}' if error.filename else None
    said = re.search(r'^(\S*/.*)(?:; ([A-Z].*)| (is (?:not )?a directory))$', str(error), re.MULTILINE)
    return said and f'{said[1]}: {said[2] or said[3]}'


def read_json(path):
    """Returns the JSON object in a file.

    Raises:
      ValueError: the file cannot be read, or holds something else; the message names it.
    """
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            value = json.loads(file.read().decode())
    except tf.errors.OpError as error:
        raise ValueError(f'{path}: cannot be read: {error.message}') from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f'{path}: is not JSON: {error}') from None
    if not isinstance(value, dict):
        raise ValueError(f'{path}: must contain one JSON object')
    return value


def to_json(value):
    """Returns a NumPy scalar or array as JSON can say it, floats to the six digits that float32 has."""
    if np.ndim(value):
        return [to_json(item) for item in value]
    item = value.item() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(item, bytes):
        return item.decode(errors='replace')
    return float(f'{item:.6g}') if isinstance(item, float) else item


@contextlib.contextmanager
def lock(path, refusal):
    """Keeps other processes from the same lock until the block, or the process, has ended, and gives its file descriptor.

    A process that inherits the descriptor keeps the lock for as long as it lives.

    Args:
      path: str, a local file, which is made, and says who holds the lock.
      refusal: function of what that says, str, which is '' before it is written; returns what to say to others.

    Raises:
      RunError: another process has it.
      OSError: the file cannot be written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            if not _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                _warn_of_no_locks(os.path.dirname(path))
        except BlockingIOError:
            raise RunError(refusal(os.read(descriptor, 1000).decode(errors='replace'))) from None
        os.ftruncate(descriptor, 0)
        try:
            os.write(descriptor, f'process {os.getpid()} on {socket.gethostname()}'.encode())
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def taking_turns(path):
    """Lets one process at a time into its blocks for a path, where the others wait, by a lock on the file PATH.lock.

    Gives whether that is so: remote directories, and file systems without locks, let all of them in.

    Raises:
      OSError: the file cannot be made.
    """
    if is_remote(path):
        yield False
        return
    descriptor = os.open(f'{path}.lock', os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            is_locked = _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tf.logging.info('Waiting for another process to finish with %s.', path)
            is_locked = _flock(descriptor, fcntl.LOCK_EX)
        if not is_locked:
            _warn_of_no_locks(os.path.dirname(path))
        yield is_locked
    finally:
        os.close(descriptor)


def _flock(descriptor, operation):
    """Locks an open file, and returns whether its file system has locks; raises BlockingIOError if LOCK_NB has it so."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        return False
    return True


@functools.cache  # Once for each directory.
def _warn_of_no_locks(directory):
    tf.logging.warning('%s: the file system does not support locks: only one process may use it at a time.', directory)
