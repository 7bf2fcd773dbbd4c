"""Files of published datasets, verified by their SHA-256; among them IDX files, the format of MNIST and its relatives."""

import gzip
import hashlib
import zlib

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError


def read(path: str, sha256: str, fix: str, original: str = 'the file that was published') -> bytes:
    """Returns the uncompressed content of a file.

    Args:
      path: a local or remote file, gzipped if its name ends with .gz.
      sha256: of its uncompressed content, in hexadecimal.
      fix: the cure, for the message.
      original: the expected file, for the message.

    Raises:
      RunError: the file cannot be read, or its content has another SHA-256.
    """
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            content = file.read()
        if path.endswith('.gz'):
            content = gzip.decompress(content)
    except (tf.errors.OpError, OSError, EOFError, zlib.error) as error:
        raise RunError(f'{path}: cannot be read: {error}; {fix}') from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RunError(f'{path}: is not {original} (SHA-256 differs): {fix}')
    return content


def to_array(content: bytes) -> np.ndarray:
    """Returns the array of an IDX file: two zero bytes, the type (8, of uint8), the rank, big-endian dimensions, the data."""
    rank = content[3]
    shape = np.frombuffer(content, '>u4', count=rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)
