"""TFRecord files and their manifest."""

import concurrent.futures
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import manifest, records, tfrecord
from common.errors import RunError
from tests.shared import ROOT
from tests.tfrecords import record
from tools.soak import wrong_modules

PICTURES = """
import os
from PIL import Image
from common.data import records


class Images:
    def __init__(self, directory):
        self._directory = directory

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return {'image': Image.open(f'{self._directory}/{i}.png').tobytes()}


def prepare(data_dir, params):
    os.makedirs(data_dir)
    for i in range(6):
        Image.new('L', [2, 2]).save(f'{data_dir}/{i}.png')
    with open(f'{data_dir}/3.png', 'w') as file:
        file.write('<html>')
    records.write(f'{data_dir}/images', {'train': [], 'eval': Images(data_dir)})
"""


class Lazy:
    """A sequence that makes its items as they are asked for."""

    def __init__(self, count, example_at):
        self._count, self._example_at = count, example_at

    def __len__(self):
        return self._count

    def __getitem__(self, i):
        return self._example_at(i)


def values(dataset):
    with tf.Graph().as_default(), tf.Session() as session:
        element = tf.data.make_one_shot_iterator(dataset()).get_next()
        found = []
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


def read_ids(directory, split='train'):
    examples = [tf.train.Example.FromString(record) for record in values(lambda: records.read(directory, split))]
    return [example.features.feature['id'].int64_list.value[0] for example in examples]


def write(directory, count=10, **others):
    records.write(directory, {'train': [{'id': i} for i in range(count)], **others})


def test_encode_gives_what_parse_example_reads(session):
    array = np.array([[1.5, 2], [3, 4]])
    serialized = records.encode(
        {
            'bytes': b'\0\xff',
            'text': 'ä',
            'int': -3,
            'float': 0.5,
            'flag': True,
            'array': array,
            'ints': np.uint8([1, 255]),
            'empty': np.zeros([0]),
        }
    )
    parsed = session.run(
        tf.io.parse_single_example(
            serialized,
            {
                'bytes': tf.io.FixedLenFeature([], tf.string),
                'text': tf.io.FixedLenFeature([], tf.string),
                'int': tf.io.FixedLenFeature([], tf.int64),
                'float': tf.io.FixedLenFeature([], tf.float32),
                'flag': tf.io.FixedLenFeature([], tf.int64),
                'array': tf.io.FixedLenFeature([2, 2], tf.float32),
                'ints': tf.io.FixedLenFeature([2], tf.int64),
                'empty': tf.io.FixedLenFeature([0], tf.float32),
            },
        )
    )
    assert (parsed['bytes'], parsed['text'].decode(), parsed['int'], parsed['float'], parsed['flag']) == (
        b'\0\xff',
        'ä',
        -3,
        0.5,
        1,
    )
    np.testing.assert_array_equal(parsed['array'], array)
    assert list(parsed['ints']) == [1, 255]
    assert parsed['empty'].size == 0


def test_encode_refuses_what_an_example_cannot_hold():
    with pytest.raises(TypeError, match='when: cannot store complex'):
        records.encode({'when': 1j})


@pytest.mark.parametrize('count', [0, 1, 4, 10, 11])
def test_read_gives_what_was_written_in_order(tmp_path, count):
    write(str(tmp_path), count)
    assert read_ids(str(tmp_path)) == list(range(count))
    assert records.read(str(tmp_path), 'train').cardinality() == count


def test_files_are_named_and_described_by_the_manifest(tmp_path):
    write(str(tmp_path), 10, eval=[{'id': 100}, {'id': 101}, {'id': 102}])
    manifest = json.loads((tmp_path / 'manifest.json').read_text())['splits']
    assert manifest['train']['count'] == 10 and manifest['eval']['count'] == 3
    assert [file['name'] for file in manifest['train']['files']] == [f'train-0000{i}-of-00004.tfrecord' for i in range(4)]
    assert [file['count'] for file in manifest['train']['files']] == [3, 3, 2, 2]
    for split in manifest.values():
        for file in split['files']:
            content = (tmp_path / file['name']).read_bytes()
            assert file['bytes'] == len(content)
            assert file['sha256'] == hashlib.sha256(content).hexdigest()
    assert len(list(tmp_path.glob('*.tfrecord'))) == 8 and not list(tmp_path.glob('*.part'))
    assert read_ids(str(tmp_path), 'eval') == [100, 101, 102]


