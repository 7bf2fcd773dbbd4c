"""Users' own tf.train.Examples: their metadata, their parser, and datasets/tfrecord.py."""

import gzip
import io
import json
import os
import re
import shutil

import numpy as np
from PIL import ExifTags, Image
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.own_data import example_facts, example_input, example_metadata, example_parser, tokens
from estimator_trainer.common.own_data.schema import FEATURES, Schema, find_roles
from estimator_trainer.common.records import manifest, records
from estimator_trainer.datasets import tfrecord
from estimator_trainer.hparams.build import HParams
from tests.datasets.own_data import EVAL, PREDICT, Prepared, mixed, parse, picture, prepare_raw
from tests.shared import failed, raised, refused


def infer(examples, **features):
    sample = [records.decode(records.encode(example)) for example in examples]
    schema = Schema(FEATURES, 's.json', {'features': features, 'label': 'label'})
    roles = find_roles(schema, {'label', *(name for example in sample for name in example)}, 'own')
    return example_facts.infer_features(sample, schema, roles, 'own')


def describe(train, schema=None, names=None, class_names=None, others=None, **params):
    """Returns the metadata of examples; `others` are those of other splits."""

    def read(split):
        return tf.data.Dataset.from_tensor_slices(tf.constant([*map(records.encode, splits[split])], tf.string))

    splits = {'train': [*train], **(others or {})}
    schema, params = Schema(FEATURES, 's.json', schema or {}), HParams({**tokens.get_params(), **params})
    examples = example_metadata.Examples('own', [*splits], 'train', read)
    return example_metadata.describe(examples, schema, params, names, class_names)


def parsed(facts, examples, mode=EVAL, **params):
    return parse(example_parser, HParams({**tokens.get_params(), **params}, facts), [*map(records.encode, examples)], mode)


def feature(name, stored, kind, **facts):
    return {'name': name, 'stored': stored, 'kind': kind, 'values': 1, **facts}


def test_features_of_every_kind_are_found_described_and_parsed(caplog):
    caplog.set_level('INFO', 'tensorflow')
    facts = describe(map(mixed, range(300)), {'features': {'zip': 'categorical'}})
    std, vocabulary = np.arange(300).std(), ['a', 'film', 'good', 'number']
    label = {'task': 'classification', 'class_names': ['0', '1', '2'], 'num_classes': 3}
    sizes = {'vocabulary_sizes': {'categorical': [3, 3]}, 'vocabulary_size': 6, 'image_size': 4, 'num_channels': 1}
    features = [
        feature('city', 'bytes', 'categorical', vocabulary=['Oslo', 'Rome']),
        feature('photo', 'bytes', 'image', size=4, channels=1, is_raw=False),
        feature('review', 'bytes', 'text'),
        feature('v', 'float', 'numeric', values=2, mean=[1, 0.5], std=[1, 0.5]),  # A constant has the deviation 1.
        feature('x', 'float', 'numeric', mean=[149.5], std=[pytest.approx(std)]),
        feature('zip', 'int64', 'categorical', vocabulary=['0', '1']),
        feature('label', 'int64', 'label'),
    ]
    assert facts == {'features': features, 'vocabulary': vocabulary, **label, **sizes}
    assert json.loads(json.dumps(facts)) == facts
    for line in ('image: photo', 'numeric: v, x', 'categorical: city, zip', 'text: review', 'label: label, classification'):
        assert f'own: {line}\n' in caplog.text
    ((features, labels),) = parsed(facts, [mixed(7)])
    types = {'image': np.float32, 'numeric': np.float32, 'categorical': np.int32, 'text': np.int32}
    assert {name: value.dtype for name, value in features.items()} == types
    np.testing.assert_allclose(features['numeric'], [0, 1, (7 - 149.5) / std], rtol=1e-5)
    assert features['categorical'].tolist() == [1, 2] and features['text'].tolist() == [2, 4, 3, 5, 1]
    np.testing.assert_allclose(features['image'], np.full([4, 4, 1], 7 / 255), rtol=1e-6)
    assert labels == {'label': 1} and labels['label'].dtype == np.int32
    np.testing.assert_equal(parsed(facts, [mixed(7)], PREDICT), [features])

    raw = {name: [example[name] for example in (mixed(7), mixed(8))] for name in ('city', 'photo', 'review', 'v', 'x')}
    raw['review'][1] = 'bad'
    found = prepare_raw(example_parser, HParams(tokens.get_params(), facts), {**raw, 'zip': ['1', '']})
    assert found.keys() == features.keys() and found['categorical'].tolist() == [[1, 2], [2, 0]]
    assert found['text'].tolist() == [[2, 4, 3, 5, 1], [1, 0, 0, 0, 0]]
    for name in ('image', 'numeric'):
        np.testing.assert_allclose(found[name][0], features[name], rtol=1e-6)
    np.testing.assert_allclose(found['numeric'][1], [0, -1, (8 - 149.5) / std], rtol=1e-5)
    specs = example_parser.raw_specs(HParams({}, facts))
    assert {name: spec.shape.as_list()[1:] for name, spec in specs.items()} == {**dict.fromkeys(specs, []), 'v': [2]}
    assert [name for name, spec in specs.items() if spec.name == 'picture'] == ['photo']


