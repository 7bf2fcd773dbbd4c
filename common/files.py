"""Atomic writes of small files, local or remote, by a temporary file that is renamed; JSON; file locks."""

from collections.abc import Callable, Iterator
import contextlib
import errno
import fcntl
import functools
import json
import math
import os
import re
import socket
from typing import Any
import uuid

import numpy as np
import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError


@contextlib.contextmanager
def atomic_path(path: str) -> Iterator[str]:
    """Yields the path of a temporary file, which replaces `path` if the block ends without an error.

    The temporary path is unique: several processes may write the same file, and each leaves a complete one. A lock on it
    protects it from `remove_abandoned`.
    """
    part = f'{path}.{uuid.uuid4().hex}.part'
    with contextlib.ExitStack() as cleanup:
        if not is_remote(path):
            with contextlib.suppress(OSError):  # The caller's write fails, too, and reports it.
                cleanup.callback(os.close, _open_locked(part))
        try:
            yield part
            tf.io.gfile.rename(part, path, overwrite=True)
        except BaseException:
            if tf.io.gfile.exists(part):
                tf.io.gfile.remove(part)
            raise


def _open_locked(part):
    """Creates a file, locks it and returns its descriptor; retries if `remove_abandoned` deletes it in between."""
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


def remove_abandoned(part: str) -> None:
    """Deletes a temporary file that an interrupted `atomic_path` has left behind.

    It is kept if a process is still writing it, or if that is unknown because the file system has no locks.
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


def is_remote(path: str) -> bool:
    """Whether a path is on one of TensorFlow's remote file systems, such as gs://, which have no locks."""
    return '://' in path


def identify(directory: str) -> tuple[int, int] | None:
    """Returns the device and inode of a local directory; None if it does not exist or is remote."""
    try:
        stat = None if is_remote(directory) else os.stat(directory)
    except OSError:
        return None
    return stat and (stat.st_dev, stat.st_ino)


def check_identity(directory: str, identity: tuple[int, int] | None) -> None:
    """Raises RunError if a directory is no longer the one that `identify` saw."""
    if identify(directory) != identity:
        raise RunError(
            f'{directory}: was deleted or moved away during the training: move it back to resume from its last '
            'checkpoint, or rerun the command to start over'
        )


def check_scheme(flag: str, path: str) -> None:
    """Raises UsageError if a flag's path is on a file system that TensorFlow does not support."""
    scheme = re.match(r'([a-zA-Z][0-9a-zA-Z.]*)://', path)
    known = tf.io.gfile.get_registered_schemes()
    if scheme and scheme[1] not in known:
        supported = ', '.join(f'{name}://' for name in sorted(filter(None, known)))
        raise UsageError(
            f'--{flag}={path}: this TensorFlow has no file system {scheme[1]}:// (it has {supported}): mount it as a '
            'directory and give that path'
        )


def write(path: str, content: str | bytes) -> None:
    """Writes a file atomically; str as UTF-8."""
    with atomic_path(path) as part, tf.io.gfile.GFile(part, 'wb') as file:
        file.write(content)


def write_json(path: str, value: Any) -> None:
    """Writes a value atomically as indented JSON, as `dumps` formats it."""
    write(path, dumps(value, indent=2) + '\n')


def dumps(value: Any, indent: int | None = None) -> str:
    """Returns a value as JSON. Numbers that are not finite become the strings "Infinity", "-Infinity" and "NaN"."""
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


def explain(error: BaseException) -> str | None:
    """Returns 'PATH: reason' for an error of TensorFlow or Python about a file; None for any other error."""
    if isinstance(error, OSError):
        return f'{error.filename}: {error.strerror}' if error.filename else None
    match = re.search(r'^(\S*/.*)(?:; ([A-Z].*)| (is (?:not )?a directory))$', str(error), re.MULTILINE)
    return match and f'{match[1]}: {match[2] or match[3]}'


def read_json(path: str) -> dict[str, Any]:
    """Returns the JSON object in a file.

    Raises:
      ValueError: the file cannot be read, or does not contain a JSON object; the message names the file.
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


def to_json(value: Any) -> Any:
    """Converts a NumPy scalar or array to what JSON can represent; floats are rounded to the six digits of float32."""
    if np.ndim(value):
        return [to_json(item) for item in value]
    item = value.item() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(item, bytes):
        return item.decode(errors='replace')
    return float(f'{item:.6g}') if isinstance(item, float) else item


@contextlib.contextmanager
def lock(path: str, refusal: Callable[[str], str]) -> Iterator[int]:
    """Holds an exclusive lock until the block or the process ends; yields its file descriptor.

    A child process that inherits the descriptor holds the lock for as long as it lives.

    Args:
      path: a local file, which is created and names the lock's holder.
      refusal: function of the file's text, which is '' until the holder has written it; returns the message of the RunError.

    Raises:
      RunError: another process holds the lock.
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
def taking_turns(path: str) -> Iterator[bool]:
    """Runs the blocks of several processes for a path one after the other, by a lock on the file PATH.lock.

    Yields whether the lock is held: on remote and other file systems without locks, all processes run their blocks at once.

    Raises:
      OSError: the file cannot be created.
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
    """Locks an open file and returns whether its file system has locks; with LOCK_NB, raises BlockingIOError if it is held."""
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
