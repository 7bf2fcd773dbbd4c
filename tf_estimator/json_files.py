"""JSON files that are whole or not there."""

import json
from typing import Any

import tensorflow.compat.v1 as tf


def write(path: str, value: Any) -> None:
    """Writes a value beside the file, and renames it."""
    with tf.io.gfile.GFile(f'{path}.new', 'w') as file:
        json.dump(value, file)
    tf.io.gfile.rename(f'{path}.new', path, overwrite=True)


def read(path: str) -> Any:
    """Returns the value; raises tf.errors.OpError or ValueError if it cannot be read."""
    with tf.io.gfile.GFile(path) as file:
        return json.load(file)
