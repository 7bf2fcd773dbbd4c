"""Versions of exported models: directories whose names are numbers, of which TensorFlow Serving serves the highest."""

import os
import time

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import names_in


def next_version(export_dir: str) -> int:
    """Returns the time in seconds, or the highest version in a directory plus 1 if the clock is not past that."""
    versions = [int(name) for name in names_in(export_dir) if name.isascii() and name.isdecimal()]
    return max(int(time.time()), max(versions, default=0) + 1)


def find(path: str) -> str | None:
    """Returns the directory of a SavedModel: a path itself, or the highest version in it; None if neither has one."""
    versions = sorted((int(name), name) for name in names_in(path) if name.isascii() and name.isdecimal())
    found = [path, *(os.path.join(path, name) for _, name in reversed(versions))]
    return next((directory for directory in found if tf.saved_model.contains_saved_model(directory)), None)


def publish(exported: str, export_dir: str) -> str:
    """Moves a complete export, a directory elsewhere on the same file system, to the next version; returns its path."""
    path = os.path.join(export_dir, str(next_version(export_dir)))
    tf.io.gfile.rename(exported, path)
    return path
