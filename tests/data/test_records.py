"""TFRecord files and their manifest: written, verified and read, and looked into from the command line."""

import contextlib
import io
import json
import os
import re
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import manifest, records
from common.data.elements import elements
from common.errors import RunError
from tests import forked
from tests.shared import ROOT
from tests.tfrecords import record


class Lazy:
    """A sequence that makes its items as they are asked for."""

    def __init__(self, count, example_at):
        self._count, self._example_at = count, example_at

    def __len__(self):
        return self._count

    def __getitem__(self, i):
        return self._example_at(i)


def read_ids(directory, split='train'):
    examples = map(tf.train.Example.FromString, elements(lambda: records.read(str(directory), split)))
    return [example.features.feature['id'].int64_list.value[0] for example in examples]


def write(directory, count=10, **others):
    records.write(str(directory), {'train': [{'id': i} for i in range(count)], **others})


def flip_last_byte(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


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


def test_files_are_described_by_the_manifest_and_read_in_the_order_in_which_records_were_given(tmp_path):
    write(tmp_path, 10, eval=[{'id': 100}, {'id': 101}, {'id': 102}], empty=[])
    splits = json.loads((tmp_path / 'manifest.json').read_text())['splits']
    assert [splits[split]['count'] for split in ('train', 'eval', 'empty')] == [10, 3, 0]
    assert [file['name'] for file in splits['train']['files']] == [f'train-0000{i}-of-00004.tfrecord' for i in range(4)]
    assert [file['count'] for file in splits['train']['files']] == [3, 3, 2, 2]
    assert len(list(tmp_path.glob('*.tfrecord'))) == 12 and not list(tmp_path.glob('*.part'))
    found = [read_ids(tmp_path, split) for split in ('train', 'eval', 'empty')]
    assert found == [list(range(10)), [100, 101, 102], []]
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(records.read(str(tmp_path), 'train').cardinality()) == 10


def test_shards_are_written_at_the_same_time(tmp_path):
    both = threading.Barrier(2, timeout=100)
    records.write(str(tmp_path), {'train': Lazy(2, lambda i: both.wait() * 0 or {'id': i})}, num_shards=2)
    assert read_ids(tmp_path) == [0, 1]


def test_an_example_that_cannot_be_made_is_named_and_leaves_nothing_that_counts(tmp_path):
    def example_at(i):
        if i == 7:
            raise ValueError('example 7 is bad')
        return {'id': i}

    bad = 'example 7 of the split train cannot be made: ValueError: example 7 is bad '
    for examples, message in [
        (Lazy(10, example_at), rf'{bad}\(.*test_records\.py, line \d+\)$'),
        (map(example_at, range(10)), bad),
        ([{'x': 1}, {'x': 1j}], 'example 1 of the split train cannot be made: TypeError: x: cannot store complex'),
    ]:
        with pytest.raises(RunError, match=f'^{tmp_path}: {message}'):
            records.write(str(tmp_path), {'train': examples})
    assert not records.is_written(str(tmp_path)) and not list(tmp_path.glob('*.part'))
    write(tmp_path)
    assert records.is_written(str(tmp_path)) and read_ids(tmp_path) == list(range(10))


def test_an_error_does_not_wait_for_the_other_writers(tmp_path):
    made = []

    def example_at(i):
        if i == 1:
            raise KeyboardInterrupt
        time.sleep(0.001)
        made.append(i)
        return {'id': i}

    with pytest.raises(KeyboardInterrupt):
        records.write(str(tmp_path), {'train': Lazy(100_000, example_at)}, num_shards=4)
    assert len(made) < 70_000  # Of 75,000 in the other shards.


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
        code = records.main(['records', *map(str, arguments)])
    return code, out.getvalue().splitlines(), err.getvalue().splitlines()


def test_verify_says_of_each_file_whether_it_is_as_written(tmp_path):
    write(tmp_path, eval=[{'id': 0}])
    paths = [f'{tmp_path}/{split}-0000{i}-of-00004.tfrecord' for split in ('train', 'eval') for i in range(4)]
    lines = [f'{path}: as written' for path in paths]
    process = forked.run([sys.executable, f'{ROOT}/common/data/records.py', 'verify', tmp_path])
    assert (process.returncode, process.stdout.splitlines(), process.stderr) == (0, lines, '')
    flip_last_byte(tmp_path / 'train-00001-of-00004.tfrecord')
    (tmp_path / 'eval-00000-of-00004.tfrecord').unlink()
    lines[1], lines[4] = f'{paths[1]}: the record at byte 62 is corrupt: its checksum is wrong', f'{paths[4]}: is missing'
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


def test_wrong_usage_and_other_files_are_one_line(tmp_path):
    (tmp_path / 'text').write_text('no records at all')
    (tmp_path / 'bytes').write_bytes(record(b'\xff\xff\xff'))
    for arguments, code, message in (
        ([], 2, 'give verify and a directory, or show and a file'),
        (['shwo', 'x'], 2, 'give verify and a directory, or show and a file'),
        (['show', tmp_path / 'none'], 2, f'{tmp_path}/none: cannot be read'),
        (['verify', tmp_path], 2, f'{tmp_path}: contains neither manifest.json nor *.tfrecord files'),
        (['verify', tmp_path / 'none'], 2, f'{tmp_path}/none: is not a directory'),
        (['show', '\udce4'], 2, '\udce4: is not UTF-8'),
        (['show', tmp_path / 'text'], 1, f'{tmp_path}/text: the record at byte 0 is corrupt'),
        (['show', tmp_path / 'bytes'], 1, f'{tmp_path}/bytes: contains records other than tf.train.Example'),
    ):
        found, _, (line,) = command(*arguments)
        assert found == code and line.startswith(f'records: {message}')
