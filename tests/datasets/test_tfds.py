"""datasets/tfds.py: datasets on disk in TensorFlow Datasets' format."""

import os
import pathlib
import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.records import records, shards
from estimator_trainer.datasets import tfds as dataset
from tests.datasets.own_data import Prepared, make_schema, picture, predicted, serve
from tests.shared import raised, refused

tfds = pytest.importorskip('tensorflow_datasets', reason="needs pip install -e '.[tfds]'")

F = tfds.features
LABEL = F.ClassLabel(names=['dark', 'light'])
SHARD, INFO, FEATURES = 'own-test.tfrecord-00001-of-00002', 'dataset_info.json', 'features.json'


def build(directory, features, splits, supervised=None, num_shards=1):
    """Writes examples, {split: list}, and returns directory/own/1.2.0."""

    class Own(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version('1.2.0')
        code_path = None  # Where the package would look for checksums of downloads.
        _generate_examples = None

        def _info(self):
            return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict(features), supervised_keys=supervised)

        def _split_generators(self, dl_manager):
            return {name: enumerate(examples) for name, examples in splits.items()}

    tfds.disable_progress_bar()
    builder = Own(data_dir=str(directory))
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=num_shards))
    return builder.data_dir


def gray(i):
    return np.full([8, 8, 1], 100 * (i % 2) + i % 50, np.uint8)


@pytest.fixture
def images(tmp_path):
    """The directory of a dataset of images, of two files in each split."""
    features = {'image': F.Image(shape=(8, 8, 1)), 'label': LABEL}
    splits = {name: [{'image': gray(i), 'label': i % 2} for i in range(count)] for name, count in (('train', 60), ('test', 20))}
    return pathlib.Path(build(tmp_path / 'tfds', features, splits, ('image', 'label'), num_shards=2))


@pytest.fixture
def prepared(tmp_path):
    return lambda path, *hparams: Prepared(dataset, tmp_path / 'data', f'tfds_dir={path}', *hparams)


def kinds(found):
    return {feature['name']: feature['kind'] for feature in found.metadata['features']}


def test_examples_are_read_as_they_are_and_by_the_files_so_that_training_shuffles_and_resumes_by_them(images, prepared):
    before = sorted(os.listdir(images))
    found = prepared(images)
    for split, count in (('train', 60), ('eval', 20)):
        examples = found.read(split)
        with tf.Graph().as_default():
            assert shards.find(found.source.read(split)).count == count
        values = sorted((labels['label'], features['image'][3, 4, 0] * 255) for features, labels in examples)
        np.testing.assert_allclose(values, sorted((i % 2, gray(i)[3, 4, 0]) for i in range(count)), rtol=1e-5)
    assert (examples[0][0]['image'].shape, found.metadata['class_names']) == ((8, 8, 1), ['dark', 'light'])
    assert (found.metadata['num_classes'], found.metadata['image_size'], found.metadata['num_channels']) == (2, 8, 1)
    assert prepared(images, 'image_size=4').metadata['image_size'] == 4
    assert sorted(os.listdir(images)) == before
    for hparam in ('image_size=-1', 'max_length=0'):
        assert f'{hparam} must be' in refused(prepared, images, hparam)


KINDS = {  # Of features: their type, and the value in example i.
    'photo': (F.Image(shape=(None, None, 3), encoding_format='jpeg'), lambda i: np.full([20 + i, 30, 3], 128, np.uint8)),
    'review': (F.Text(), lambda i: f'a good film number {i}'),
    'city': (F.Text(), lambda i: ('Rome', 'Oslo')[i % 2]),
    'x': (F.Scalar(np.float64), float),
    'flag': (F.Scalar(np.bool_), lambda i: bool(i % 2)),
    'v': (F.Tensor(shape=(2, 2), dtype=np.uint8), lambda i: [[i, 1], [2, 3]]),
    'color': (F.ClassLabel(num_classes=3), lambda i: i % 3),
    'deep': ({'y': F.Scalar(np.int32)}, lambda i: {'y': 10 * i}),
    'words': (F.Sequence({'at': F.Scalar(np.int64)}), lambda i: [{'at': 1}] * (i % 3)),
    'packed': (F.Tensor(shape=(4,), dtype=np.float32, encoding='zlib'), lambda i: np.zeros(4, np.float32)),
    'depth': (F.Image(shape=(4, 4, 1), dtype=np.float32), lambda i: np.zeros([4, 4, 1], np.float32)),
    'label': (F.Scalar(np.float32), lambda i: i / 2),
}


