"""datasets/tfds.py: datasets on disk in TensorFlow Datasets' format."""

import json
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import records, shards
from common.errors import RunError, UsageError
from datasets import tfds as dataset
from tests.datasets.own_data import Prepared

tfds = pytest.importorskip('tensorflow_datasets', reason="needs pip install -e '.[tfds]'")
from tests.datasets.tfds_builder import build  # noqa: E402 - it imports the package

F = tfds.features
LABEL = F.ClassLabel(names=['dark', 'light'])


def gray(i, size=8):
    """Light for odd numbers, dark for even ones."""
    return np.full([size, size, 1], 100 * (i % 2) + i % 50, np.uint8)


def pictures(count):
    return [{'image': gray(i), 'label': i % 2} for i in range(count)]


@pytest.fixture
def images(tmp_path):
    """The directory of a dataset of images, of two files in each split."""
    splits = {'train': pictures(100), 'test': pictures(20)}
    features = {'image': F.Image(shape=(8, 8, 1)), 'label': LABEL}
    return pathlib.Path(build(tmp_path / 'tfds', features, splits, ('image', 'label'), num_shards=2))


def prepared(path, tmp_path, *hparams):
    return Prepared(dataset, tmp_path / 'data', ','.join([f'tfds_dir={path}', *hparams]))


def schema(tmp_path, **content):
    path = tmp_path / 'schema.json'
    path.write_text(json.dumps(content))
    return f'schema={path}'


@pytest.fixture
def logged(monkeypatch):
    """The lines that are logged."""
    lines = []
    monkeypatch.setattr(tf.logging, 'info', lambda text, *args: lines.append(text % args))
    return lines


def hide_package(monkeypatch):
    for name in [name for name in sys.modules if name.partition('.')[0] == 'tensorflow_datasets']:
        monkeypatch.setitem(sys.modules, name, None)


def kinds(found):
    return {feature['name']: feature['kind'] for feature in found.metadata['features']}


def test_a_model_learns_predicts_and_is_exported_without_the_data_and_the_package(images, run, tmp_path, monkeypatch):
    flags = (
        '--model=alexnet',
        '--dataset=tfds',
        f'--hparams=tfds_dir={images.parent},filters=[4,8],dense_units=16,batch_size=20,drop_rate=0.0',
        f'--data_dir={tmp_path}/data',
        '--train_steps=60',
        '--save_checkpoints_steps=60',
    )
    code, result, _ = run(*flags)
    assert code == 0 and result['eval']['accuracy'] == 1
    shutil.copy(images / 'own-test.tfrecord-00000-of-00002', tmp_path / 'test.tfrecord')
    shutil.rmtree(images)
    hide_package(monkeypatch)
    (tmp_path / 'light.png').write_bytes(_png(gray(9, 30)))
    for path, expected in ((tmp_path / 'light.png', ['light']), (tmp_path / 'test.tfrecord', None)):
        assert run(*flags, '--schedule=predict', f'--input={path}')[0] == 0
        found = [json.loads(line)['class_name'] for line in (tmp_path / 'output' / 'predictions.jsonl').open()]
        assert found == (expected or [('dark', 'light')[i] for i in _labels(tmp_path / 'test.tfrecord')])
    code, result, _ = run(*flags, '--schedule=export')
    assert code == 0
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ['serve'], result['export']).signature_def['serving_default']
        given = np.stack([gray(0), gray(1)])
        assert list(session.run(signature.outputs['class'].name, {signature.inputs['image'].name: given})) == [0, 1]


def _png(image):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(tf.io.encode_png(image))


def _labels(path):
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.data.TFRecordDataset(str(path)).batch(1000)
        serialized = session.run(tf.data.make_one_shot_iterator(found).get_next())
    return [records.decode(record)['label'][1][0] for record in serialized]


