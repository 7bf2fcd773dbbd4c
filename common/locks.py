"""File locks between processes."""

from collections.abc import Callable, Iterator
import contextlib
import errno
import fcntl
import functools
import os
import socket
import tempfile

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.paths import is_remote


class Held(RunError):
    """Another process holds a lock."""


@contextlib.contextmanager
def lock(path: str, refusal: Callable[[str], str], is_shared: bool = False) -> Iterator[int]:
    """Holds a lock until the block or the process ends; yields its file descriptor.

    A child process that inherits the descriptor holds the lock as long as it lives.

    Args:
      path: a local file, which is created and names the holder of the lock.
      refusal: function from the file's text, '' until the holder has written it, to the message of the RunError.
      is_shared: whether other processes may hold it, too, if they share it.

    Raises:
      Held: another process holds the lock.
      OSError: the file cannot be written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            if not flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, path):
                _warn_of_no_locks(os.path.dirname(path))
        except BlockingIOError:
            raise Held(refusal(os.read(descriptor, 1000).decode(errors='replace'))) from None
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f'process {os.getpid()} on {socket.gethostname()}'.encode())
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def taking_turns(path: str) -> Iterator[bool]:
    """Serializes the blocks of several processes for a path, by a lock on the file PATH.lock.

    Yields whether the lock is held: without locks, as on remote file systems, all processes run their blocks concurrently.

    Raises:
      OSError: the file cannot be created.
    """
    if is_remote(path):
        yield False
        return
    held = f'{path}.lock'
    descriptor = os.open(held, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            is_locked = flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, held)
        except BlockingIOError:
            tf.logging.info('Waiting for another process to finish with %s.', path)
            is_locked = flock(descriptor, fcntl.LOCK_EX, held)
        if not is_locked:
            _warn_of_no_locks(os.path.dirname(path))
        yield is_locked
    finally:
        os.close(descriptor)


def flock(descriptor: int, operation: int, path: str) -> bool:
    """Locks an open file; returns whether its file system has locks; with LOCK_NB, raises BlockingIOError if it is held.

    Other errors name the path.
    """
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise OSError(error.errno, error.strerror, path) from None
        return False
    return True


def are_supported(directory: str) -> bool:
    """Whether the file system of a directory, which can be written, has locks."""
    if is_remote(directory):
        return False
    with tempfile.TemporaryFile(dir=directory) as file:
        return flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB, directory)


@functools.cache  # Once for each directory.
def _warn_of_no_locks(directory):
    tf.logging.warning('%s: the file system does not support locks: only one process may use it at a time.', directory)