def test_the_kind_is_found_in_the_values(caplog):
    caplog.set_level('INFO', 'tensorflow')
    for values, expected in (
        (['a b c', 'd e'], 'ignored: it is neither text nor an image, or different in each'),
        (['a b c', 'd e f'], 'text'),
        (['a b c', 'a b c', 'd e'], 'categorical'),
        ([b'\xff', b'\xff'], 'ignored: it is neither text nor an image'),
        (['', ''], 'categorical'),
        ([1, 2], 'numeric'),
        ([[1.0], [1.0, 2.0]], 'ignored: its values differ in number'),
        ([[], []], 'ignored: its values differ in number'),
        ([1, 'b'], 'ignored: it is bytes or int64'),
    ):
        caplog.clear()
        found = {feature['name']: feature['kind'] for feature in infer([{'a': value, 'z': 1.0} for value in values])}
        log = f'own: the feature a is {expected}'
        assert found.get('a') == expected and not caplog.text or 'a' not in found and log in caplog.text, values


def test_a_schema_gives_kinds_and_is_rejected_if_the_examples_contradict_it(caplog):
    given = {'x': {'kind': 'ignore'}, 'v': {'kind': 'numeric', 'shape': [2, 1]}, 'zip': 'categorical', 'city': 'ignore'}
    found = infer([mixed(0)] * 2, **given, photo={'kind': 'image', 'size': 2, 'channels': 3}, review='categorical')
    photo = feature('photo', 'bytes', 'image', size=2, channels=3, is_raw=False)
    review, code = feature('review', 'bytes', 'categorical'), feature('zip', 'int64', 'categorical')
    assert found == [photo, review, feature('v', 'float', 'numeric', values=2), code]
    assert not caplog.text
    for features, error, message in (
        ({'x': 'number'}, UsageError, f'the feature x is of kind number, but the kinds are: {", ".join(FEATURES.kinds)}'),
        ({'x': {'kind': 'numeric', 'size': 3}}, UsageError, 's.json: the feature x: unknown option size of the kind numeric'),
        ({'v': {'kind': 'numeric', 'shape': [0]}}, UsageError, 's.json: the feature v: shape must be a list of positive int'),
        ({'v': {'kind': 'numeric', 'shape': [10**6 + 1]}}, UsageError, 'v: shape must be a list of positive integers'),
        ({'photo': {'kind': 'image', 'size': True}}, UsageError, 's.json: the feature photo: size must be a positive integer'),
        ({'city': 'text'}, UsageError, 'own: city, review are of kind text: --hparams=schema must ignore all but one'),
        ({'v': {'kind': 'numeric', 'shape': [3]}}, RunError, 'v has 2 values of float, but numeric needs 3 of float'),
        ({'city': 'numeric'}, RunError, 'own: the feature city has 1 values of bytes, but numeric needs 1 of float or int64'),
        ({'x': 'categorical'}, RunError, 'the feature x has 1 values of float, but categorical needs 1 of bytes or int64'),
        ({'w': 'numeric'}, RunError, 'the feature w has 1 to 2 values of int64, but numeric needs 2 of float or int64'),
        ({'x': 'image'}, RunError, 'the feature x has 1 values of float, but image needs 1 of bytes'),
    ):
        assert message in raised(error, infer, [{**mixed(0), 'w': [1, 2]}, {**mixed(1), 'w': 1}], **features)