def test_all_examples_are_read_as_they_are_and_by_the_files_so_that_training_shuffles_and_resumes_by_them(images, tmp_path):
    found = prepared(images, tmp_path)
    for split, count in (('train', 100), ('test', 20), ('eval', 20)):
        examples = found.examples(split)
        with tf.Graph().as_default():
            assert shards.find(found.source.read(split)).count == count
        values = sorted((labels['label'], features['image'][3, 4, 0] * 255) for features, labels in examples)
        np.testing.assert_allclose(values, sorted((i % 2, gray(i)[3, 4, 0]) for i in range(count)), rtol=1e-5)
    assert (examples[0][0]['image'].shape, examples[0][0]['image'].dtype) == ((8, 8, 1), np.float32)
    assert found.metadata['class_names'] == ['dark', 'light']
    assert (found.metadata['num_classes'], found.metadata['image_size'], found.metadata['num_channels']) == (2, 8, 1)


def test_every_kind_of_feature_is_read_or_ignored_with_a_line(tmp_path, logged):
    features = {
        'photo': F.Image(shape=(None, None, 3), encoding_format='jpeg'),
        'review': F.Text(),
        'city': F.Text(),
        'x': F.Scalar(np.float64),
        'flag': F.Scalar(np.bool_),
        'v': F.Tensor(shape=(2, 2), dtype=np.uint8),
        'color': F.ClassLabel(num_classes=3),
        'deep': {'y': F.Scalar(np.int32)},
        'words': F.Sequence({'at': F.Scalar(np.int64)}),
        'packed': F.Tensor(shape=(4,), dtype=np.float32, encoding='zlib'),
        'depth': F.Image(shape=(4, 4, 1), dtype=np.float32),
        'label': F.Scalar(np.float32),
    }
    examples = [
        {
            'photo': np.full([20 + i, 30, 3], 128, np.uint8),
            'review': f'a good film number {i}',
            'city': ('Rome', 'Oslo')[i % 2],
            'x': float(i),
            'flag': bool(i % 2),
            'v': [[i, 1], [2, 3]],
            'color': i % 3,
            'deep': {'y': 10 * i},
            'words': [{'at': 1}] * (i % 3),
            'packed': np.zeros(4, np.float32),
            'depth': np.zeros([4, 4, 1], np.float32),
            'label': i / 2,
        }
        for i in range(12)
    ]
    path = build(tmp_path / 'tfds', features, {'train': examples, 'fold3': examples[7:8]})
    found = prepared(path, tmp_path)
    assert kinds(found) == {
        'photo': 'image',
        'review': 'text',
        'city': 'categorical',
        'x': 'numeric',
        'flag': 'numeric',
        'v': 'numeric',
        'color': 'categorical',
        'deep/y': 'numeric',
        'label': 'label',
    }
    ((values, labels),) = found.examples('fold3')
    scale = np.std(np.arange(12))
    standardized = (7 - 5.5) / scale
    # deep/y, flag, v, x
    np.testing.assert_allclose(values['numeric'], [standardized, 1, standardized, 0, 0, 0, standardized], rtol=1e-5, atol=1e-6)
    assert values['image'].shape == (64, 64, 3)
    np.testing.assert_allclose(values['image'], np.full([64, 64, 3], 128 / 255), atol=0.01)
    assert list(values['categorical']) == [1, 2]  # Oslo, the first of two in the alphabet; 1, the second of 0, 1 and 2.
    words = found.metadata['vocabulary']
    assert words == ['a', 'film', 'good', 'number']
    assert list(values['text']) == [2, 4, 3, 5, 1]
    assert (found.metadata['task'], labels['label']) == ('regression', 3.5)
    assert 'ignored: depth (Image), packed (Tensor), words (Sequence).' in '\n'.join(logged)
    assert not found.source.has_images()  # Pictures alone are not enough.
    others = {name: 'ignore' for name, kind in kinds(found).items() if kind not in ('image', 'label')}
    assert prepared(path, tmp_path, schema(tmp_path, features=others)).source.has_images()


