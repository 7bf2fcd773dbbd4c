"""TFRecord files and their manifest: conversion, verification, reading, and inspection from the command line."""

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import sys
import threading
import time
from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import records as command_line
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.processes import SCRIPT
from estimator_trainer.common.records import conversion, groups, manifest, records, shards, tfrecord, verified
from estimator_trainer.common.records.elements import elements
from tests import forked
from tests.shared import DAMAGES
from tests.tfrecords import record


class Lazy:
    """A sequence that creates its items on access."""

    def __init__(self, count, example_at):
        self._count, self._example_at = count, example_at

    def __len__(self):
        return self._count

    def __getitem__(self, i):
        return self._example_at(i)


def read_ids(directory, split='train'):
    examples = map(tf.train.Example.FromString, elements(lambda: records.read(str(directory), split)))
    return [example.features.feature['id'].int64_list.value[0] for example in examples]


def examples(count):
    return [{'id': i} for i in range(count)]


def write(directory, train=None, others=None, **options):
    records.write(str(directory), {'train': examples(10) if train is None else train, **(others or {})}, **options)


def test_an_example_stores_bytes_int64_and_float():
    stored = {
        'bytes': [(b'\0\xff', [b'\0\xff']), ('ä', ['ä'.encode()])],
        'int64': [(-3, [-3]), (True, [1]), (np.uint8([1, 255]), [1, 255]), (np.bool_([False, True]), [0, 1])],
        'float': [(0.5, [0.5]), (np.array([[1.5, 2], [3, 4]]), [1.5, 2, 3, 4]), (np.zeros([0]), [])],
    }
    for kind, value, expected in ((kind, *row) for kind, rows in stored.items() for row in rows):
        encoded = records.encode({'name': value})
        feature = tf.train.Example.FromString(encoded).features.feature['name']
        assert list(getattr(feature, f'{kind}_list').value) == expected
        decoded = {name: (kind, list(values)) for name, (kind, values) in records.decode(encoded).items()}
        assert decoded == ({'name': (kind, expected)} if feature.WhichOneof('kind') else {})


def test_floats_that_float32_rounds_to_a_finite_number_are_stored():
    least = 2.0**128 - 2.0**103
    for value in (3.4028235e38, -np.nextafter(least, 0)):
        for given in (float(value), [value]):
            ((_, stored),) = records.decode(records.encode({'x': given})).values()
            assert [*stored] == [np.float32(value)] and np.isfinite(stored).all()
    for given in (least, [-least]):
        with pytest.raises(ValueError, match='x: -?3.40282e.38 is too large'):
            records.encode({'x': given})


def test_the_same_example_has_the_same_bytes_however_others_have_ordered_its_features():
    first, second = (records.encode({name: 1})[2:] for name in 'ab')  # Without the tag and the length of all features.
    both = b'\n' + bytes([len(first) + len(second)])
    assert both + first + second == records.encode({'a': 1, 'b': 1}) == records.encode(both + second + first)
    for other in (b'\xff no example', b'\n\0\n\0\n\0'):  # The second could be parsed, as three empty ones.
        assert records.encode(other) == other


def test_files_are_described_by_the_manifest_and_read_in_the_order_in_which_records_were_given(tmp_path):
    write(tmp_path, others={'eval': [{'id': 100}, {'id': 101}, {'id': 102}], 'empty': []})
    splits = json.loads((tmp_path / 'manifest.json').read_text())['splits']
    assert [splits[split]['count'] for split in ('train', 'eval', 'empty')] == [10, 3, 0]
    assert [file['name'] for file in splits['train']['files']] == [f'train-0000{i}-of-00004.tfrecord' for i in range(4)]
    assert [file['count'] for file in splits['train']['files']] == [3, 3, 2, 2]
    assert len(list(tmp_path.glob('*.tfrecord'))) == 12 and not list(tmp_path.glob('*.part'))
    found = [read_ids(tmp_path, split) for split in ('train', 'eval', 'empty')]
    assert found == [list(range(10)), [100, 101, 102], []]
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(records.read(str(tmp_path), 'train').cardinality()) == 10


