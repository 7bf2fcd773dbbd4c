"""datasets/tfrecord.py: TFRecord files of a user's own."""

import gzip
import io
import json
import shutil

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from common.data import manifest, records
from common.errors import RunError, UsageError
from datasets import tfrecord
from tests.datasets.own_data import Prepared
from tests.tfrecords import header

MODEL = '--model=tests.datasets.tabular_model'


def write(path, examples, options=None):
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for example in examples:
            writer.write(example if isinstance(example, bytes) else records.encode(example))
    return path


def png(value, size=4, mode='L'):
    content = io.BytesIO()
    Image.new(mode, (size, size), value).save(content, 'png')
    return content.getvalue()


def mixed(i):
    return {
        'x': float(i),
        'v': [1.0, float(i % 2)],
        'city': ('Rome', 'Oslo')[i % 2],
        'review': f'a good film number {i}',
        'photo': png(i),
        'label': i % 3,
    }


@pytest.fixture
def directory(tmp_path):
    write(tmp_path / 'own' / 'train-00000-of-00002.tfrecord', map(mixed, range(20)))
    write(tmp_path / 'own' / 'train-00001-of-00002.tfrecord', map(mixed, range(20, 40)))
    write(tmp_path / 'own' / 'eval.tfrecord', map(mixed, range(5)))
    return tmp_path / 'own'


def prepared(directory, tmp_path, *hparams):
    return Prepared(tfrecord, tmp_path / 'data', ','.join([f'tfrecord_dir={directory}', *hparams]))


def schema(tmp_path, **content):
    path = tmp_path / 'schema.json'
    path.write_text(json.dumps(content))
    return f'schema={path}'


def test_features_are_inferred(directory, tmp_path):
    dataset = prepared(directory, tmp_path)
    assert {f['name']: f['kind'] for f in dataset.metadata['features']} == {
        'x': 'numeric',
        'v': 'numeric',
        'city': 'categorical',
        'review': 'text',
        'photo': 'image',
        'label': 'label',
    }
    assert (dataset.metadata['task'], dataset.metadata['class_names']) == ('classification', ['0', '1', '2'])
    assert (dataset.metadata['image_size'], dataset.metadata['num_channels']) == (4, 1)
    assert dataset.metadata['vocabulary'] == ['a', 'film', 'good', 'number']
    assert json.loads(json.dumps(dataset.metadata)) == dataset.metadata


def test_each_kind_is_parsed(directory, tmp_path):
    features, labels = prepared(directory, tmp_path).examples('eval')[3]
    # v comes before x: 1 is constant, i % 2 has mean 0.5 and standard deviation 0.5; x is 0 to 39.
    np.testing.assert_allclose(features['numeric'], [0, 1, (3 - 19.5) / np.std(np.arange(40))], rtol=1e-5)
    assert list(features['categorical']) == [1]  # Oslo: as frequent as Rome, and before it in the alphabet.
    assert list(features['text']) == [2, 4, 3, 5, 1]
    np.testing.assert_allclose(features['image'], np.full([4, 4, 1], 3 / 255), rtol=1e-6)
    assert labels['label'] == 0 and labels['label'].dtype == np.int32


def test_all_files_of_a_split_are_read(directory, tmp_path):
    labels = [labels['label'] for _, labels in prepared(directory, tmp_path).examples('train')]
    assert labels == [i % 3 for i in range(40)]


@pytest.mark.parametrize(
    'name, split',
    [
        ('train.tfrecord', 'train'),
        ('train.tfrecords', 'train'),
        ('train-00001-of-00004.tfrecord', 'train'),
        ('train-3.tfrecord', 'train'),
        ('train.tfrecord-00000-of-00001', 'train'),
        ('mnist-train.tfrecord-00000-of-00001', 'train'),
        ('fold3.tfrecord', 'fold3'),
    ],
)
def test_the_split_is_in_the_file_name(tmp_path, name, split):
    write(tmp_path / 'own' / name, [])
    (tmp_path / 'own' / 'README.md').write_text('')
    params = {'tfrecord_dir': str(tmp_path / 'own')}
    assert list(tfrecord._files(type('Params', (), params))) == [split]