def test_shards_are_written_at_the_same_time(tmp_path):
    both = threading.Barrier(2, timeout=30)

    def example_at(i):
        both.wait()  # Would time out if one shard waited for the other.
        return {'id': i}

    records.write(str(tmp_path), {'train': Lazy(2, example_at)}, num_shards=2)
    assert read_ids(str(tmp_path)) == [0, 1]


def test_a_writer_that_fails_is_heard_and_leaves_nothing_that_counts(tmp_path):
    def example_at(i):
        if i == 7:
            raise ValueError('example 7 is bad')
        return {'id': i}

    with pytest.raises(
        RunError,
        match=re.escape(f'{tmp_path}: example 7 of the split train cannot be made: ValueError: example 7 is bad ')
        + r'\(.*test_records\.py, line \d+\)$',
    ):
        records.write(str(tmp_path), {'train': Lazy(10, example_at)})
    assert not records.is_written(str(tmp_path))
    assert not list(tmp_path.glob('*.part'))
    write(str(tmp_path))
    assert records.is_written(str(tmp_path))
    assert read_ids(str(tmp_path)) == list(range(10))


def test_a_picture_that_cannot_be_read_ends_prepare_with_its_number_and_the_line_in_the_dataset():
    code, err, path = wrong_modules.run(PICTURES)
    assert code == 1
    directory = path.partition('/wrong_')[0]
    assert re.fullmatch(
        f'trainer.py: {directory}/data/images: example 3 of the split eval cannot be made: PIL.UnidentifiedImageError: '
        rf"cannot identify image file '{directory}/data/3.png' \({path}, line \d+\)\n",
        err,
    )


def test_a_value_that_no_example_can_hold_is_reported_with_its_example(tmp_path):
    with pytest.raises(RunError, match=r'example 1 of the split train cannot be made: TypeError: x: cannot store object in a '):
        records.write(str(tmp_path), {'train': [{'x': 1}, {'x': object()}]})
    assert not records.is_written(str(tmp_path))


def test_an_error_does_not_wait_for_the_other_writers(tmp_path):
    def example_at(i):
        if i == 1:
            raise KeyboardInterrupt
        time.sleep(0.01)
        return {'id': i}

    started = time.time()
    with pytest.raises(KeyboardInterrupt):
        records.write(str(tmp_path), {'train': Lazy(100000, example_at)})
    assert time.time() - started < 30  # Without the stop, 250 seconds.


def test_two_writers_at_once_leave_the_data_whole(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: write(str(tmp_path), 1000), range(4)))
    assert read_ids(str(tmp_path)) == list(range(1000))
    assert len(list(tmp_path.glob('*.tfrecord'))) == 4 and not list(tmp_path.glob('*.part'))


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(RunError, match=f'{tmp_path}/file/mnist: cannot be written.*--data_dir'):
        write(str(tmp_path / 'file' / 'mnist'))


def missing(path):
    path.unlink()


def short(path):
    path.write_bytes(path.read_bytes()[:-1])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    'damage, message',
    [
        (missing, 'is missing'),
        (short, 'the record at byte 31 is corrupt: it is longer'),
        (flipped, 'the record at byte 31 is corrupt: its checksum'),
    ],
)
def test_a_file_that_is_not_as_written_is_named(tmp_path, damage, message):
    write(str(tmp_path))
    damage(tmp_path / 'train-00002-of-00004.tfrecord')
    with pytest.raises(RunError, match=f'{tmp_path}/train-00002-of-00004.tfrecord: {message}.*: delete {tmp_path} to convert'):
        records.read(str(tmp_path), 'train')


def test_a_file_is_read_through_once_and_again_when_it_has_changed(tmp_path, monkeypatch):
    scanned = []
    scan = tfrecord.scan
    monkeypatch.setattr(tfrecord, 'scan', lambda path: scanned.append(path) or scan(path))
    write(str(tmp_path))
    scanned.clear()
    records.read(str(tmp_path), 'train')
    records.read(str(tmp_path), 'train')
    assert sorted(scanned) == [f'{tmp_path}/train-0000{i}-of-00004.tfrecord' for i in range(4)]
    path = tmp_path / 'train-00000-of-00004.tfrecord'
    flipped(path)
    with pytest.raises(RunError, match='train-00000-of-00004.tfrecord: the record at byte'):
        records.read(str(tmp_path), 'train')


