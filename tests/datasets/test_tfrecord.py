"""datasets/tfrecord.py: TFRecord files of a user's own."""

import gzip
import io
import json
import os
import shutil

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from common.data import manifest, records
from common.data import tfrecord as scanner
from common.errors import RunError, UsageError
from common.formats import example_metadata
from datasets import image_folder, tfrecord
from hparams.build import HParams
from tests.datasets.own_data import Prepared
from tests.tfrecords import header

pytestmark = pytest.mark.slow

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
        ('train-00000-of-00001.tfrecord', 'train'),
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


@pytest.mark.parametrize('weight', [-1.0, float('nan')])
def test_a_wrong_weight_is_named(run, tmp_path, weight):
    for split, wrong in (('eval', 1.0), ('train', weight)):
        examples = [{'x': float(i), 'label': i % 2, 'w': wrong if i == 6 else 0.0} for i in range(8)]
        path = write(tmp_path / 'own' / f'{split}.tfrecord', examples)
    hparams = f'--hparams=tfrecord_dir={tmp_path}/own,batch_size=4,{schema(tmp_path, weight="w")}'
    code, _, err = run(MODEL, '--dataset=tfrecord', hparams, f'--data_dir={tmp_path}/data', '--train_steps=2')
    assert code == 1
    place = f'{path}: record 6, at byte {6 * path.stat().st_size // 8}'
    assert err.splitlines()[-1].endswith(f'{place}: Key: w. A weight must not be negative, NaN or infinite')


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


def test_a_later_process_reads_only_files_that_changed_since_they_were_verified(directory, tmp_path, monkeypatch):
    scanned, scan = [], scanner.scan
    monkeypatch.setattr(scanner, 'scan', lambda path: scanned.append(os.path.basename(path)) or scan(path))

    def prepare(verify_data=False):
        for name, value in (('_verified', {}), ('_trusts', True)):  # As in a new process.
            monkeypatch.setattr(manifest, name, value)
        if verify_data:
            manifest.clear_cache()
        scanned.clear()
        found = prepared(directory, tmp_path)
        assert len(found.examples('train')) == 40
        found.source.read('eval')
        return sorted(scanned)

    names = ['eval.tfrecord', 'train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord']
    assert prepare() == names
    assert prepare() == []
    assert prepare(verify_data=True) == names
    path = directory / names[0]
    content, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(path, ns=times)
    assert prepare() == []  # The change cannot be seen.
    for verify_data in (True, False):  # What was found to be corrupt is no longer trusted.
        with pytest.raises(RunError, match='eval.tfrecord: the record at byte .* is corrupt.*: restore it'):
            prepare(verify_data)
    path.write_bytes(content)
    assert prepare() == names
    assert prepare() == []
    for memory in (tmp_path / 'data').glob('*/manifest.verified.json'):
        memory.write_text(json.dumps({str(path): [], str(directory / names[1]): 5}))
    assert prepare() == names
    assert sorted(os.listdir(directory)) == names


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
    monkeypatch.setattr(example_metadata, '_SAMPLE', 10)
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


def encoded(kind, mode='RGB'):
    content = io.BytesIO()
    Image.new(mode, (4, 4)).save(content, kind)
    return content.getvalue()


@pytest.mark.parametrize(
    'images, options, message',
    [
        ([png(0), b''], {}, 'the image a is empty in 1 of the first 2 examples that have it'),
        ([b'\x89PNG', b'\x89PNG'], {}, 'the image a is not an image of a kind that Pillow reads'),
        ([png(0), png(1)], {'channels': 2}, '2 channels of the image a: an image file is decoded to 1 or 3 or 4 channels'),
        ([encoded('gif'), png(1)], {'channels': 1}, '1 channels of the image a: GIF and BMP files are decoded to 3 channels'),
        ([encoded('bmp', 'L')] * 2, {}, 'the image a is a BMP file, gray or with a palette, which cannot be decoded: use PNG'),
        ([np.zeros(16)] * 2, {'size': 4}, 'the feature a has 16 values of float, but image needs 1 of bytes'),
    ],
)
def test_images_that_cannot_be_decoded_are_refused(tmp_path, images, options, message):
    write(tmp_path / 'own' / 'train.tfrecord', [{'a': image, 'label': i} for i, image in enumerate(images)])
    given = [schema(tmp_path, features={'a': {'kind': 'image', **options}})] if options else []
    with pytest.raises((RunError, UsageError), match=message):
        prepared(tmp_path / 'own', tmp_path, *given)