def test_images_are_decoded_resized_or_taken_as_pixels_and_others_refused():
    for images, options, message in (
        ([picture(), b''], {}, 'the image a is empty in 1 of the first 2 examples that have it'),
        ([b'\x89PNG'], {}, 'the image a is not an image of a kind that Pillow reads'),
        ([picture()[:20]], {}, 'the image a (cannot be read: .*|is not an image of a kind that Pillow reads)'),
        ([picture('gif'), picture()], {'channels': 1}, '1 channels of the image a: GIF and BMP files are decoded to 3 chan'),
        ([picture()], {'channels': 2}, '2 channels of the image a: an image file is decoded to 1 or 3 or 4 channels'),
        ([picture('bmp')], {}, 'the image a is a BMP file, gray or with a palette, which cannot be decoded: use PNG'),
        ([picture(), picture(size=(5, 5))], {}, 'the images a are of different sizes, or not square: give a "size" in the'),
        ([bytes(9), bytes(8)], {'size': 3}, 'the images a are of 8 to 9 bytes, neither JPEG, PNG, GIF nor BMP: give their'),
    ):
        with pytest.raises((RunError, UsageError), match=f'^own: {message}'):
            infer([{'a': image} for image in images], a={'kind': 'image', **options})
    pixels = np.arange(12, dtype=np.uint8)
    for images, options, expected in (
        ([pixels.tobytes()] * 2, {'size': 2, 'channels': 3}, pixels.reshape(2, 2, 3)),
        ([picture(value=7), picture(mode='1')], {}, np.full([4, 4, 1], 7)),
        ([picture(value=7), picture(mode='RGB')], {}, np.full([4, 4, 3], 7)),
        ([picture(size=(8, 6), value=7), picture('jpeg')], {'size': 2, 'channels': 4}, np.full([2, 2, 4], [7, 7, 7, 255])),
        ([picture('gif', 'RGB', value=(255, 0, 0))] * 2, {}, np.full([4, 4, 3], [255, 0, 0])),
        ([picture('bmp', 'RGB', value=(0, 255, 0))] * 2, {}, np.full([4, 4, 3], [0, 255, 0])),
    ):
        examples = [{'a': image, 'label': i} for i, image in enumerate(images)]
        facts = describe(examples, {'features': {'a': {'kind': 'image', **options}}})
        np.testing.assert_allclose(parsed(facts, examples[:1])[0][0]['image'], expected / 255, rtol=1e-6)
        is_raw = facts['features'][0]['is_raw']  # Then pixels are an array.
        raw = {'a': [expected.astype(np.uint8) if is_raw else images[0]]}
        found = prepare_raw(example_parser, HParams({}, facts), raw)['image']
        np.testing.assert_allclose(found, expected[None] / 255, rtol=1e-6)
    assert 'Input is empty' in raised(tf.errors.InvalidArgumentError, parsed, facts, [{'a': b'', 'label': 0}])