def test_an_example_that_cannot_be_made_is_named_and_leaves_nothing_that_counts(tmp_path):
    def example_at(i):
        if i == 7:
            raise ValueError('example 7 is bad')
        return {'id': i}

    bad = 'example 7 of the split train cannot be created: ValueError: example 7 is bad '
    for examples, message in [
        (Lazy(10, example_at), rf'{bad}\(.*test_records\.py, line \d+\)$'),
        (map(example_at, range(10)), bad),
        ([{'x': 1}, {'x': 1j}], 'example 1 of the split train cannot be created: TypeError: x: cannot store complex'),
        (
            [{'x': [1]}, {'x': [2**63]}],
            'example 1 of the split train cannot be created: ValueError: x: 9.22337e.18 is too large',
        ),
        ([{'x': [1.0, -1e39]}], 'example 0 of the split train cannot be created: ValueError: x: -1e.39 is too large for'),
        ([{'x': 1e39}], 'example 0 of the split train cannot be created: ValueError: x: 1e.39 is too large for'),
    ]:
        with pytest.raises(RunError, match=f'^{tmp_path}: {message}'):
            records.write(str(tmp_path), {'train': examples})
    assert not records.is_written(str(tmp_path)) and not list(tmp_path.glob('*.part'))
    write(tmp_path)
    assert records.is_written(str(tmp_path)) and read_ids(tmp_path) == list(range(10))