@pytest.mark.parametrize('kind', ['gif', 'bmp'])
def test_gif_and_bmp_images_are_in_color(tmp_path, kind):
    write(tmp_path / 'own' / 'train.tfrecord', [{'a': encoded(kind), 'label': i} for i in range(2)])
    ((features, _), _) = prepared(tmp_path / 'own', tmp_path).examples('train')
    assert features['image'].tolist() == np.zeros([4, 4, 3]).tolist()


def test_an_image_after_the_sample_that_cannot_be_decoded_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setattr(example_metadata, '_SAMPLE', 4)
    for split in ('train', 'eval'):
        images = [png(i, 8) for i in range(6)] + [b'' if split == 'train' else png(6, 8)]
        write(tmp_path / 'own' / f'{split}.tfrecord', [{'a': image, 'label': i % 2} for i, image in enumerate(images)])
    hparams = f'--hparams=tfrecord_dir={tmp_path}/own,filters=[4],dense_units=8,batch_size=7'
    code, _, err = run('--dataset=tfrecord', hparams, f'--data_dir={tmp_path}/data', '--train_steps=2')
    assert code == 1
    assert 'train.tfrecord: record 6, at byte' in err.splitlines()[-1] and 'Input is empty' in err.splitlines()[-1]


def test_an_empty_split_is_named_and_an_empty_file_has_no_examples(run, tmp_path):
    write(tmp_path / 'own' / 'train-00000-of-00002.tfrecord', [{'x': float(i), 'label': i % 2} for i in range(8)])
    write(tmp_path / 'own' / 'train-00001-of-00002.tfrecord', [])
    write(tmp_path / 'own' / 'eval.tfrecord', [])
    code, _, err = run(
        MODEL, '--dataset=tfrecord', f'--hparams=tfrecord_dir={tmp_path}/own', f'--data_dir={tmp_path}/data', '--train_steps=2'
    )
    assert code == 1 and 'the split eval' in err.splitlines()[-1] and 'empty' in err.splitlines()[-1]
    assert len(prepared(tmp_path / 'own', tmp_path).examples('train')) == 8


@pytest.mark.parametrize(
    'names, missing',
    [
        (['train-00000-of-00003.tfrecord', 'train-00002-of-00003.tfrecord'], 'train-00001-of-00003.tfrecord'),
        (['own-train.tfrecord-00001-of-00002'], 'own-train.tfrecord-00000-of-00002'),
        (['train-1-of-3.tfrecord', 'train-3-of-3.tfrecord'], 'train-2-of-3.tfrecord'),
        (['train-1-of-2.tfrecord', 'train-2-of-2.tfrecord'], None),
    ],
)
def test_a_missing_file_of_several_is_named(tmp_path, names, missing):
    for name in names:
        write(tmp_path / 'own' / name, [{'x': float(i), 'label': i % 2} for i in range(4)])
    if missing:
        with pytest.raises(RunError, match=f'/own/{missing}: is missing, but others'):
            prepared(tmp_path / 'own', tmp_path)
    else:
        assert len(prepared(tmp_path / 'own', tmp_path).examples('train')) == 8


def test_a_missing_directory_or_split_is_named(directory, tmp_path):
    with pytest.raises(UsageError, match='tfrecord_dir=/no/such: there is no such directory'):
        prepared('/no/such', tmp_path)
    with pytest.raises(UsageError, match='there is no split test: the splits are: eval, train: name one with --eval_splits, '):
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