def test_roles_are_given_or_usual_names_and_some_of_them_and_of_the_labels_cannot_be_used():
    given = Schema(FEATURES, '', {'weight': 'w', 'id': 'x'})
    assert find_roles(given, ['target', 'x', 'w'], '') == {'label': 'target', 'weight': 'w', 'id': 'x'}
    for schema, message in (
        ({}, '--hparams=schema must name the "label": the features of own are: label, target'),
        ({'label': 'z'}, 's.json: own has no feature z'),
        ({'features': {'z': 'text'}}, 's.json: own has no feature z'),
        ({'label': 'label', 'id': 'label'}, 's.json: label, id must be different features'),
    ):
        assert message in refused(find_roles, Schema(FEATURES, 's.json', schema), ['label', 'target'], 'own')
    manifest.clear_cache(trusts=True)  # The files of other tests would be searched for the record.
    for labels, schema, error, message in (
        (['a', 'b'], {'task': 'regression'}, UsageError, 's.json: task is regression, but the label label is bytes'),
        ([1.5, 2.5], {'task': 'classification'}, UsageError, 's.json: task is classification, but the label label is float'),
        ([1.5, float('nan')], {}, RunError, 'own: the label label is NaN or infinite in the split train: correct it'),
        ([7, 7], {}, RunError, 'own: the label label is always 7: name another in the schema'),
        ([1, 'one'], {}, RunError, 'own: the label label is bytes or int64'),
        ([0, 1], {'weight': 'w'}, RunError, 'own: the weight w is bytes'),
        ([0, 1], {'id': 'x'}, RunError, 'own: the id x is float'),
        ([0, 1], {'features': {'x': 'ignore', 'w': 'ignore'}}, UsageError, 'no feature to learn from besides label'),
        ([], {}, RunError, 'own: the split train is empty'),
        ([[1, 2], [0]], {}, RunError, 'Key: label'),
    ):
        assert message in raised(error, describe, labeled(labels, w='heavy'), schema)


def test_a_picture_suffices_for_a_model_of_an_image_alone(tmp_path):
    def read(name, **feature):
        facts = {'features': [{'name': 'a', 'kind': 'image', 'size': 2, 'channels': 1, **feature}, {'kind': 'label'}, *others]}
        ((fields, record),) = example_input.read_input(str(tmp_path / name), HParams({}, facts))
        assert fields == {} and example_parser.image_features(HParams({}, facts), tf.constant([51]))['image'] == np.float32(0.2)
        return records.decode(record)['a'][1][0]

    Image.new('RGBA', (30, 20), (0, 0, 0, 51)).save(tmp_path / 'a.PNG')
    tags = Image.Exif()
    for name, tags[ExifTags.Base.Orientation] in (('b.jpg', 1), ('c.jpg', 6)):
        Image.new('L', (5, 4), 7).save(tmp_path / name, exif=tags)
    (tmp_path / 'd.png').write_text('text')
    others = []
    assert read('a.PNG', is_raw=True) == bytes([204] * 4)  # Blended with white.
    assert read('b.jpg', is_raw=False) == (tmp_path / 'b.jpg').read_bytes()
    for name, size, pixel in (('a.PNG', (30, 20), (204, 204, 204)), ('c.jpg', (4, 5), 7)):
        image = Image.open(io.BytesIO(read(name, is_raw=False)))
        assert (image.format, image.size, image.getpixel((1, 1))) == ('PNG', size, pixel)
    assert failed(read, 'd.png', is_raw=False).endswith('/d.png is not an image of a kind that Pillow reads')
    facts = HParams(
        {}, {'features': [{'name': 'a', 'kind': 'image', 'size': 2, 'channels': 1, 'is_raw': False, 'stored': 'bytes'}]}
    )
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4)).save(tmp_path / 'c.jpg', exif=tags, quality=100)
    for name in ('a.PNG', 'b.jpg', 'c.jpg'):
        ((_, record),) = example_input.read_input(str(tmp_path / name), facts)
        (expected,) = parse(example_parser, facts, [record], PREDICT)
        found = prepare_raw(example_parser, facts, {'a': [(tmp_path / name).read_bytes()]})
        np.testing.assert_allclose(found['image'][0], expected['image'], atol=2 / 255)  # Pillow decodes JPEG otherwise.
        assert name != 'c.jpg' or found['image'][0, 0, 0, 0] > found['image'][0, 0, 1, 0] + 1 / 255  # It is turned.
    others = [{'name': 'x', 'kind': 'numeric'}]
    assert 'a.PNG: the model needs the features a, x: give TFRecord files' in failed(read, 'a.PNG', is_raw=False)
    image = {'name': 'a', 'kind': 'image', 'size': 2, 'channels': 1, 'is_raw': False}

    def read_label(folder, others=(), **label):
        (tmp_path / folder).mkdir(exist_ok=True)
        path = shutil.copy(tmp_path / 'b.jpg', tmp_path / folder / 'b.jpg')
        facts = {'features': [image, {'name': 'y', 'kind': 'label', **label}, *others], 'class_names': ['7', '9']}
        ((fields, record),) = example_input.read_labeled(str(path), HParams({}, facts))
        return records.decode(record)['y']

    assert read_label('9', stored='int64') == ('int64', [9]) and read_label('7', stored='bytes') == ('bytes', [b'7'])
    assert read_label('9', stored='int64', is_index=True) == ('int64', [1])
    wrong = f'{tmp_path}/8/b.jpg: its folder, 8, is not named after a class: 7, 9'
    assert failed(read_label, '8', stored='int64') == wrong
    weight = {'name': 'w', 'kind': 'weight'}
    assert 'b.jpg: a picture alone has no label y, or no weight: give TFRecord' in failed(
        read_label, '7', [weight], stored='bytes'
    )
    assert example_parser.image_features(HParams({}, {'features': others}), tf.constant([51])) is None