def test_a_file_that_changed_unnoticed_is_checked_again_on_demand(tmp_path):
    write(str(tmp_path))
    records.read(str(tmp_path), 'train')
    path = tmp_path / 'train-00000-of-00004.tfrecord'
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    flipped(path)
    os.utime(path, ns=times)
    records.read(str(tmp_path), 'train')
    manifest.clear_cache()
    with pytest.raises(RunError, match='train-00000-of-00004.tfrecord: the record at byte'):
        records.read(str(tmp_path), 'train')


@pytest.mark.parametrize(
    'manifest',
    [
        '',
        '{',
        '[]',
        '{}',
        '{"splits": {"train": 1}}',
        '{"splits": {}}',
        '{"splits": []}',
        '{"splits": {"train": {"count": 0}}}',
        '{"splits": {"train": {"count": 2, "files": [{"name": "a", "count": 1, "bytes": 16, "sha256": "0"}]}}}',
        '{"splits": {"train": {"count": 1.5, "files": [{"name": "a", "count": 1.5, "bytes": 16, "sha256": "0"}]}}}',
        '{"splits": {"train": {"count": -1, "files": [{"name": "a", "count": -1, "bytes": 16, "sha256": "0"}]}}}',
        '{"splits": {"train": {"count": 1, "files": [{"name": "../a", "count": 1, "bytes": 16, "sha256": "0"}]}}}',
        '{"splits": {"train": {"count": 1, "files": [{"name": "", "count": 1, "bytes": 16, "sha256": "0"}]}}}',
        '{"splits": {"train": {"count": 1, "files": [{"name": "a", "count": 1, "bytes": 16, "sha256": "0", "crc32": 5}]}}}',
        '{"splits": {"train": {"count": 1, "files": [{"name": "a", "count": 1, "bytes": 16, "sha256": "0", "crc32": ["5"]}]}}}',
        '{"splits": {"train": {"count": 2, "files": [{"name": "a", "count": 1, "bytes": 16, "sha256": "0"},'
        ' {"name": "a", "count": 1, "bytes": 16, "sha256": "0"}]}}}',
        '{"splits":' * 100000,
        '{"splits": {"train": {"count": 1, "files": [{"name": 1, "count": 1, "bytes": 16, "sha256": "0"}]}}}',
    ],
)
def test_a_manifest_that_says_nothing_is_named(tmp_path, manifest):
    (tmp_path / 'manifest.json').write_text(manifest)
    with pytest.raises(RunError, match='manifest.json: .*delete'):
        records.read(str(tmp_path), 'train')


def test_a_record_is_found_again_in_its_file(tmp_path):
    manifest.clear_cache()  # Of what other tests have read.
    records.write(str(tmp_path), {'train': [{'name': f'record {i} of this test'} for i in range(6)]}, num_shards=2)
    records.read(str(tmp_path), 'train')
    size = os.path.getsize(tmp_path / 'train-00001-of-00002.tfrecord') // 3
    assert manifest.locate_record(records.encode({'name': 'record 5 of this test'})) == (
        f'{tmp_path}/train-00001-of-00002.tfrecord: record 2, at byte {2 * size}'
    )
    assert manifest.locate_record(b'another') is None


@pytest.fixture
def command(capsys):
    """Calls the module's main: command('verify', DIRECTORY) -> (exit code, lines of stdout, lines of stderr)."""

    def call(*arguments):
        code = records.main(['records', *arguments])
        return code, *(text.splitlines() for text in capsys.readouterr())

    return call


def test_records_can_be_verified_from_the_command_line(tmp_path):
    write(str(tmp_path))
    command_line = [sys.executable, '-m', 'common.data.records', 'verify', str(tmp_path)]
    process = subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0 and process.stderr == ''
    assert process.stdout.splitlines()[0] == f'{tmp_path}/train-00000-of-00004.tfrecord: as written'


