"""IDX files, gzipped and not, and what is wrong with them."""

import gzip
import hashlib
import struct

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest

from common.errors import RunError
from common.formats.idx import read_idx

CONTENT = bytes([0, 0, 8, 3]) + struct.pack('>3i', 2, 3, 300) + bytes(i % 256 for i in range(1800))
ARGUMENTS = (hashlib.sha256(CONTENT).hexdigest(), 'the file of the test', 'write it again')


def flipped(content):
    return content[:30] + bytes([content[30] ^ 0xFF]) + content[31:]


def test_an_array_has_the_shape_and_numbers_of_the_file_and_a_damaged_or_missing_one_is_named(tmp_path):
    for name, content in (('file.gz', gzip.compress(CONTENT)), ('file', CONTENT)):
        (tmp_path / name).write_bytes(content)
        array = read_idx(str(tmp_path / name), *ARGUMENTS)
        assert array.dtype == np.uint8
        np.testing.assert_array_equal(array, (np.arange(1800) % 256).reshape(2, 3, 300))
    for name, content, message in (
        ('file.gz', flipped(gzip.compress(CONTENT)), 'cannot be read: .*'),
        ('file.gz', CONTENT, 'cannot be read: Not a gzipped file .*'),
        ('file.gz', gzip.compress(flipped(CONTENT)), 'is not the file of the test .SHA-256 differs.'),
        ('missing/file', None, 'cannot be read: .*'),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(RunError, match=f'^{tmp_path}/{name}: {message}[;:] write it again$'):
            read_idx(str(tmp_path / name), *ARGUMENTS)