def labeled(labels=(0, 1) * 4, **more):
    return [{'x': float(i % 5), 'label': label, **more} for i, label in enumerate(labels)]


def test_the_label_is_of_classes_of_all_splits_or_a_number():
    for labels, schema, class_names, expected, last in (
        ([2, 10, 1], {}, {}, ['1', '2', '10', '77'], 0),
        (['b', 'a'], {}, {}, ['a', 'b', 'eval'], 0),
        (range(999), {}, {}, [str(i) for i in range(999)], 998),
        (range(1001), {}, {}, (500, np.std(range(1001))), 1000.0),
        ([1.5, 2.5], {}, {}, (2, 0.5), 2.5),
        ([0, 1], {}, {'label': ['no', 'yes', 'never']}, ['no', 'yes', 'never'], 1),
        ([1, 3], {'task': 'regression'}, {'label': ['no', 'yes']}, (2, 1), 3.0),
    ):
        other = {int: 77 if len(labels) < 9 else 5, str: 'eval', float: 9.0}[type(labels[0])]
        others = {'eval': labeled([other]), 'test': [{'x': 1.0}]}
        facts = describe(labeled(labels), schema, class_names=class_names, others=others)
        found = {name: facts[name] for name in facts if name.startswith(('task', 'class', 'num_', 'target'))}
        if isinstance(expected, list):
            assert found == {'task': 'classification', 'class_names': expected, 'num_classes': len(expected)}
        else:
            assert found == {'task': 'regression', 'target_mean': expected[0], 'target_std': pytest.approx(expected[1])}
        ((_, found),) = parsed(facts, labeled(labels)[-1:])
        assert found['label'] == last and found['label'].dtype == {int: np.int32, float: np.float32}[type(last)]