def test_a_directory_that_cannot_be_written_and_a_manifest_that_does_not_describe_files_are_named(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(RunError, match=f'{tmp_path}/file/mnist: cannot be written.*--data_dir'):
        write(tmp_path / 'file' / 'mnist')
    file = {'name': 'a', 'count': 1, 'bytes': 16, 'sha256': '0'}
    files = [{'name': '../a'}, {'name': ''}, {'name': 1}, {'sha256': 5}, {'crc32': 5}, {'crc32': ['5']}, {'bytes': True}]
    files += [{'index': {'every': every, 'offsets': [offset]}} for every, offset in ((0, 0), (-1, 0), (1, -1))]
    splits = [1, {'count': 0}, {'count': 2, 'files': [file]}, {'count': 2, 'files': [file, file]}, {'count': 0, 'files': []}]
    splits += [{'count': 1, 'files': [file], 'interleaved': number} for number in (0, 2, 0.5)]
    splits += [{'count': count, 'files': [{**file, 'count': count}]} for count in (1.5, -1)]
    splits += [{'count': 1, 'files': [{**file, **changes}]} for changes in files]
    contents = ['', '{', '[]', '{}', '{"splits":' * 100000, '{"splits": []}', '{"splits": {}}']
    for content in [*contents, *(json.dumps({'splits': {'train': split}}) for split in splits)]:
        (tmp_path / 'manifest.json').write_text(content)
        with pytest.raises(RunError, match='manifest.json: .*delete'):
            pytest.fail(f'{content[:80]}: {records.read(str(tmp_path), "train")}')


def test_a_record_is_found_again_in_its_file(tmp_path):
    manifest.clear_cache()  # Of what other tests have read.
    records.write(str(tmp_path), {'train': [{'name': f'record {i} of this test'} for i in range(6)]}, num_shards=2)
    records.read(str(tmp_path), 'train')
    path = f'{tmp_path}/train-00001-of-00002.tfrecord'
    found = manifest.locate_record(records.encode({'name': 'record 5 of this test'}))
    assert found == f'{path}: record 2, at byte {2 * os.path.getsize(path) // 3}'
    assert manifest.locate_record(b'another') is None


def command(*arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = command_line.main(['records', *map(str, arguments)])
    return code, out.getvalue().splitlines(), err.getvalue().splitlines()


def test_verify_reports_for_each_file_whether_it_is_as_written(tmp_path):
    write(tmp_path, others={'eval': examples(1)})
    paths = [f'{tmp_path}/{split}-0000{i}-of-00004.tfrecord' for split in ('train', 'eval') for i in range(4)]
    lines = [f'{path}: as written' for path in paths]
    process = forked.run([sys.executable, SCRIPT, 'records', 'verify', tmp_path])
    assert (process.returncode, process.stdout.splitlines(), process.stderr) == (0, lines, '')
    DAMAGES['flipped'](tmp_path / 'train-00001-of-00004.tfrecord')
    (tmp_path / 'eval-00000-of-00004.tfrecord').unlink()
    lines[1], lines[4] = f'{paths[1]}: the record at byte 31 is corrupt: its checksum is wrong', f'{paths[4]}: is missing'
    assert command('verify', tmp_path) == (1, lines, [f'records: {tmp_path}: 2 of 8 files are corrupt'])
    (tmp_path / 'manifest.json').unlink()
    code, out, _ = command('verify', tmp_path)
    assert code == 1 and len(out) == 7 and sum(line.endswith(': intact') for line in out) == 6


def test_show_counts_the_records_and_tells_their_features(tmp_path):
    examples = [
        {'id': i, 'text': f'number {i}', 'image': bytes(100), 'values': [0.5] * i, **({'od\x1bd': 1} if i % 2 else {})}
        for i in range(12)
    ]
    records.write(str(tmp_path), {'train': examples}, num_shards=1)
    path = f'{tmp_path}/train-00000-of-00001.tfrecord'
    code, out, err = command('show', path)
    places = [re.search(r'at byte \d+', line)[0] for line in out[7:]]
    assert (code, err, len(set(places))) == (0, [], 2)
    assert out == [
        f'{path}: 12 records, {os.path.getsize(path)} bytes',
        '  id: int64, values: 1',
        '  image: bytes, values: 1',
        r"  'od\x1bd': int64, values: 1, missing in 6 of 12",
        '  text: bytes, values: 1',
        '  values: float, values: 0 to 11',
        "record 0, at byte 0: id=0, image=<100 bytes>, text='number 0', values=",
        rf"record 1, {places[0]}: id=1, image=<100 bytes>, 'od\x1bd'=1, text='number 1', values=0.5",
        f"record 2, {places[1]}: id=2, image=<100 bytes>, text='number 2', values=0.5 0.5",
    ]
    records.write(str(tmp_path), {'train': [{'values': list(range(9))}]}, num_shards=1)
    assert command('show', path)[1][2:] == ['record 0, at byte 0: values=0 1 2 3 4 5 6 7 ...']


def test_a_compressed_file_is_shown_and_verified_by_its_content(tmp_path):
    records.write(str(tmp_path), {'train': [{'id': 3}]}, num_shards=1)
    (tmp_path / 'manifest.json').unlink()
    path = tmp_path / 'train-00000-of-00001.tfrecord'
    plain = command('show', path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert command('show', path) == plain and plain[1][-1] == 'record 0, at byte 0: id=3'
    assert command('verify', tmp_path) == (0, [f'{path}: intact'], [])
    path = path.rename(f'{path}.gz')
    assert command('verify', tmp_path) == (0, [f'{path}: intact'], [])
    path.write_bytes(path.read_bytes()[:-9])
    ends = 'its compressed content ends early: restore it'
    assert command('verify', tmp_path)[1] == [f'{path}: {ends}'] and ends in command('show', path)[2][0]


def test_wrong_usage_and_other_files_are_one_line(tmp_path):
    (tmp_path / 'text').write_text('no records at all')
    (tmp_path / 'bytes').write_bytes(record(b'\xff\xff\xff'))
    for arguments, code, message in (
        ([], 2, 'give verify and a directory, or show and a file'),
        (['shwo', 'x'], 2, 'give verify and a directory, or show and a file'),
        (['show', tmp_path / 'none'], 2, f'{tmp_path}/none: cannot be read'),
        (['verify', tmp_path], 2, f'{tmp_path}: contains neither manifest.json nor *.tfrecord files'),
        (['verify', tmp_path / 'none'], 2, f'{tmp_path}/none: is not a directory'),
        (['show', '\udce4'], 2, r'\udce4: is not UTF-8'),
        (['show', tmp_path / 'text'], 1, f'{tmp_path}/text: the record at byte 0 is corrupt'),
        (['show', tmp_path / 'bytes'], 1, f'{tmp_path}/bytes: contains records other than tf.train.Example'),
    ):
        found, _, (line,) = command(*arguments)
        assert found == code and line.startswith(f'records: {message}')


def files(directory):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in directory.glob('*.tfrecord')}


@pytest.fixture
def several_cores(monkeypatch):
    """A file is written in a thread for each core, and these tests need more than one."""
    monkeypatch.setattr(os, 'cpu_count', lambda: 2)


@pytest.fixture
def shards_of_300_bytes(monkeypatch):
    monkeypatch.setattr(groups, 'SHARD_BYTES', 300)


def test_the_number_of_files_follows_from_the_size_of_the_examples(tmp_path, shards_of_300_bytes, monkeypatch):
    monkeypatch.setattr(conversion, 'MAX_SHARDS', 20)
    for count, num_files in ((10, 4), (60, 6), (1000, 20)):
        write(tmp_path, Lazy(count, lambda i: {'id': 5}))  # 31 bytes each, of which 16 are the record's.
        assert (len(files(tmp_path)), len(read_ids(tmp_path))) == (num_files, count)
    for count, num_groups in ((0, 1), (3, 1), (39, 1), (85, 3)):  # Of an iterable, which is written in one pass.
        example = {}  # The only one: each is written before the next is asked for.
        write(tmp_path, (example.update(id=5 + i % 100) or example for i in range(count)))
        assert read_ids(tmp_path) == [5 + i % 100 for i in range(count)]
        sizes = [path.stat().st_size for path in sorted(tmp_path.glob('*.tfrecord'))]
        assert len(sizes) == 4 * num_groups
        assert all(
            sum(sizes[i : i + 4]) == 39 * 31 for i in range(0, 4 * num_groups - 4, 4)
        )  # The first that are 4 * 300 or more.


def test_an_example_that_is_none_is_skipped_and_the_log_says_what_is_written_where(tmp_path, caplog):
    caplog.set_level('INFO', 'tensorflow')
    train = Lazy(2100, lambda i: {'id': i} if i % 4 else None)
    evaluated = (None if i in (0, 3) else {'id': i} for i in range(1009))
    records.write(str(tmp_path), {'train': train, 'eval': evaluated}, num_shards=1)
    assert read_ids(tmp_path) == [i for i in range(2100) if i % 4]
    assert read_ids(tmp_path, 'eval') == [1, 2, *range(4, 1009)]
    assert manifest.load(str(tmp_path), 'train')['count'] == 1575
    assert f'Writing {tmp_path}: train, 2,100 examples to 1 files; eval, in one pass.' in caplog.text
    assert f'{tmp_path}: 527 of 3109 examples were skipped.' in caplog.text
    assert re.search(rf'Wrote {tmp_path}: 2,582 examples, [\d.]+ KB, in 5 files; it took [\d.]+ s\.', caplog.text)


@pytest.mark.parametrize(
    'fingerprint, is_changed, made',
    [('v1', False, range(2, 40, 4)), ('v1', True, range(0, 40, 2)), ('v2', False, range(40)), (None, False, range(40))],
)
def test_files_of_an_interrupted_conversion_of_the_same_are_kept(
    tmp_path, caplog, several_cores, fingerprint, is_changed, made
):
    def example_at(i):
        if i == 38:  # After three of the four files are finished; example 4, in the first, is skipped.
            while not progress.exists() or len(json.loads(progress.read_text())['files']) < 3:
                time.sleep(0.01)
            raise KeyboardInterrupt
        return {'id': i} if i != 4 else None

    caplog.set_level('INFO', 'tensorflow')
    progress = tmp_path / 'manifest.partial.json'
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, Lazy(40, example_at), num_shards=4, fingerprint='v1')
    assert not records.is_written(str(tmp_path)) and len(files(tmp_path)) == 3
    if is_changed:
        path = min(tmp_path.glob('*.tfrecord'))
        path.write_bytes(path.read_bytes()[:-1])
    found, is_skipped, num_shards = [], 4 not in made, 4 if fingerprint == 'v1' else 5
    write(tmp_path, Lazy(40, lambda i: found.append(i) or {'id': i}), num_shards=num_shards, fingerprint=fingerprint)
    assert sorted(found) == list(made) and len(files(tmp_path)) == num_shards
    assert sorted(read_ids(tmp_path)) == [i for i in range(40) if i != 4 or not is_skipped]
    assert records.is_written(str(tmp_path), fingerprint) and not records.is_written(str(tmp_path), 'v3')
    assert not progress.exists()
    assert ('continuing a conversion that was interrupted' in caplog.text) == (fingerprint == 'v1')
    assert ('1 of 40 examples were skipped' in caplog.text) == is_skipped


def test_a_pass_over_an_iterable_resumes_after_an_interruption(tmp_path, shards_of_300_bytes, monkeypatch, caplog):
    def interrupted():
        yield None
        yield from examples(90)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, interrupted(), fingerprint='v1')
    before = files(tmp_path)
    encoded, encode = [], records.encode
    monkeypatch.setattr(records, 'encode', lambda features: encoded.append(features['id']) or encode(features))
    write(tmp_path, iter([None, *examples(120)]), fingerprint='v1')
    assert len(before) == 8 and before.items() <= files(tmp_path).items()
    assert read_ids(tmp_path) == list(range(120))
    assert encoded == list(range(encoded[0], 120)) and encoded[0] > 70
    assert '1 of 121 examples were skipped' in caplog.text


