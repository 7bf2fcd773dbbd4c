"""The order of records that `records.write` wrote: shuffled in windows, resumed by arithmetic."""

import collections
import json
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import epochs, input_pipeline, records, shards, tfrecord
from common.data.share import WHOLE, Share
from common.data.source import DataSource
from hparams.build import HParams
from hparams.defaults import DEFAULTS

pytestmark = pytest.mark.slow

TRAIN = tf.estimator.ModeKeys.TRAIN


def params(**changes):
    return HParams({**DEFAULTS, 'dataset': 'd', 'seed': 1, 'batch_size': 4, 'cache': True, 'shuffle_buffer': 10, **changes})


def write(directory, count, num_shards=3, **others):
    """Writes examples numbered from 0, with an index that has an entry for each few."""
    examples = [{'id': i, 'padding': bytes(i % 5)} for i in range(count)]
    records.write(str(directory), {'train': examples}, num_shards=num_shards, **others)
    return str(directory)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr(tfrecord, 'INDEXED_BYTES', 150)  # Two or three records of the tests.


def ids(directory, steps, start=0, cache=False, module=None, share=WHOLE, **changes):
    """Returns the ids of batches, or of shares of them, from a fresh graph, as after a restore at global step `start`."""

    def parse_batch(mode, params, serialized):
        found = tf.io.parse_example(serialized, {'id': tf.io.FixedLenFeature([], tf.int64)})
        return {'x': found['id']}, {}

    module = module or types.SimpleNamespace(
        read=lambda split, data_dir, params: records.read(data_dir, split), parse_batch=parse_batch
    )
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(start)  # The order is to follow from params.seed alone.
        source = DataSource(module, directory, params(**changes))
        count = records.manifest.load(directory, 'train')['count']
        dataset = input_pipeline.make_input_fn(source, TRAIN, 'train', count, cache, share=share)()
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        session.run(tf.assign(tf.train.get_or_create_global_step(), start))
        session.run(iterator.initializer)
        return [list(session.run(element)[0]['x']) for _ in range(steps)]


@pytest.mark.parametrize('count, window, num_shards', [(50, 10, 3), (50, 100, 3), (47, 13, 1), (5, 2, 4), (12, 1, 4)])
def test_each_epoch_has_every_record_once_in_an_order_of_its_own(tmp_path, count, window, num_shards):
    directory = write(tmp_path, count, num_shards)
    flat = np.concatenate(ids(directory, count, shuffle_buffer=window))
    orders = [tuple(flat[i * count : (i + 1) * count]) for i in range(4)]
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert len({tuple(range(count)), *orders}) == 5


@pytest.mark.parametrize('changes', [{}, {'shuffle_buffer': 100}, {'shuffle_buffer': 7, 'batch_size': 9}])
@pytest.mark.parametrize('cache', [False, True])
def test_a_training_that_resumes_sees_what_it_would_have_seen(tmp_path, changes, cache):
    directory = write(tmp_path, 50)
    whole = ids(directory, 30, cache=cache, **changes)
    assert whole == ids(directory, 30, cache=not cache, **changes)  # Memory does not decide the order.
    for start in (13, 24):
        assert ids(directory, 30 - start, start, cache, **changes) == whole[start:]


def test_the_seed_decides_the_order(tmp_path):
    directory = write(tmp_path, 50)
    assert ids(directory, 12) != ids(directory, 12, seed=2)


def test_a_set_that_fits_into_the_shuffle_buffer_is_shuffled_as_a_whole(tmp_path):
    directory = write(tmp_path, 50)
    with tf.Graph().as_default(), tf.Session() as session:
        expected = session.run(tf.random.experimental.stateless_shuffle(tf.range(50), [1, 0]))
    for cache in (False, True):
        assert np.concatenate(ids(directory, 12, cache=cache, shuffle_buffer=50)).tolist() == expected[:48].tolist()