def test_examples_may_have_a_weight_and_an_id_and_lack_numbers_and_categories():
    examples = [{'x': 1.0, 'label': i % 2, 'w': i, 'name': i + 7} for i in range(3)]
    facts = describe(examples, {'weight': 'w', 'id': 'name'})
    found = [(features['example_id'], labels['weight']) for features, labels in parsed(facts, examples)]
    assert found == [(b'7', 0), (b'8', 1), (b'9', 2)] and found[0][1].dtype == np.float32
    assert parsed(facts, [{'x': 1.0}], PREDICT)[0]['example_id'] == b''
    facts = describe([{**example, 'w': 1.0} for example in examples], {'weight': 'w'})
    for weight in (-0.5, float('inf')):
        with pytest.raises(tf.errors.InvalidArgumentError, match='Key: w. A weight must not be negative, NaN or infinite'):
            parsed(facts, [{**examples[0], 'w': weight}])
    # The finite numbers have the means 3 and 7, and the deviations 1.63 and 2.
    values = [[1.0, float('nan')], [3.0, float('inf')], [float('-inf'), 5.0], [5.0, 9.0]]
    examples = [{'v': value, 'c': 'ab'[i // 2], 'label': i % 2} for i, value in enumerate(values)]
    facts = describe([*examples, {'label': 1}])
    found = [features for features, _ in parsed(facts, [*examples, {'label': 1}])]
    expected, one = [[-1, 0], [0, 0], [0, -1], [1, 1], [0, 0]], [2 / np.std([1, 3, 5]), 1]
    np.testing.assert_allclose([features['numeric'] for features in found], np.multiply(expected, one), atol=1e-6)
    assert [features['categorical'].tolist() for features in found] == [[1], [1], [2], [2], [0]]


def test_vocabularies_are_limited_and_what_is_known_is_kept_for_each_state_of_the_hyper_parameters(tmp_path):
    examples = [{'c': 'aab'[i % 3], 'text': f'good good {"bad" * (i > 7)} film', 'label': i % 2} for i in range(9)]
    for limits in ({'min_count': 4}, {'max_vocabulary': 1}):
        facts = describe(examples, {'features': {'text': 'text'}}, **limits)
        assert facts['features'][0]['vocabulary'] == ['a'] and facts['vocabulary_sizes'] == {'categorical': [2]}
        assert facts['vocabulary'] == ['good', 'film'][: 3 - len(limits) if 'min_count' in limits else 1]
    facts = describe(examples, names={'text', 'label'}, tokens='bytes')
    assert [feature['name'] for feature in facts['features']] == ['text', 'label']
    assert (facts['vocabulary'], facts['vocabulary_size']) == ([], 257)
    assert parsed(facts, examples[:1], tokens='bytes', max_length=2)[0][0]['text'].tolist() == [ord('g') + 1, ord('o') + 1]
    (tmp_path / 's.json').write_text('{"label": "y"}')
    given = {'schema': '', 'train_split': 'train', 'image_size': 0, **tokens.get_params()}
    changes = {'image_size': 3, 'tokens': 'bytes', 'min_count': 1, 'max_vocabulary': 9, 'train_split': 'eval'}
    changes = [{}, {'schema': str(tmp_path / 's.json')}, *({name: changes[name]} for name in changes)]
    paths = {example_metadata.facts_path('d', HParams({**given, **change})) for change in changes}
    assert len(paths) == len(changes) and all(path.startswith('d/metadata-') for path in paths)
    assert example_metadata.facts_path('d', HParams({**given, 'max_length': 7})) in paths


def write(path, examples):
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            writer.write(example if isinstance(example, bytes) else records.encode(example))
    return path


@pytest.fixture
def prepared(tmp_path):
    return lambda *hparams, path=tmp_path / 'own': Prepared(tfrecord, tmp_path / 'data', f'tfrecord_dir={path}', *hparams)


def test_files_are_verified_and_read_in_order_and_input_by_the_metadata_alone(tmp_path, prepared):
    directory = tmp_path / 'own'
    for i in range(2):
        write(directory / f'train-0000{i}-of-00002.tfrecord', map(mixed, range(20 * i, 20 * i + 20)))
    write(directory / 'eval.tfrecord', map(mixed, range(5)))
    found = prepared()
    expected = [features for features, _ in found.read('eval')]
    examples = found.read('train')
    assert [labels['label'] for _, labels in examples] == [i % 3 for i in range(40)]
    assert [round(features['image'][0, 0, 0] * 255) for features, _ in examples] == list(range(40))
    assert '/own: there is no split test: the splits are: eval, train: name one with --eval' in refused(found.read, 'test')
    assert found.source.is_parsed_once() and not found.source.has_images()
    assert len(os.listdir(directory)) == 3  # Nothing is written beside the files.
    path = directory / 'train-00001-of-00002.tfrecord'
    content = path.read_bytes()
    for damaged, message in (
        (content[:40] + b'\xff' + content[41:], 'the record at byte 0 is corrupt: .*: restore it'),
        (gzip.compress(content), 'is compressed with GZIP: decompress it, with gunzip'),
    ):
        path.write_bytes(damaged)
        assert re.search(f'{path}: .*{message}', failed(prepared))
    path = write(tmp_path / 'input.tfrecord', [*map(mixed, range(5)), {'x': 1.0}, b'no example'])
    shutil.rmtree(directory)
    shutil.rmtree(tmp_path / 'data')
    features, errors = found.predict(path)
    wrong = {5: 'has no feature photo, review', 6: 'is not a tf.train.Example'}
    assert errors == {number: f'{path}: record {number}: {text}' for number, text in wrong.items()}
    np.testing.assert_equal(features, expected)
    write(path, [*map(mixed, range(5)), {name: value for name, value in mixed(5).items() if name != 'label'}])
    examples, errors = found.read_labeled(path)
    assert [labels['label'] for _, labels in examples] == [0, 1, 2, 0, 1]
    assert errors == {5: f'{path}: record 5: has no feature label'}


def test_the_split_is_in_the_file_name_and_a_missing_file_is_named(tmp_path, prepared):
    for name in (
        *('train.tfrecord', '.hidden.tfrecord', 'README.md', 'eval-3.tfrecords', 'mnist-test.tfrecord-00000-of-00001'),
        *('own.fold3-1-of-2.tfrecord', 'own.fold3-2-of-2.tfrecord'),  # They may be counted from 1.
    ):
        write(tmp_path / 'own' / name, labeled([0, 1, 0, 1]))
    found = prepared().source
    counts = {split: found.read(split).cardinality().numpy() for split in ('train', 'eval', 'test', 'fold3')}
    assert counts == {'train': 4, 'eval': 4, 'test': 4, 'fold3': 8}
    for names, error, message in (
        (['train-00000-of-00003.tfrecord', 'train-00002-of-00003.tfrecord'], RunError, '/own/train-00001-of-00003.tfrecord: '),
        (['own-train.tfrecord-00001-of-00002'], RunError, '/own/own-train.tfrecord-00000-of-00002: is missing, but others of'),
        (['train-1-of-3.tfrecord', 'train-3-of-3.tfrecord'], RunError, '/own/train-2-of-3.tfrecord: is missing, but others of'),
        (['train.tfrecord.gz'], UsageError, '/own/train.tfrecord.gz: is compressed: decompress it'),
        (['a.csv'], UsageError, 'tfrecord_dir=.*/own: there is no file named train.tfrecord, or train-.*.tfrecord'),
        ([], UsageError, 'tfrecord_dir=.*/own: there is no such directory'),
    ):
        shutil.rmtree(tmp_path / 'own', ignore_errors=True)
        for name in names:
            write(tmp_path / 'own' / name, labeled([0, 1, 0, 1]))
        assert re.search(message, raised(error, prepared))
    assert 'tfrecord_dir=PATH is required' in refused(prepared, path='')
    assert 'tokens=letters must be words or bytes' in refused(prepared, 'tokens=letters')


def test_files_are_verified_by_their_manifest_and_a_record_that_differs_from_the_others_is_named(tmp_path, prepared):
    records.write(str(tmp_path / 'own'), {'train': labeled(), 'eval': labeled()})
    found = prepared()
    assert len(found.read('train')) == 8
    write(tmp_path / 'own' / 'eval-00000-of-00004.tfrecord', labeled())
    assert '2 records were written, but the file has 8' in failed(found.read, 'eval')
    shutil.rmtree(tmp_path / 'own')
    other = write(tmp_path / 'other' / 'train.tfrecord', [{'label': 0}])
    manifest.check_alone(str(other))
    other.unlink()  # The search continues with the next file.
    path = write(tmp_path / 'own' / 'train.tfrecord', [*labeled([0, 1]), b'no example'])
    assert re.search(f'{path}: record 2, at byte .* is not a tf.train.Example', failed(prepared))
    write(path, [*labeled([0, 1] * 500), {'x': [1.0, 2.0], 'label': 0}])  # After the sample.
    assert re.search(f'{path}: record 1000, at byte .*Key: x', failed(prepared))