def test_the_schema_overrides_what_is_inferred(directory, tmp_path):
    given = schema(
        tmp_path,
        features={
            'label': 'categorical',
            'photo': {'kind': 'image', 'size': 2, 'channels': 3},
            'v': {'kind': 'numeric', 'shape': [2, 1]},
            'review': 'ignore',
        },
        label='x',
        id='city',
    )
    dataset = prepared(directory, tmp_path, given)
    features, labels = dataset.examples('eval')[4]
    assert dataset.metadata['task'] == 'regression'
    assert dataset.metadata['target_mean'] == 19.5
    assert dataset.metadata['target_std'] == pytest.approx(np.std(np.arange(40)))
    assert set(features) == {'categorical', 'image', 'numeric', 'example_id'}
    assert (features['image'].shape, features['example_id'], features['numeric'].shape) == ((2, 2, 3), b'Rome', (2,))
    assert labels['label'] == 4 and labels['label'].dtype == np.float32


def test_pixels_are_images_if_the_schema_says_so(tmp_path):
    pixels = np.arange(12, dtype=np.uint8)
    write(tmp_path / 'own' / 'train.tfrecord', [{'pixels': pixels.tobytes(), 'label': i % 2} for i in range(4)])
    given = schema(tmp_path, features={'pixels': {'kind': 'image', 'size': 2, 'channels': 3}})
    features, _ = prepared(tmp_path / 'own', tmp_path, given).examples('train')[0]
    np.testing.assert_allclose(features['image'], pixels.reshape(2, 2, 3) / 255, rtol=1e-6)


def test_classes_may_be_names_and_examples_weighted(tmp_path):
    examples = [{'x': float(i), 'y': 'ba'[i % 2], 'w': i} for i in range(4)]
    write(tmp_path / 'own' / 'train.tfrecord', examples)
    dataset = prepared(tmp_path / 'own', tmp_path, schema(tmp_path, label='y', weight='w'))
    assert dataset.metadata['class_names'] == ['a', 'b']
    found = [(labels['label'], labels['weight']) for _, labels in dataset.examples('train')]
    assert found == [(1, 0), (0, 1), (1, 2), (0, 3)]