def test_every_kind_of_feature_is_read_or_ignored_with_a_line(tmp_path, prepared, caplog):
    caplog.set_level('INFO', 'tensorflow')
    examples = [{name: make(i) for name, (_, make) in KINDS.items()} for i in range(12)]
    features = {name: feature for name, (feature, _) in KINDS.items()}
    path = build(tmp_path / 'tfds', features, {'train': examples, 'fold3': examples[7:8]})
    found = prepared(path)
    numeric = dict.fromkeys(('x', 'flag', 'v', 'deep/y'), 'numeric')
    expected = {'photo': 'image', 'review': 'text', **numeric, 'city': 'categorical', 'color': 'categorical', 'label': 'label'}
    assert kinds(found) == expected
    ((values, labels),) = found.read('fold3')
    one = (7 - 5.5) / np.std(np.arange(12))
    np.testing.assert_allclose(values['numeric'], [one, 1, one, 0, 0, 0, one], rtol=1e-5, atol=1e-6)  # deep/y, flag, v, x
    np.testing.assert_allclose(values['image'], np.full([64, 64, 3], 128 / 255), atol=0.01)
    assert list(values['categorical']) == [1, 2]  # Oslo, the first of two in the alphabet; 1, the second of 0, 1 and 2.
    assert found.metadata['vocabulary'] == ['a', 'film', 'good', 'number'] and list(values['text']) == [2, 4, 3, 5, 1]
    assert (found.metadata['task'], labels['label']) == ('regression', 3.5)
    assert 'ignored: depth (Image), packed (Tensor), words (Sequence). --hparams=schema=FILE can override' in caplog.text
    assert not found.source.has_images()  # Pictures alone are not enough.
    others = {name: 'ignore' for name, kind in kinds(found).items() if kind not in ('image', 'label')}
    assert prepared(path, make_schema(tmp_path, features=others)).source.has_images()
    assert re.search('no split eval or test or validation: .* are: train, fold3; --eval_splits', refused(found.read, 'eval'))
    for label in ('v', 'words', 'photo'):
        with pytest.raises(UsageError, match=f'label {label} is neither a class nor a number nor a text'):
            prepared(path, make_schema(tmp_path, label=label))


def test_warnings_are_said_again_when_what_is_known_is_used_again(tmp_path, prepared, caplog):
    path = build(
        tmp_path / 'tfds',
        {'x': F.Scalar(np.float32), 'label': LABEL},
        {'train': [{'x': 1.0, 'label': i % 2} for i in range(6)]},
    )
    for _ in range(2):
        caplog.clear()
        prepared(path)
        assert 'nothing can be learned from x' in caplog.text


def test_the_supervised_keys_are_input_and_label(tmp_path, prepared, caplog):
    caplog.set_level('INFO', 'tensorflow')
    features = {'id': F.Text(), 'text': F.Text(), 'stars': F.Scalar(np.int64), 'label': LABEL, 'w': F.Scalar(np.float32)}
    examples = [{'id': f'{i}', 'text': ('good', 'bad')[i % 2], 'stars': i % 5, 'label': i % 2, 'w': 2.0} for i in range(10)]
    splits = {'train': examples, 'test': examples[:4], 'eval': examples[:6]}
    path = build(tmp_path / 'tfds', features, splits, ('text', 'stars'))
    found = prepared(path)
    assert kinds(found) == {'text': 'text', 'stars': 'label'} and len(found.read('eval')) == 6
    assert found.metadata['class_names'] == ['0', '1', '2', '3', '4']
    assert 'ignored: id (not an input), label (not an input), w (not an input).' in caplog.text
    found = prepared(path, make_schema(tmp_path, label='label', id='id', features={'stars': 'numeric', 'text': 'ignore'}))
    assert kinds(found) == {'stars': 'numeric', 'label': 'label', 'id': 'id'}
    assert found.metadata['class_names'] == ['dark', 'light']
    path = build(tmp_path / 'weighted', features, {'train': examples}, ({'a': 'stars', 'b': 'text'}, 'label', 'w'))
    assert kinds(prepared(path)) == {'stars': 'numeric', 'text': 'text', 'label': 'label', 'w': 'weight'}


def test_eval_is_the_split_test_or_validation_but_not_the_one_trained_on(tmp_path, prepared):
    features = {'x': F.Scalar(np.float32), 'y': F.Scalar(np.int64), 'quality': LABEL}
    examples = [{'x': float(i), 'y': i % 2, 'quality': LABEL.names[i % 2]} for i in range(10)]
    splits = {name: examples[:count] for name, count in (('train', 10), ('validation', 3), ('test', 4))}
    path = build(tmp_path / 'numbers', features, splits)
    for trained, expected in (('test', 3), ('validation', 4), ('train', 4)):
        found = prepared(path, f'train_split={trained}')
        assert [found.source.read(split).cardinality().numpy() for split in ('eval', 'train')] == [expected, 10]
    assert kinds(found) == {'x': 'numeric', 'y': 'numeric', 'quality': 'label'}  # The only feature with classes.
    assert all(labels['label'] == (features['numeric'][1] > 0) for features, labels in found.read('train'))  # As y is.
    with pytest.raises(UsageError, match=': there is no split fold3: the splits are: train, validation, test$'):
        prepared(path, 'train_split=fold3')


