"""Small files, local or remote: written beside their place and renamed, so that they are whole or absent."""

import contextlib
import json
import uuid

import numpy as np
import tensorflow.compat.v1 as tf


@contextlib.contextmanager
def replacing(path):
    """Gives the path of a file to write, which takes the place of `path` once the block has ended without an error.

    The path is nobody else's, so that of several processes that write the same file each leaves it whole.
    """
    part = f'{path}.{uuid.uuid4().hex}.part'
    try:
        yield part
        tf.io.gfile.rename(part, path, overwrite=True)
    except BaseException:
        if tf.io.gfile.exists(part):
            tf.io.gfile.remove(part)
        raise


def write(path, content):
    """Writes a file of str, as UTF-8, or bytes."""
    with replacing(path) as part, tf.io.gfile.GFile(part, 'wb') as file:
        file.write(content)


def write_json(path, value):
    """Writes a value as indented JSON."""
    write(path, json.dumps(value, indent=2) + '\n')


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
    except ValueError as error:
        raise ValueError(f'{path}: is not JSON: {error}') from None
    if not isinstance(value, dict):
        raise ValueError(f'{path}: must hold one JSON object')
    return value


def to_json(value):
    """Returns a NumPy scalar or array as JSON can say it, floats to the six digits that float32 has."""
    if np.ndim(value):
        return [to_json(item) for item in value]
    item = value.item() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(item, bytes):
        return item.decode(errors='replace')
    return float(f'{item:.6g}') if isinstance(item, float) else item