@pytest.mark.parametrize('is_raw', [False, True])
def test_a_model_of_images_alone_takes_pictures_and_is_exported_with_the_signature_image(run, tmp_path, is_raw):
    flags = ['--model=alexnet', '--dataset=tfrecord', f'--data_dir={tmp_path}/data', '--train_steps=20']
    hparams = f'tfrecord_dir={tmp_path}/own,filters=[4],dense_units=8,drop_rate=0.0,batch_size=10,learning_rate=0.02'
    if is_raw:
        examples = [{'photo': bytes([255 * (i % 2)] * 64), 'label': i % 2} for i in range(40)]
        hparams += ',' + schema(tmp_path, features={'photo': {'kind': 'image', 'size': 8}})
    else:
        examples = [{'photo': png(255 * (i % 2), size=8), 'label': i % 2, 'row': i} for i in range(40)]
        hparams += ',' + schema(tmp_path, id='row')
    for split in ('train', 'eval'):
        write(tmp_path / 'own' / f'{split}.tfrecord', examples)
    flags.append(f'--hparams={hparams}')
    assert run(*flags)[1]['eval']['accuracy'] == 1
    shutil.rmtree(tmp_path / 'own')
    (tmp_path / 'input').mkdir()
    Image.new('RGBA', (30, 20), (0, 0, 0, 0)).save(tmp_path / 'input' / 'a.png')  # Transparent: white.
    Image.new('RGB', (5, 5)).save(tmp_path / 'input' / 'b.jpg')
    (tmp_path / 'input' / 'c.png').write_text('text')
    code, result, err = run(*flags, '--schedule=predict', f'--input={tmp_path}/input/*')
    assert code == 0 and result['errors'] == 1, err
    found = [json.loads(line) for line in open(result['predictions'])]
    assert [line.get('class') for line in found] == [1, 0, None]
    assert [line['input'] for line in found] == [f'{tmp_path}/input/{name}' for name in ('a.png', 'b.jpg', 'c.png')]
    assert found[2]['error'] == f'{tmp_path}/input/c.png is not an image of a kind that Pillow reads'
    _, result, _ = run(*flags, '--schedule=export')
    images = np.stack([np.full([8, 8, 1], value, np.uint8) for value in (255, 0)])
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ['serve'], result['export']).signature_def['serving_default']
        assert list(session.run(signature.outputs['class'].name, {signature.inputs['image'].name: images})) == [1, 0]


def test_pictures_are_not_enough_for_a_model_of_other_features(directory, tmp_path):
    dataset = prepared(directory, tmp_path)
    assert not dataset.source.has_images()
    with pytest.raises(RunError, match='/x.PNG: the model needs the features city, photo, review, v, x: give TFRecord files'):
        list(tfrecord.read_input('/x.PNG', dataset.params))


@pytest.mark.parametrize('shape', [(8, 8), (4, 4), (12, 12), (8, 16), (2, 2), (2, 8)])
def test_images_are_resized_as_those_of_image_folder(tmp_path, shape):
    pixels = np.random.RandomState(1).randint(0, 256, [*shape, 3], np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, 'png')
    write(tmp_path / 'own' / 'train.tfrecord', [{'photo': content.getvalue(), 'label': i} for i in range(2)])
    given = schema(tmp_path, features={'photo': {'kind': 'image', 'size': 4}})
    features, _ = prepared(tmp_path / 'own', tmp_path, given).examples('train')[0]
    image, (height, width) = features['image'] * 255, shape
    if height % 4 == width % 4 == 0:  # The means of blocks.
        expected = pixels.reshape(4, height // 4, 4, width // 4, 3).mean((1, 3))
        np.testing.assert_allclose(image, expected, atol=1e-3)
    else:  # Pillow rounds after each of the two directions.
        expected = np.asarray(Image.fromarray(pixels).resize((4, 4), Image.Resampling.BILINEAR), np.float32)
        np.testing.assert_allclose(image, expected, atol=1.01)
    hparams = HParams({'image_size': 4, 'num_channels': 3})
    with tf.Graph().as_default(), tf.Session() as session:
        record = records.encode({'image': content.getvalue(), 'height': height, 'width': width})
        same, _ = image_folder.parse(tf.estimator.ModeKeys.PREDICT, hparams, record)
        np.testing.assert_allclose(session.run(same['image']), features['image'], rtol=1e-6)


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