def test_several_splits_are_written_in_one_pass_in_lists_and_resume_after_an_interruption(tmp_path, shards_of_300_bytes):
    def lists(count):
        made = [records.encode(example) for example in examples(count)]
        for begin in range(0, count, 50):  # Lists that groups end within.
            block = made[begin : begin + 50]
            yield {'train': [record for i, record in enumerate(block, begin) if i % 5], 'eval': block[::5]}

    def interrupted():
        yield from lists(250)
        raise KeyboardInterrupt

    write(tmp_path / 'apart', examples(2), {'eval': (example for example in examples(300) if not example['id'] % 5)})
    with pytest.raises(KeyboardInterrupt):
        records.write(str(tmp_path / 'both'), {('train', 'eval'): interrupted()}, fingerprint='v1')
    before = files(tmp_path / 'both')
    records.write(str(tmp_path / 'both'), {('train', 'eval'): lists(300)}, fingerprint='v1')
    assert len(before) > 8 and before.items() <= files(tmp_path / 'both').items()
    assert read_ids(tmp_path / 'both') == [i for i in range(300) if i % 5]
    assert read_ids(tmp_path / 'both', 'eval') == [*range(0, 300, 5)]
    assert manifest.load(str(tmp_path / 'both'), 'eval') == manifest.load(str(tmp_path / 'apart'), 'eval')


