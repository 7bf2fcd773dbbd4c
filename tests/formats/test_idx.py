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
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ARGUMENTS = (SHA256, 'the file of the test', 'write it again')


@pytest.mark.parametrize('name, encode', [('file.gz', gzip.compress), ('file', bytes)])
def test_an_array_has_the_shape_and_numbers_of_the_file(tmp_path, name, encode):
    (tmp_path / name).write_bytes(encode(CONTENT))
    array = read_idx(str(tmp_path / name), *ARGUMENTS)
    assert array.dtype == np.uint8
    np.testing.assert_array_equal(array, (np.arange(1800) % 256).reshape(2, 3, 300))


def flipped(content):
    return content[:30] + bytes([content[30] ^ 0xFF]) + content[31:]


@pytest.mark.parametrize(
    'name, damage, message',
    [
        ('file.gz', lambda: gzip.compress(CONTENT)[:-9], 'cannot be read: .*; write it again'),
        ('file.gz', lambda: flipped(gzip.compress(CONTENT)), 'cannot be read: .*; write it again'),
        ('file.gz', lambda: CONTENT, 'cannot be read: Not a gzipped file .*; write it again'),
        ('file.gz', lambda: gzip.compress(flipped(CONTENT)), 'is not the file of the test .SHA-256 differs.: write it again'),
        ('file', lambda: flipped(CONTENT), 'is not the file of the test .SHA-256 differs.: write it again'),
        ('file', lambda: b'', 'is not the file of the test .SHA-256 differs.: write it again'),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, damage, message):
    (tmp_path / name).write_bytes(damage())
    with pytest.raises(RunError, match=f'^{tmp_path}/{name}: {message}$'):
        read_idx(str(tmp_path / name), *ARGUMENTS)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RunError, match=f'^{tmp_path}/file: cannot be read: .*; write it again$'):
        read_idx(str(tmp_path / 'file'), *ARGUMENTS)