def test_the_supervised_keys_are_input_and_label(tmp_path, logged):
    features = {'id': F.Text(), 'text': F.Text(), 'stars': F.Scalar(np.int64), 'label': LABEL}
    examples = [{'id': f'{i}', 'text': 'good' if i % 2 else 'bad', 'stars': i % 5, 'label': i % 2} for i in range(10)]
    path = build(tmp_path / 'tfds', features, {'train': examples}, ('text', 'stars'))
    found = prepared(path, tmp_path)
    assert kinds(found) == {'text': 'text', 'stars': 'label'}
    assert found.metadata['class_names'] == ['0', '1', '2', '3', '4']
    assert 'ignored: id (not an input), label (not an input).' in '\n'.join(logged)
    given = schema(tmp_path, label='label', id='id', features={'stars': 'numeric', 'text': 'ignore'})
    found = prepared(path, tmp_path, given)
    assert kinds(found) == {'stars': 'numeric', 'label': 'label', 'id': 'id'}
    assert found.metadata['class_names'] == ['dark', 'light']


def test_without_supervised_keys_the_only_feature_with_classes_is_the_label(tmp_path):
    examples = [{'x': float(i), 'y': i % 2, 'quality': LABEL.names[i % 2]} for i in range(10)]
    path = build(tmp_path / 'tfds', {'x': F.Scalar(np.float32), 'y': F.Scalar(np.int64), 'quality': LABEL}, {'train': examples})
    found = prepared(path, tmp_path)
    assert kinds(found) == {'x': 'numeric', 'y': 'numeric', 'quality': 'label'}
    # Files are in an order of their own; y is 0 or 1 in equal numbers.
    assert all(labels['label'] == (features['numeric'][1] > 0) for features, labels in found.examples('train'))


def test_images_are_resized_if_that_is_asked_for(images, tmp_path):
    features, _ = prepared(images, tmp_path, 'image_size=4').examples('test')[0]
    assert features['image'].shape == (4, 4, 1)


@pytest.mark.parametrize('splits, expected', [('train validation', 3), ('train validation test', 4), ('train test eval', 5)])
def test_eval_is_the_split_eval_or_test_or_validation(tmp_path, splits, expected):
    counts = {'train': 10, 'validation': 3, 'test': 4, 'eval': 5}
    features = {'x': F.Scalar(np.float32), 'label': LABEL}
    examples = [{'x': float(i), 'label': i % 2} for i in range(10)]
    path = build(tmp_path / 'tfds', features, {name: examples[: counts[name]] for name in splits.split()})
    assert len(prepared(path, tmp_path).examples('eval')) == expected


@pytest.mark.parametrize('trained, count', [('test', 3), ('validation', 4), ('train', 4)])
def test_the_split_trained_on_is_not_that_for_evaluation(tmp_path, trained, count):
    counts = {'train': 10, 'validation': 3, 'test': 4}
    features = {'x': F.Scalar(np.float32), 'label': LABEL}
    examples = [{'x': float(i), 'label': i % 2} for i in range(10)]
    path = build(tmp_path / 'tfds', features, {name: examples[:n] for name, n in counts.items()})
    found = prepared(path, tmp_path, f'train_split={trained}')
    assert (len(found.examples(trained)), len(found.examples('eval'))) == (counts[trained], count)


def test_a_split_that_is_not_there_is_named(tmp_path):
    features = {'x': F.Scalar(np.float32), 'label': LABEL}
    path = build(tmp_path / 'tfds', features, {'train': [{'x': float(i), 'label': i % 2} for i in range(10)]})
    found = prepared(path, tmp_path)
    with pytest.raises(UsageError, match='no split eval or test or validation: the splits are: train; --eval_splits and'):
        found.source.read('eval')
    with pytest.raises(UsageError, match='no split fold3: the splits are: train$'):
        found.source.read('fold3')
    with pytest.raises(UsageError, match='no split fold3'):
        prepared(path, tmp_path, 'train_split=fold3')


