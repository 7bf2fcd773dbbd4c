"""Small files, local or remote: written beside their place and renamed, so that they are whole or absent."""

import contextlib
import json
import uuid

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


def write_json(path, value):
    """Writes a value as indented JSON."""
    with replacing(path) as part, tf.io.gfile.GFile(part, 'w') as file:
        file.write(json.dumps(value, indent=2) + '\n')


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
