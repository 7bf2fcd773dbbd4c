"""Versions of exported models: directories whose names are numbers, of which TensorFlow Serving serves the highest."""

import os
import time

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import names_in


def next_version(export_dir: str) -> int:
    """Returns the time in seconds, or the highest version in a directory plus 1 if the clock is not past that."""
    versions = [int(name) for name in names_in(export_dir) if name.isascii() and name.isdecimal()]
    return max(int(time.time()), max(versions, default=0) + 1)


def publish(exported: str, export_dir: str) -> str:
    """Moves a complete export, a directory elsewhere on the same file system, to the next version; returns its path."""
    path = os.path.join(export_dir, str(next_version(export_dir)))
    tf.io.gfile.rename(exported, path)
    return path
