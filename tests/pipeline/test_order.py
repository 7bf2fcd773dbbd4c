"""The order of records from `records.write`: shuffled in windows, resumed by arithmetic on the index of the files."""

import collections
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline import order as epochs
from estimator_trainer.common.pipeline.share import Share
from estimator_trainer.common.records import manifest, records, shards, tfrecord
from tests.pipeline import pipelines
from tests.pipeline.pipelines import make_params, of_files, passes
from tests.tfrecords import record


def write(directory, count, num_shards=3):
    records.write(str(directory), {'train': [{'id': i, 'padding': bytes(i % 5)} for i in range(count)]}, num_shards=num_shards)
    return str(directory)


def ids(directory, steps, **options):
    return pipelines.ids(of_files(), steps, data_dir=str(directory), **{'shuffle_buffer': 10, **options})


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr(tfrecord, 'INDEXED_BYTES', 150)  # Two or three records of the tests.


@pytest.mark.parametrize('count, shards, window, batch_size', [(50, 3, 7, 9), (47, 3, 100, 4), (5, 4, 2, 4)])
def test_each_epoch_has_its_own_order_in_which_a_run_resumes(tmp_path, count, shards, window, batch_size):
    directory, steps = write(tmp_path, count, shards), -(-4 * count // batch_size)
    options = {'data_dir': directory, 'shuffle_buffer': window, 'batch_size': batch_size}
    spans = [(start, steps - start) for start in (0, steps // 3, steps * 3 // 4)]
    found = [passes(of_files(), spans, is_kept=is_kept, **options) for is_kept in (False, True)]
    found = [[[features['x'].tolist() for features, _ in one] for one in several] for several in found]
    whole = found[0][0]
    assert found == [[whole[start:] for start, _ in spans]] * 2  # Memory does not decide the order.
    orders = [tuple(np.concatenate(whole)[i * count : (i + 1) * count]) for i in range(4)]
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert len({tuple(range(count)), *orders}) == 5
    assert pipelines.ids(of_files(), steps, seed=2, **options) != whole


def test_a_set_that_fits_into_the_shuffle_buffer_is_shuffled_as_a_whole_whether_or_not_its_files_have_an_index(tmp_path):
    directory = write(tmp_path, 50)
    with tf.Graph().as_default(), tf.Session() as session:
        found = records.read(directory, 'train')
        assert shards.find(found, 50).count == shards.find(found).count == 50
        assert shards.find(found.map(lambda record: record), 50) is None  # Transformed records are read in their own order.
        assert shards.find(found, 30) is None  # For --overfit_batches.
        expected = session.run(tf.random.experimental.stateless_shuffle(tf.range(50), [1, 0]))
    for is_kept in (False, True):
        assert np.concatenate(ids(directory, 12, is_kept=is_kept, shuffle_buffer=50)).tolist() == expected[:48].tolist()
    whole = ids(directory, 12)
    content = json.loads((tmp_path / 'manifest.json').read_text())
    for item in content['splits']['train']['files']:
        assert len(item.pop('index')['offsets']) > 3
    (tmp_path / 'manifest.json').write_text(json.dumps(content))
    assert ids(directory, 12) == whole


@pytest.mark.parametrize('bytes_of_index', [150, 10**6])
def test_a_window_has_records_from_the_whole_set(tmp_path, monkeypatch, bytes_of_index):
    monkeypatch.setattr(tfrecord, 'INDEXED_BYTES', bytes_of_index)
    flat = np.concatenate(ids(write(tmp_path, 1000, 4), 25, batch_size=40, shuffle_buffer=120))
    for window in flat[:960].reshape([8, 120]):
        classes = collections.Counter(window // 100)  # The files are sorted by class.
        # 12 of each are expected, in 50 blocks of 2 or 3 records: the standard deviation is about 5.
        assert len(classes) >= 9 and max(classes.values()) <= 32


def test_the_window_is_bounded_by_bytes_and_blocks_cover_files_of_any_length(tmp_path):
    found = shards.Shards('', [{'count': 40, 'bytes': 10**9}, {'count': 10, 'bytes': 10**9}])  # 40 MB a record.
    assert [epochs.window_size(found, make_params(shuffle_buffer=buffer)) for buffer in (5, 6, 7)] == [5, 6, 6]  # Of 256 MB.
    one = [{'count': 1, 'bytes': num_bytes} for num_bytes in (10**8, 10**9)]
    assert [epochs.window_size(shards.Shards('', [item]), make_params()) for item in one] == [2, 1]
    items = []
    for number, length in enumerate([1, 9, 0]):
        (tmp_path / str(number)).write_bytes(record(bytes(15)) * length)
        items.append(manifest.describe(str(number), tfrecord.scan(f'{tmp_path}/{number}')))
    found = shards.Shards(str(tmp_path), items)
    # Of 31 bytes each: the second file, of 279 bytes, has one entry in its index.
    assert found.blocks(9).tolist() == [[0, 0, 0, 0, 1], [1, 0, 0, 1, 9]]
    assert found.blocks(4).tolist() == [[0, 0, 0, 0, 1], [1, 0, 0, 1, 4], [1, 0, 4, 5, 4], [1, 0, 8, 9, 1]]
    assert found.blocks(0)[:, 4].tolist() == [1] * 10


def test_a_resumed_run_reads_only_its_share(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord, 'INDEXED_BYTES', 1)  # Each record is a block.
    directory = write(tmp_path, 200, 1)
    whole = ids(directory, 50, shuffle_buffer=20)
    path = tmp_path / 'train-00000-of-00001.tfrecord'
    intact, offsets = path.read_bytes(), tfrecord.scan(str(path)).offsets
    monkeypatch.setattr(manifest, 'check', lambda *_: None)
    for share, expected in ((Share(), whole[40:]), (Share(1, 2), [batch[1::2] for batch in whole[40:]])):
        content = bytearray(intact)  # Corrupts all except the share.
        for i in set(range(200)) - set(np.concatenate(expected).tolist()):
            content[offsets[i] + 20] ^= 1
        path.write_bytes(content)
        assert ids(directory, 10, start=40, shuffle_buffer=20, is_kept=False, share=share) == expected