def test_verify_says_of_each_file_whether_it_is_as_written(command, tmp_path):
    write(str(tmp_path), eval=[{'id': 0}])
    assert command('verify', str(tmp_path)) == (
        0,
        [f'{tmp_path}/{split}-0000{i}-of-00004.tfrecord: as written' for split in ('train', 'eval') for i in range(4)],
        [],
    )
    flipped(tmp_path / 'train-00001-of-00004.tfrecord')
    missing(tmp_path / 'eval-00000-of-00004.tfrecord')
    code, out, err = command('verify', str(tmp_path))
    assert (code, err) == (1, [f'records: {tmp_path}: 2 of 8 files are corrupt'])
    assert out[1] == f'{tmp_path}/train-00001-of-00004.tfrecord: the record at byte 62 is corrupt: its checksum is wrong'
    assert out[4] == f'{tmp_path}/eval-00000-of-00004.tfrecord: is missing'
    assert sum(line.endswith(': as written') for line in out) == 6
    (tmp_path / 'manifest.json').unlink()
    code, out, _ = command('verify', str(tmp_path))
    assert code == 1 and len(out) == 7 and sum(line.endswith(': intact') for line in out) == 6


def test_show_counts_the_records_and_tells_their_features(command, tmp_path):
    examples = [
        {'id': i, 'text': f'number {i}', 'image': bytes(100), 'values': [0.5] * i, **({'odd': 1} if i % 2 else {})}
        for i in range(12)
    ]
    records.write(str(tmp_path), {'train': examples}, num_shards=1)
    path = f'{tmp_path}/train-00000-of-00001.tfrecord'
    code, out, err = command('show', path)
    assert (code, err) == (0, [])
    assert out[0] == f'{path}: 12 records, {os.path.getsize(path)} bytes'
    assert out[1:6] == [
        '  id: int64, values: 1',
        '  image: bytes, values: 1',
        '  odd: int64, values: 1, missing in 6 of 12',
        '  text: bytes, values: 1',
        '  values: float, values: 0 to 11',
    ]
    assert out[6] == "record 0, at byte 0: id=0, image=<100 bytes>, text='number 0', values="
    assert re.fullmatch(r"record 2, at byte \d+: id=2, image=<100 bytes>, text='number 2', values=0.5 0.5", out[8])
    assert len(out) == 9


@pytest.mark.parametrize(
    'arguments, code, message',
    [
        ([], 2, 'records: give verify and a directory, or show and a file'),
        (['shwo', 'x'], 2, 'records: give verify and a directory, or show and a file'),
        (['show', '{tmp}/none'], 2, 'records: {tmp}/none: cannot be read'),
        (['verify', '{tmp}'], 2, 'records: {tmp}: contains neither manifest.json nor *.tfrecord files'),
        (['verify', '{tmp}/none'], 2, 'records: {tmp}/none: is not a directory'),
        (['show', '\udce4'], 2, 'records: \udce4: is not UTF-8'),
        (['show', 'a\nb'], 2, 'records: a b: cannot be read'),
        (['show', '{tmp}/text'], 1, 'records: {tmp}/text: the record at byte 0 is corrupt'),
        (['show', '{tmp}/bytes'], 1, 'records: {tmp}/bytes: contains records other than tf.train.Example'),
    ],
)
def test_wrong_usage_and_other_files_are_one_line(tmp_path, monkeypatch, arguments, code, message):
    (tmp_path / 'text').write_text('no records at all')
    (tmp_path / 'bytes').write_bytes(record(b'\xff\xff\xff'))
    monkeypatch.setattr(sys, 'stderr', io.StringIO())
    assert records.main(['records', *(argument.format(tmp=tmp_path) for argument in arguments)]) == code
    err = sys.stderr.getvalue().splitlines()
    assert len(err) == 1 and err[0].startswith(message.format(tmp=tmp_path))


def test_a_manifest_whose_counts_are_others_is_noticed(tmp_path):
    write(str(tmp_path))
    path = tmp_path / 'manifest.json'
    path.write_text(path.read_text().replace('"count": 10', '"count": 11', 1).replace('"count": 3', '"count": 4', 1))
    with pytest.raises(RunError, match='train-00000-of-00004.tfrecord: 4 records were written, but the file has 3: delete'):
        records.read(str(tmp_path), 'train')


def test_names_of_features_do_not_reach_the_terminal_as_they_are(command, tmp_path):
    records.write(str(tmp_path), {'train': [{'a\n\x1b[31m': 1}]}, num_shards=1)
    assert command('show', f'{tmp_path}/train-00000-of-00001.tfrecord')[1][1:] == [
        r"  'a\n\x1b[31m': int64, values: 1",
        r"record 0, at byte 0: 'a\n\x1b[31m'=1",
    ]