def test_a_label_that_is_no_class_number_or_text_is_refused(tmp_path):
    features = {'x': F.Scalar(np.float32), 'boxes': F.Tensor(shape=(2,), dtype=np.float32), 'words': F.Sequence(np.int64)}
    examples = [{'x': float(i), 'boxes': [0, 1], 'words': [1]} for i in range(10)]
    for label in ('boxes', 'words'):
        path = build(tmp_path / label, features, {'train': examples}, ('x', label))
        with pytest.raises(UsageError, match=f'the label {label} is neither a class nor a number nor a text'):
            prepared(path, tmp_path)
    path = build(tmp_path / 'none', features, {'train': examples})
    with pytest.raises(UsageError, match='schema must name the "label": the features of .* are: boxes, x'):
        prepared(path, tmp_path)


def test_the_directory_is_found_unless_there_are_several(images, tmp_path):
    shutil.copytree(images, images.parent / 'incomplete.ABC_1.2.0')
    for path in (images, images.parent, images.parent.parent):
        assert prepared(path, tmp_path).metadata['num_classes'] == 2
    shutil.copytree(images, images.parent / '1.3.0')
    with pytest.raises(UsageError, match=f'has several datasets, name one: {images}, {images.parent}/1.3.0'):
        prepared(images.parent.parent, tmp_path)


def test_other_directories_are_refused(tmp_path):
    for path, message in (
        ('/no/such', 'tfds_dir=/no/such: there is no such directory'),
        (tmp_path, 'has no dataset_info.json'),
    ):
        with pytest.raises(UsageError, match=message):
            prepared(path, tmp_path)
    with pytest.raises(UsageError, match='--hparams=tfds_dir=PATH'):
        Prepared(dataset, tmp_path / 'data', 'tfds_dir=')


def missing(path):
    path.unlink()


def flipped(path):
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)


def cut(path):
    length = int.from_bytes(path.read_bytes()[:8], 'little') + 16
    path.write_bytes(path.read_bytes()[length:])


@pytest.mark.parametrize(
    'damage, message',
    [
        (missing, 'is missing, but dataset_info.json names it: restore it'),
        (flipped, 'the record at byte 0 is corrupt: its checksum is wrong: restore it'),
        (cut, 'has 9 records, but dataset_info.json says 10: restore it'),
    ],
)
def test_a_missing_or_damaged_file_is_named(images, tmp_path, damage, message):
    path = images / 'own-test.tfrecord-00001-of-00002'
    damage(path)
    for _ in range(2):
        with pytest.raises(RunError, match=f'{path}: {message}'):
            prepared(images, tmp_path)


@pytest.mark.parametrize(
    'name, edit, error, message',
    [
        ('dataset_info.json', lambda text: text[:50], RunError, 'cannot read dataset_info.json or features.json'),
        ('features.json', lambda text: text[:50], RunError, 'cannot read dataset_info.json or features.json'),
        (
            'features.json',
            lambda text: text.replace('tensorflow_datasets.core.features.class_label_feature', 'antigravity'),
            UsageError,
            'the feature type antigravity.ClassLabel is not one of TensorFlow Datasets, and is not imported',
        ),
        (
            'dataset_info.json',
            lambda text: text.replace('"fileFormat": "tfrecord"', '"fileFormat": "array_record"'),
            UsageError,
            'the files are of the format array_record, which is not supported',
        ),
    ],
)
def test_files_that_describe_something_else_are_refused_in_one_line(images, tmp_path, name, edit, error, message):
    text = (images / name).read_text()
    assert edit(text) != text
    (images / name).write_text(edit(text))
    with pytest.raises(error, match=message) as caught:
        prepared(images, tmp_path)
    assert '\n' not in str(caught.value)


def test_without_the_package_one_line_says_how_to_install_it(images, run, monkeypatch):
    hide_package(monkeypatch)
    code, _, err = run('--dataset=tfds', f'--hparams=tfds_dir={images}')
    assert code == 2
    expected = "trainer.py: --dataset=tfds: tensorflow-datasets is not installed: pip install -e '.[tfds]'"
    assert err.splitlines()[-1] == expected


def test_nothing_is_written_beside_the_data(images, tmp_path):
    before = sorted(os.listdir(images))
    prepared(images, tmp_path)
    assert sorted(os.listdir(images)) == before
