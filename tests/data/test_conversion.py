"""Conversions: any number of examples, interrupted, continued, at the same time."""

import json
import re
import threading
import time

import pytest

from common.data import conversion, manifest, records
from tests.data.test_records import Lazy, read_ids


def examples(count):
    return [{'id': i} for i in range(count)]


def write(directory, train, **options):
    records.write(str(directory), {'train': train}, **options)


def files(directory):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in directory.glob('*.tfrecord')}


@pytest.fixture
def shards_of_300_bytes(monkeypatch):
    monkeypatch.setattr(conversion, 'SHARD_BYTES', 300)


def test_the_number_of_files_follows_from_the_size_of_the_examples(tmp_path, shards_of_300_bytes, monkeypatch):
    monkeypatch.setattr(conversion, 'MAX_SHARDS', 20)
    for count, shards in ((10, 4), (60, 6), (1000, 20)):
        write(tmp_path, Lazy(count, lambda i: {'id': 5}))  # 31 bytes each, of which 16 are the record's.
        assert (len(files(tmp_path)), len(read_ids(tmp_path))) == (shards, count)
    for count, groups in ((0, 1), (3, 1), (39, 1), (85, 3)):  # Of an iterable, which is written in one pass.
        write(tmp_path, ({'id': 5 + i % 100} for i in range(count)))
        assert read_ids(tmp_path) == [5 + i % 100 for i in range(count)]
        sizes = [path.stat().st_size for path in sorted(tmp_path.glob('*.tfrecord'))]
        assert len(sizes) == 4 * groups
        assert all(sum(sizes[i : i + 4]) == 39 * 31 for i in range(0, 4 * groups - 4, 4))  # The first that are 4 * 300 or more.


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


def test_no_more_than_one_example_of_an_iterable_is_held(tmp_path):
    class Example(dict):
        alive = 0

        def __init__(self, i):
            super().__init__(id=i)
            Example.alive += 1
            assert Example.alive <= 2

        def __del__(self):
            Example.alive -= 1

    write(tmp_path, map(Example, range(100)))


@pytest.mark.parametrize(
    'fingerprint, is_changed, made',
    [('v1', False, range(2, 40, 4)), ('v1', True, range(0, 40, 2)), ('v2', False, range(40)), (None, False, range(40))],
)
def test_files_of_an_interrupted_conversion_of_the_same_are_kept(tmp_path, caplog, fingerprint, is_changed, made):
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


def test_a_pass_over_an_iterable_goes_on_where_it_was_interrupted(tmp_path, shards_of_300_bytes, monkeypatch, caplog):
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


def test_a_process_that_waited_takes_what_the_other_wrote(tmp_path, caplog):
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


def test_files_of_an_earlier_conversion_and_of_one_that_was_killed_are_removed(tmp_path):
    for name in ('mine.tfrecord', f'train-00000-of-00005.tfrecord.{"0" * 32}.part'):
        (tmp_path / name).write_text('')
    records.write(str(tmp_path), {'train': examples(40), 'eval': examples(3)}, num_shards=5)
    assert len(list(tmp_path.glob('*.tfrecord*'))) == 11
    write(tmp_path, examples(10), num_shards=2)
    assert sorted(files(tmp_path)) == ['mine.tfrecord', *(f'train-0000{i}-of-00002.tfrecord' for i in range(2))]