def test_the_directory_is_found_unless_there_are_several_and_a_file_that_cannot_be_used_is_named(images, tmp_path, prepared):
    shutil.copytree(images, images.parent / 'incomplete.ABC_1.2.0')
    for path in (images, images.parent.parent):
        assert prepared(path).metadata['num_classes'] == 2
    shutil.copytree(images, images.parent / '1.3.0')
    deep = tmp_path / 'none' / 'NAME' / 'CONFIG' / 'VERSION' / 'deeper'
    deep.mkdir(parents=True)
    (deep / INFO).write_text('{}')
    for path, message in (
        (images.parent.parent, f'has several datasets, name one: {images}, {images.parent}/1.3.0$'),
        ('/no/such', 'tfds_dir=/no/such: there is no such directory'),
        (tmp_path / 'none', 'has no dataset_info.json, nor has a directory NAME/VERSION'),
        ('', '--dataset=tfds needs a directory of TensorFlow Datasets: give it with --hparams=tfds_dir=PATH'),
    ):
        assert re.search(message, refused(prepared, path))
    shard, info, features = ((images / name).read_bytes() for name in (SHARD, INFO, FEATURES))
    first = int.from_bytes(shard[:8], 'little') + 16  # Bytes of the first record.
    other_type = features.replace(b'tensorflow_datasets.core.features.class_label_feature', b'antigravity')
    other_format = info.replace(b'"tfrecord"', b'"array_record"')
    for name, content, damaged, error, message in (
        (SHARD, shard, None, RunError, f'{SHARD}: is missing, but dataset_info.json names it: restore it'),
        (SHARD, shard, shard[first:], RunError, f'{SHARD}: has 9 records, but dataset_info.json says 10: restore it'),
        (INFO, info, info[:50], RunError, 'cannot read dataset_info.json or features.json'),
        (FEATURES, features, None, RunError, 'has no features.json: it was prepared by a version of TensorFlow Datasets that'),
        (FEATURES, features, other_type, UsageError, 'the feature type antigravity.ClassLabel is not one of'),
        (INFO, info, other_format, UsageError, 'of the format array_record, which is not supported'),
    ):
        (images / name).unlink()
        if damaged:
            (images / name).write_bytes(damaged)
        for _ in range(2):
            assert re.fullmatch(f'.*{message}.*', raised(error, prepared, images))
        (images / name).write_bytes(content)


def test_a_model_learns_predicts_and_is_exported_without_the_data_and_the_package(images, run, tmp_path, monkeypatch):
    hparams = f'--hparams=tfds_dir={images.parent},hidden_units=[8],batch_size=20,learning_rate=0.02'
    flags = ('--model=mlp', '--dataset=tfds', hparams, f'--data_dir={tmp_path}/data', '--train_steps=40')
    code, result, _ = run(*flags)
    assert code == 0 and result['eval']['accuracy'] == 1
    test = shutil.copy(images / SHARD, tmp_path / 'test.tfrecord')
    serialized = list(tf.data.TFRecordDataset(str(test)).as_numpy_iterator())
    labels = [records.decode(record)['label'][1][0] for record in serialized]
    for name in [name for name in sys.modules if name.partition('.')[0] == 'tensorflow_datasets']:
        monkeypatch.setitem(sys.modules, name, None)
    code, _, err = run('--dataset=tfds', f'--hparams=tfds_dir={images}', output_dir=tmp_path / 'other')
    expected = "trainer.py: --dataset=tfds: tensorflow-datasets is not installed: pip install 'estimator-trainer[tfds]'"
    assert code == 2 and err.splitlines()[-1] == expected
    shutil.rmtree(images)
    (tmp_path / 'light.png').write_bytes(picture(size=(30, 30), value=109))
    for path, expected in ((tmp_path / 'light.png', ['light']), (test, [LABEL.names[label] for label in labels])):
        assert run(*flags, '--schedule=predict', f'--input={path}')[0] == 0
        assert [row['class_name'] for row in predicted(tmp_path / 'output')] == expected
    before = sorted((tmp_path / 'output').rglob('*'))
    code, result, _ = run(*flags, '--schedule=evaluate', f'--input={test}')
    assert code == 0 and result['input']['accuracy'] == 1  # Neither events nor the projector's embeddings are written.
    assert sorted((tmp_path / 'output').rglob('*')) == before
    loaded, light = api.load(tmp_path / 'output'), tmp_path / 'light.png'
    assert loaded.predict(light)['class_name'] == 'light' and loaded.predict(gray(0))['class_name'] == 'dark'
    assert loaded.predict([light, np.zeros([9, 7], np.uint8)])['class_name'].tolist() == ['light', 'dark']
    code, result, _ = run(*flags, '--schedule=export')
    assert code == 0 and serve(result['export'], 'serving_default', {'image': np.stack([gray(0), gray(1)])}) == [0, 1]
    assert serve(result['export'], 'examples:serving_default', {'examples': serialized}) == labels
    pictures = [picture(size=(30, 30), value=109), picture(value=9)]
    assert serve(result['export'], 'pictures:serving_default', {'image': pictures}) == [1, 0]
