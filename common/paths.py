"""Paths, local or on one of TensorFlow's remote file systems."""

import os
import re

import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError


def is_remote(path: str) -> bool:
    """Whether a path is on one of TensorFlow's remote file systems, such as gs://, which have no locks."""
    return '://' in path


def resolve(directory: str, name: str) -> str:
    """Returns the path of a file that is named relative to a directory, or by a path of its own."""
    return name if is_remote(name) else os.path.join(directory, name)


def identify(directory: str) -> tuple[int, int] | None:
    """Returns the device and inode of a local directory; None if it does not exist or is remote."""
    try:
        stat = None if is_remote(directory) else os.stat(directory)
    except OSError:
        return None
    return stat and (stat.st_dev, stat.st_ino)


def stamp(path: str) -> tuple[int, int, int]:
    """Returns the size of a file, the time of its last change in ns, and its inode; 0 for the inode of a remote file.

    Raises:
      OSError, tf.errors.OpError: there is no such file.
    """
    if is_remote(path):
        found = tf.io.gfile.stat(path)
        return found.length, found.mtime_nsec, 0
    stat = os.stat(path)  # TensorFlow's has the time in seconds.
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


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