@pytest.mark.parametrize('bytes_of_index', [150, 10**6])
def test_a_window_has_records_from_the_whole_set(tmp_path, monkeypatch, bytes_of_index):
    """Data that is sorted by class, in files that are, too: 10 classes of 100."""
    monkeypatch.setattr(tfrecord, 'INDEXED_BYTES', bytes_of_index)
    directory = write(tmp_path, 1000, 4)
    flat = np.concatenate(ids(directory, 25, batch_size=40, shuffle_buffer=120))
    for window in flat[:960].reshape([8, 120]):
        classes = collections.Counter(window // 100)
        # 12 of each are expected, in 50 blocks of 2 or 3 records: the standard deviation is about 5.
        assert len(classes) >= 9 and max(classes.values()) <= 32
    one_by_one = types.SimpleNamespace(
        read=lambda split, data_dir, params: records.read(data_dir, split).map(lambda record: record),
        parse_batch=lambda mode, params, serialized: (
            {'x': tf.io.parse_example(serialized, {'id': tf.io.FixedLenFeature([], tf.int64)})['id']},
            {},
        ),
    )
    assert max(np.concatenate(ids(directory, 3, module=one_by_one, batch_size=40, shuffle_buffer=120)) // 100) <= 2


def test_the_order_is_uniform_within_a_window_and_differs_between_windows(tmp_path):
    directory = write(tmp_path, 60, 1)
    flat = np.concatenate(ids(directory, 450, batch_size=40, shuffle_buffer=20))  # 300 epochs.
    firsts = collections.Counter(flat[::20])
    # Each of 60 records begins one of 900 windows, 15 times, with a standard deviation of less than 4.
    assert len(firsts) == 60 and max(firsts.values()) < 35


def test_the_window_is_bounded_by_bytes(tmp_path, monkeypatch):
    directory = write(tmp_path, 50)
    with tf.Graph().as_default():
        found = shards.find(records.read(directory, 'train'), 50)
    assert epochs.window_size(found, params(shuffle_buffer=1000)) == 1000
    monkeypatch.setattr(epochs, 'WINDOW_BYTES', int(found.mean_bytes * 8.5))
    assert epochs.window_size(found, params(shuffle_buffer=1000)) == 8
    monkeypatch.setattr(epochs, 'WINDOW_BYTES', 1)
    assert epochs.window_size(found, params(shuffle_buffer=1000)) == 1


def test_resuming_opens_only_what_comes(tmp_path, monkeypatch):
    """Blocks that were seen before, in other windows, may be corrupt."""
    directory = write(tmp_path, 200, 1)
    whole = ids(directory, 50, shuffle_buffer=20)
    path = tmp_path / 'train-00000-of-00001.tfrecord'
    content = bytearray(path.read_bytes())
    offsets = tfrecord.scan(str(path)).offsets
    for i in np.concatenate(whole[:40]):
        content[offsets[i] + 20] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(records.manifest, 'check', lambda *_: None)
    assert ids(directory, 10, start=40, shuffle_buffer=20) == whole[40:]


def test_a_manifest_without_an_index_gives_the_same_order(tmp_path):
    directory = write(tmp_path, 50)
    whole = ids(directory, 12)
    path = tmp_path / 'manifest.json'
    content = json.loads(path.read_text())
    for item in content['splits']['train']['files']:
        assert len(item.pop('index')['offsets']) > 3
    path.write_text(json.dumps(content))
    assert ids(directory, 12) == whole


def test_a_wrong_index_is_named(tmp_path):
    directory = write(tmp_path, 50)
    path = tmp_path / 'manifest.json'
    content = json.loads(path.read_text())
    content['splits']['train']['files'][1]['index']['offsets'][1] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(records.RunError, match='train-00001-of-00003.tfrecord: its index in the manifest is wrong: delete'):
        records.read(directory, 'train')


@pytest.mark.parametrize(
    'change', [lambda found: found.map(lambda record: record), lambda found: found.filter(lambda record: True)]
)
def test_a_dataset_that_a_module_transforms_is_read_as_it_is(tmp_path, change):
    directory = write(tmp_path, 50)
    with tf.Graph().as_default():
        found = records.read(directory, 'train')
        assert shards.find(found, 50).count == 50
        assert shards.find(change(found), 50) is None
        assert shards.find(found, 30) is None  # A part, for --overfit_batches.


def test_blocks_cover_files_of_any_length(tmp_path):
    items = []
    for number, length in enumerate([1, 9, 0]):
        path = tmp_path / f'{number}.tfrecord'
        with tf.io.TFRecordWriter(str(path)) as writer:
            for i in range(length):
                writer.write(records.encode({'id': i}))
        items.append(records.manifest.describe(path.name, tfrecord.scan(str(path))))
    found = shards.Shards(str(tmp_path), items)
    # Of 31 bytes each: the second file, of 279 bytes, has one entry in its index.
    assert found.blocks(9).tolist() == [[0, 0, 0, 0, 1], [1, 0, 0, 1, 9]]
    assert found.blocks(4).tolist() == [[0, 0, 0, 0, 1], [1, 0, 0, 1, 4], [1, 0, 4, 5, 4], [1, 0, 8, 9, 1]]
    assert found.blocks(0)[:, 4].tolist() == [1] * 10


@pytest.mark.parametrize('cache', [True, False])
@pytest.mark.parametrize('window', [3, 13, 100])
@pytest.mark.parametrize('start', [0, 5, 30])
def test_the_shares_of_a_batch_are_its_slices(tmp_path, cache, window, start):
    directory = write(tmp_path, 47)
    batches = ids(directory, 30, start, cache, shuffle_buffer=window)
    for i in range(2):
        shares = ids(directory, 30, start, cache, share=Share(i, 2), shuffle_buffer=window)
        assert shares == [batch[i::2] for batch in batches]


def test_blocks_with_no_record_of_a_share_are_not_read():
    parts = np.array([[0, 10, 0, 0, 2], [0, 20, 0, 2, 3], [1, 10, 1, 5, 1]])  # Records 0 and 1; 2, 3 and 4; 5.
    with tf.Graph().as_default(), tf.Session() as session:
        kept, order = session.run(epochs._only_needed(tf.constant(parts, tf.int64), tf.constant([5, 0, 5, 1])))
    assert kept.tolist() == [parts[0].tolist(), parts[2].tolist()]
    assert order.tolist() == [2, 0, 2, 1]
