"""Files are verified once, also by later processes, until they change."""

import json
import os
import shutil

import pytest
import tensorflow.compat.v1 as tf

from common.data import manifest, records, remembered, shards, tfrecord
from common.data.elements import elements
from common.errors import RunError
from tests.data.test_records import flip_last_byte, write

NAMES = ['train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord']


@pytest.fixture
def directory(tmp_path):
    records.write(str(tmp_path), {'train': [{'id': i} for i in range(10)]}, num_shards=2)
    return tmp_path


@pytest.fixture
def read(monkeypatch):
    """Reads as a new process does, if it is one; returns the names of the files that were read through."""
    scanned, scan = [], tfrecord.scan
    monkeypatch.setattr(tfrecord, 'scan', lambda path: scanned.append(os.path.basename(path)) or scan(path))

    def call(directory, verify_data=False, is_new=True):
        if is_new:
            manifest.clear_cache(trusts=not verify_data)
        scanned.clear()
        records.read(str(directory), 'train')
        return sorted(scanned)

    return call


def flip_unnoticed(path):
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    flip_last_byte(path)
    os.utime(path, ns=times)


def test_each_file_is_verified_once_and_again_with_verify_data(directory, read):
    assert read(directory, verify_data=True) == NAMES
    assert read(directory, is_new=False) == []
    assert read(directory) == []
    assert read(directory, verify_data=True) == NAMES


@pytest.mark.parametrize('is_new', [True, False])
@pytest.mark.parametrize(
    'touch',
    [
        lambda path: os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1)),
        lambda path: os.replace(shutil.copy2(path, f'{path}.copy'), path),
    ],
    ids=['time', 'inode'],
)
def test_a_file_that_may_have_changed_is_verified_again(directory, read, touch, is_new):
    read(directory)
    touch(directory / NAMES[1])
    assert read(directory, is_new=is_new) == NAMES[1:]
    assert read(directory, is_new=is_new) == []


def test_a_file_whose_entry_in_the_manifest_changes_is_verified_again(directory, read):
    read(directory)
    content = json.loads((directory / 'manifest.json').read_text())
    content['splits']['train']['files'][0]['sha256'] = '0'
    (directory / 'manifest.json').write_text(json.dumps(content))
    with pytest.raises(RunError, match=f'{NAMES[0]}: is not what was written'):
        read(directory)


def test_a_change_that_keeps_size_time_and_inode_is_found_with_verify_data_and_then_not_trusted(directory, read):
    read(directory)
    flip_unnoticed(directory / NAMES[0])
    assert read(directory) == []
    for verify_data in (True, False):
        with pytest.raises(RunError, match=f'{NAMES[0]}: the record at byte'):
            read(directory, verify_data)


def test_the_command_verify_always_compares(directory, read):
    read(directory)
    flip_unnoticed(directory / NAMES[0])
    with pytest.raises(RunError, match='1 of 2 files are corrupt'):
        list(manifest.verify(str(directory)))
    with pytest.raises(RunError, match=f'{NAMES[0]}: the record at byte'):
        read(directory)


@pytest.mark.parametrize('content', ['', '{"train-00000-of-00002.tfrecord": 5}', '[]'])
def test_what_is_remembered_may_be_corrupt(directory, read, content):
    (directory / 'manifest.verified.json').write_text(content)
    assert read(directory) == NAMES
    assert read(directory) == []


def test_a_directory_that_cannot_be_written_is_verified_each_time(directory, read, monkeypatch):
    def refuse(path, value):
        raise PermissionError(13, 'Permission denied', path)

    monkeypatch.setattr(remembered, 'write_json', refuse)
    assert read(directory) == read(directory) == NAMES
    assert not (directory / 'manifest.verified.json').exists()


@pytest.fixture
def elsewhere(directory):
    """A directory with a manifest of files that lie in another, without one."""
    for name in ('manifest.json', 'conversion.lock'):
        (directory / name).unlink()
    manifest.clear_cache()
    records.index(str(directory / 'index'), {'train': [str(directory / name) for name in NAMES]})
    return directory / 'index'


def test_files_elsewhere_are_described_once_and_read_file_by_file(elsewhere, read):
    assert sorted(path.name for path in elsewhere.parent.iterdir()) == ['index', *NAMES]  # Nothing is written there.
    assert read(elsewhere, is_new=False) == read(elsewhere) == []
    with tf.Graph().as_default():
        assert shards.find(records.read(str(elsewhere), 'train')).count == 10
    ids = [records.decode(record)['id'][1][0] for record in elements(lambda: records.read(str(elsewhere), 'train'))]
    assert ids == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]


def test_a_file_elsewhere_that_has_changed_is_to_be_restored_and_never_deleted(elsewhere, read):
    flip_last_byte(elsewhere.parent / NAMES[0])
    with pytest.raises(RunError, match=f'{elsewhere.parent}/{NAMES[0]}: the record at byte .*: restore it'):
        read(elsewhere)
    write(elsewhere)
    assert sorted(path.name for path in elsewhere.parent.iterdir()) == ['index', *NAMES]