def test_shards_are_written_in_parallel_but_a_second_process_waits_and_uses_the_result(tmp_path, caplog, several_cores):
    both = threading.Barrier(2, timeout=100)
    write(tmp_path / 'shards', Lazy(2, lambda i: both.wait() * 0 or {'id': i}), num_shards=2)
    assert read_ids(tmp_path / 'shards') == [0, 1]
    caplog.set_level('INFO', 'tensorflow')
    begun, made = threading.Event(), []

    def when_the_other_waits(i):
        begun.set()
        while 'Waiting for another process' not in caplog.text and not made:
            time.sleep(0.01)
        return {'id': i}

    first = threading.Thread(target=write, args=(tmp_path, Lazy(20, when_the_other_waits)))
    first.start()
    assert begun.wait(100)
    write(tmp_path, Lazy(20, lambda i: made.append(i) or {'id': i}))
    first.join()
    assert made == [] and read_ids(tmp_path) == list(range(20))
    late = str(tmp_path / 'late')
    assert not records.is_written(late)
    os.mkdir(late)  # By another process, while this one makes its examples.
    conversion.Conversion(late, records.encode, None).run({'train': examples(5)}, 1)
    write(late)
    assert read_ids(late) == list(range(5))
    write(late)
    assert read_ids(late) == list(range(10))


def test_files_of_an_earlier_conversion_and_of_one_that_was_killed_are_removed(tmp_path):
    for name in ('mine.part', 'mine.tfrecord', f'train-00000-of-00005.tfrecord.{"0" * 32}.part'):
        (tmp_path / name).write_text('')
    records.write(str(tmp_path), {'train': examples(40), 'eval': examples(3)}, num_shards=5)
    assert len(list(tmp_path.glob('*.tfrecord*'))) == 11
    write(tmp_path, examples(10), num_shards=2)
    assert sorted(files(tmp_path)) == ['mine.tfrecord', *(f'train-0000{i}-of-00002.tfrecord' for i in range(2))]
    assert (tmp_path / 'mine.part').exists()


NAMES = ['train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord']


@pytest.fixture
def directory(tmp_path):
    write(tmp_path, num_shards=2)
    return tmp_path


@pytest.fixture
def read(monkeypatch):
    """Reads as in a new process, or the same one; returns the names of the verified files."""
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
    with monkeypatch.context() as patch:  # As if the directory could not be written.
        patch.setattr(verified, 'write_json', mock.Mock(side_effect=PermissionError(13, 'Permission denied', 'path')))
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
    DAMAGES['flipped'](path)
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
    DAMAGES['flipped'](directory / NAMES[0])
    with pytest.raises(RunError, match=f'{directory}/{NAMES[0]}: the record at byte .*: restore it'):
        read(elsewhere)
    write(elsewhere)
    assert sorted(path.name for path in directory.iterdir()) == ['index', *NAMES]


def test_compressed_files_of_the_same_name_have_copies_of_their_own(tmp_path):
    files = {}
    for split, number in (('train', 1), ('eval', 2)):
        path = tmp_path / split / 'part.tfrecord.gz'
        path.parent.mkdir()
        path.write_bytes(gzip.compress(record(records.encode({'id': number}))))
        files[split] = [str(path)]
    records.index(str(tmp_path / 'index'), files)
    assert [read_ids(tmp_path / 'index', split) for split in files] == [[1], [2]]
