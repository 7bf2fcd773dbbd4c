"""Versions of exported models: directories whose names are numbers, of which TensorFlow Serving serves the highest.

Other formats than a SavedModel are in VERSION-FORMAT beside it, which TensorFlow Serving ignores.
"""

from collections.abc import Mapping
import os
import re
import time

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import names_in

SAVED_MODEL = 'saved_model'


def next_version(export_dir: str) -> int:
    """Returns the time in seconds, or the highest version in a directory plus 1 if the clock is not past that."""
    found = (re.fullmatch(r'([0-9]+)(-onnx|-tflite)?', name) for name in names_in(export_dir))
    return max(int(time.time()), max((int(match[1]) for match in found if match), default=0) + 1)


def find(path: str) -> str | None:
    """Returns the directory of a SavedModel: a path itself, or the highest version in it; None if neither has one."""
    versions = sorted((int(name), name) for name in names_in(path) if name.isascii() and name.isdecimal())
    found = [path, *(os.path.join(path, name) for _, name in reversed(versions))]
    return next((directory for directory in found if tf.saved_model.contains_saved_model(directory)), None)


def publish(exported: Mapping[str, str], export_dir: str) -> dict[str, str]:
    """Moves a complete export to the next version, and returns its paths.

    Args:
      exported: {format: directory}, elsewhere on the same file system.
    """
    version = next_version(export_dir)
    paths = {kind: os.path.join(export_dir, f'{version}' if kind == SAVED_MODEL else f'{version}-{kind}') for kind in exported}
    for kind, path in exported.items():
        tf.io.gfile.rename(path, paths[kind])
    return paths