def test_missing_numbers_are_0_and_missing_categories_unknown(tmp_path):
    examples = [{'x': float(i), 'c': 'ab'[i // 2], 'label': i % 2} for i in range(4)]
    write(tmp_path / 'own' / 'train.tfrecord', [*examples, {'label': 1}])
    features, _ = prepared(tmp_path / 'own', tmp_path).examples('train')[4]
    assert list(features['numeric']) == [0] and list(features['categorical']) == [0]


def test_files_that_the_framework_wrote_are_verified_by_their_manifest(tmp_path):
    examples = [{'x': float(i), 'label': i % 2} for i in range(8)]
    records.write(str(tmp_path / 'own'), {'train': examples, 'eval': examples})
    dataset = prepared(tmp_path / 'own', tmp_path)
    assert len(dataset.examples('train')) == 8
    write(tmp_path / 'own' / 'eval-00000-of-00004.tfrecord', examples)
    with pytest.raises(RunError, match='2 records were written, but the file has 8'):
        dataset.source.read('eval')


@pytest.mark.parametrize(
    'damage, message',
    [
        (lambda content: content[:-3], 'is longer than the rest of the file'),
        (lambda content: content[:40] + b'\xff' + content[41:], 'the record at byte 0 is corrupt: its checksum is wrong'),
        (lambda content: content + header(2**60), 'is longer than the rest of the file'),
        (gzip.compress, 'is compressed with GZIP: decompress it, with gunzip'),
    ],
)
def test_a_damaged_or_compressed_file_is_named_before_it_is_read(directory, tmp_path, damage, message):
    path = directory / 'train-00001-of-00002.tfrecord'
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunError, match=f'{path}: .*{message}'):
        prepared(directory, tmp_path)


def test_a_compressed_file_is_refused_by_its_name(directory, tmp_path):
    (directory / 'test.tfrecord.gz').write_bytes(b'')
    with pytest.raises(UsageError, match='test.tfrecord.gz: is compressed: decompress it'):
        prepared(directory, tmp_path)


@pytest.mark.parametrize(
    'example, message',
    [
        (b'no example', 'train-00001-of-00002.tfrecord: record 20, .* is not a tf.train.Example'),
        ({**mixed(1), 'label': 'one'}, 'the label label is bytes or int64'),
    ],
)
def test_a_record_that_differs_from_the_others_is_named(directory, tmp_path, example, message):
    write(directory / 'train-00001-of-00002.tfrecord', [*map(mixed, range(20, 40)), example])
    with pytest.raises(RunError, match=message):
        prepared(directory, tmp_path)


def test_a_feature_whose_values_differ_in_number_is_ignored_unless_the_schema_says_what_it_is(directory, tmp_path):
    write(directory / 'train-00001-of-00002.tfrecord', [{**mixed(1), 'v': [1.0]}])
    assert 'v' not in [feature['name'] for feature in prepared(directory, tmp_path).metadata['features']]
    with pytest.raises(RunError, match='the feature v has 1 to 2 values of float, but numeric needs 2'):
        prepared(directory, tmp_path, schema(tmp_path, features={'v': 'numeric'}))


def test_a_record_that_differs_after_the_sample_is_named(directory, tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord, '_SAMPLE', 10)
    path = write(directory / 'train-00001-of-00002.tfrecord', [mixed(0), {**mixed(1), 'x': [1.0, 2.0]}])
    with pytest.raises(RunError, match=f'{path}: record 1, at byte .*Key: x'):
        prepared(directory, tmp_path)


@pytest.mark.parametrize(
    'content, message',
    [
        ({'lable': 'x'}, 'unknown key lable, did you mean label'),
        ({'label': 'z'}, 'has no feature z'),
        (
            {'features': {'x': 'number'}},
            'x is of kind number, but the kinds are: numeric, categorical, image, text, ignore',
        ),
        ({'features': {'x': {'kind': 'numeric', 'size': 3}}}, 'unknown option size of the kind numeric'),
        ({'features': {'v': {'kind': 'numeric', 'shape': [-2]}}}, 'shape must be a list of positive integers'),
        ({'features': {'city': 'text'}}, 'city, review are of kind text'),
        ({'id': 'label'}, 'must be different features'),
        ({'task': 'classification', 'label': 'x'}, 'task is classification, but the label x is float'),
    ],
)
def test_a_wrong_schema_is_refused(directory, tmp_path, content, message):
    with pytest.raises(UsageError, match=message):
        prepared(directory, tmp_path, schema(tmp_path, **content))


@pytest.mark.parametrize(
    'content, message',
    [
        ({'features': {'v': {'kind': 'numeric', 'shape': [3]}}}, 'the feature v has 2 values of float, but numeric needs 3'),
        ({'features': {'city': 'numeric'}}, 'the feature city has 1 values of bytes, but numeric needs 1 of float or int64'),
        ({'features': {'x': 'categorical'}}, 'the feature x has 1 values of float, but categorical needs'),
    ],
)
def test_examples_that_are_not_of_the_schema_are_refused(directory, tmp_path, content, message):
    with pytest.raises(RunError, match=message):
        prepared(directory, tmp_path, schema(tmp_path, **content))


@pytest.mark.parametrize(
    'examples, message',
    [
        ([{'x': 1.0, 'y': 1}], 'must name the "label": the features of .* are: x, y'),
        ([{'label': 1}], 'no feature to learn from besides label'),
        ([{'label': 1, 'a': png(0, 2)}, {'label': 0, 'a': png(0, 3)}], 'the images a are of different sizes'),
    ],
)
def test_examples_that_do_not_say_enough_need_a_schema(tmp_path, examples, message):
    write(tmp_path / 'own' / 'train.tfrecord', examples)
    with pytest.raises(UsageError, match=message):
        prepared(tmp_path / 'own', tmp_path)


def test_a_missing_directory_or_split_is_named(directory, tmp_path):
    with pytest.raises(UsageError, match='tfrecord_dir=/no/such: there is no such directory'):
        prepared('/no/such', tmp_path)
    with pytest.raises(UsageError, match='there is no split test: the splits are: eval, train'):
        prepared(directory, tmp_path).source.read('test')


def test_input_is_read_by_the_metadata_alone(directory, tmp_path):
    dataset = prepared(directory, tmp_path)
    expected = [features for features, _ in dataset.examples('eval')]
    path = write(tmp_path / 'input.tfrecord', map(mixed, range(5)))
    shutil.rmtree(directory)
    shutil.rmtree(tmp_path / 'data')
    found, errors = dataset.predict(path)
    assert not errors
    for a, b in zip(found, expected, strict=True):
        for name, value in b.items():
            np.testing.assert_array_equal(a[name], value)


def test_input_that_lacks_a_feature_or_is_no_example_is_an_error_of_its_record(directory, tmp_path):
    dataset = prepared(directory, tmp_path)
    path = write(tmp_path / 'input.tfrecord', [mixed(0), {'x': 1.0}, b'no example'])
    found = {fields['record']: record for fields, record in tfrecord.read_input(str(path), dataset.params)}
    assert isinstance(found[0], bytes)
    assert str(found[1]) == f'{path}: record 1: has no feature photo, review'
    assert str(found[2]) == f'{path}: record 2: is not a tf.train.Example'


def test_a_model_learns_predicts_and_is_exported(run, tmp_path):
    examples = [{'x': float(i % 50), 'city': 'Rome', 'label': int(i % 50 > 25)} for i in range(300)]
    for split in ('train', 'eval'):
        write(tmp_path / 'own' / f'{split}.tfrecord', examples)
    flags = (MODEL, '--dataset=tfrecord', f'--hparams=tfrecord_dir={tmp_path}/own', f'--data_dir={tmp_path}/data')
    steps = ('--train_steps=150', '--save_checkpoints_steps=150')
    code, result, _ = run(*flags, *steps)
    assert code == 0 and result['eval']['accuracy'] > 0.9
    assert run(*flags, *steps, '--schedule=predict')[0] == 0
    code, result, _ = run(*flags, *steps, '--schedule=export')
    assert code == 0
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ['serve'], result['export']).signature_def['examples:serving_default']
        serialized = [records.encode({'x': x, 'city': 'Rome'}) for x in (49.0, 0.0)]
        found = session.run(signature.outputs['class'].name, {signature.inputs['examples'].name: serialized})
    assert list(found) == [1, 0]


def test_a_record_is_found_although_another_verified_file_is_gone(directory, tmp_path):
    other = write(tmp_path / 'other' / 'train.tfrecord', [{'label': 0}])
    manifest.check_alone(str(other))
    other.unlink()
    path = write(directory / 'train-00001-of-00002.tfrecord', [b'no example'])
    with pytest.raises(RunError, match=f'{path}: record 0, at byte 0: is not a tf.train.Example'):
        prepared(directory, tmp_path)


def test_numbers_that_are_not_finite_count_as_missing(tmp_path):
    values = [[1.0, float('nan')], [3.0, float('inf')], [float('-inf'), 5.0], [5.0, 9.0]]
    write(tmp_path / 'own' / 'train.tfrecord', [{'v': value, 'label': i % 2} for i, value in enumerate(values)])
    dataset = prepared(tmp_path / 'own', tmp_path)
    (feature,) = [feature for feature in dataset.metadata['features'] if feature['kind'] == 'numeric']
    assert (feature['mean'], feature['std']) == ([3, 7], [pytest.approx(np.std([1, 3, 5])), 2])
    found = sorted(features['numeric'].tolist() for features, _ in dataset.examples('train'))
    one = 2 / np.std([1, 3, 5])
    np.testing.assert_allclose(found, [[-one, 0], [0, -1], [0, 0], [one, 1]], atol=1e-6)


def test_a_regression_label_that_is_not_finite_is_reported(tmp_path):
    examples = [{'x': float(i), 'label': float('nan') if i == 7 else i / 2} for i in range(20)]
    write(tmp_path / 'own' / 'train.tfrecord', examples)
    with pytest.raises(RunError, match='own: the label label is NaN or infinite in the split train: correct it'):
        prepared(tmp_path / 'own', tmp_path)
