"""TensorFlow's file systems: which are supported, and what identifies a file on them."""

import os
import re

import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.paths import is_remote


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
