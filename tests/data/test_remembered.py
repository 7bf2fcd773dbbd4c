"""Files are verified once, also by later processes, until they change."""

import os
import re
import shutil

import pytest
import tensorflow.compat.v1 as tf

from common.data import manifest, records, remembered, shards, tfrecord
from common.errors import RunError
from tests.data.test_records import flip_last_byte, read_ids, write

NAMES = ['train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord']


@pytest.fixture
def directory(tmp_path):
    records.write(str(tmp_path), {'train': [{'id': i} for i in range(10)]}, num_shards=2)
    return tmp_path


@pytest.fixture
def read(monkeypatch):
    """Reads as a new process does, or the same one; returns the names of the files that were read through."""
    scanned, scan = [], tfrecord.scan
    monkeypatch.setattr(tfrecord, 'scan', lambda path: scanned.append(os.path.basename(path)) or scan(path))

    def call(directory, verify_data=False, is_new=True):
        if is_new:
            manifest.clear_cache(trusts=not verify_data)
        scanned.clear()
        records.read(str(directory), 'train')
        return sorted(scanned)

    return call


def test_each_file_is_verified_once_and_again_if_that_is_not_known(directory, read, monkeypatch):
    def refuse(path, value):
        raise PermissionError(13, 'Permission denied', path)

    with monkeypatch.context() as patch:  # As if the directory could not be written.
        patch.setattr(remembered, 'write_json', refuse)
        assert read(directory) == read(directory) == NAMES
    assert read(directory, verify_data=True) == NAMES
    assert read(directory, is_new=False) == read(directory) == []
    assert read(directory, verify_data=True) == NAMES
    for content in ('[]', f'{{"{NAMES[0]}": 5}}'):
        (directory / 'manifest.verified.json').write_text(content)
        assert [read(directory), read(directory)] == [NAMES, []]
    content = (directory / 'manifest.json').read_text()
    (directory / 'manifest.json').write_text(re.sub('"sha256": "[^"]*"', '"sha256": "0"', content, count=1))
    with pytest.raises(RunError, match=f'{NAMES[0]}: is not what was written'):
        read(directory)


@pytest.mark.parametrize('is_new', [True, False])
def test_a_file_that_may_have_changed_is_verified_again(directory, read, is_new):
    path = directory / NAMES[1]
    read(directory)
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    assert [read(directory, is_new=is_new) for _ in range(2)] == [NAMES[1:], []]
    os.replace(shutil.copy2(path, f'{path}.copy'), path)  # Another inode.
    assert [read(directory, is_new=is_new) for _ in range(2)] == [NAMES[1:], []]


@pytest.mark.parametrize('is_by_command', [True, False])
def test_a_change_of_the_bytes_alone_is_found_when_all_is_verified_and_not_trusted_later(directory, read, is_by_command):
    read(directory)
    path = directory / NAMES[0]
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    flip_last_byte(path)
    os.utime(path, ns=times)
    assert read(directory) == []
    with pytest.raises(RunError, match='1 of 2 files are corrupt' if is_by_command else f'{NAMES[0]}: the record at byte'):
        if is_by_command:
            list(manifest.verify(str(directory)))
        read(directory, verify_data=True)
    with pytest.raises(RunError, match=f'^{path}: the record at byte .*: delete {directory} to convert the data'):
        read(directory)


def test_files_elsewhere_are_described_once_read_file_by_file_and_never_changed(directory, read):
    for name in ('manifest.json', 'conversion.lock'):
        (directory / name).unlink()
    manifest.clear_cache()
    elsewhere = directory / 'index'
    records.index(str(elsewhere), {'train': [str(directory / name) for name in NAMES]})
    assert read(elsewhere, is_new=False) == read(elsewhere) == []
    with tf.Graph().as_default():
        assert shards.find(records.read(str(elsewhere), 'train')).count == 10
    assert read_ids(elsewhere) == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    flip_last_byte(directory / NAMES[0])
    with pytest.raises(RunError, match=f'{directory}/{NAMES[0]}: the record at byte .*: restore it'):
        read(elsewhere)
    write(elsewhere)
    assert sorted(path.name for path in directory.iterdir()) == ['index', *NAMES]
