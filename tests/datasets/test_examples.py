"""Users' own tf.train.Examples: their metadata, their parser, and datasets/tfrecord.py."""

import gzip
import io
import json
import os
import re
import shutil
import zlib

import numpy as np
from PIL import ExifTags, Image, ImageFile
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.own_data.examples import inference, input_files, parser, survey
from estimator_trainer.common.own_data.examples.image_facts import AS_PICTURES
from estimator_trainer.common.own_data.examples.records import Examples
from estimator_trainer.common.own_data.schema import FEATURES, Schema, find_roles
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.records import manifest, records
from estimator_trainer.datasets import tfrecord
from estimator_trainer.hparams import build
from estimator_trainer.hparams.build import HParams
from tests.datasets.own_data import EVAL, PREDICT, Prepared, mixed, parse, picture, prepare_raw
from tests.shared import failed, raised, refused


def serialized(example):
    return example if isinstance(example, bytes) else records.encode(example)


def infer(examples, **features):
    sample = [records.decode(records.encode(example)) for example in examples]
    schema = Schema(FEATURES, 's.json', {'features': features, 'label': 'label'})
    roles = find_roles(schema, {'label', *(name for example in sample for name in example)}, 'own')
    return inference.infer_features(sample, schema, roles, 'own')


def describe(train, schema=None, names=None, class_names=None, others=None, **params):
    """Returns the metadata of examples; `others` are those of other splits."""

    def read(split):
        return tf.data.Dataset.from_tensor_slices(tf.constant([*map(serialized, splits[split])], tf.string))

    splits = {'train': [*train], **(others or {})}
    schema, params = Schema(FEATURES, 's.json', schema or {}), HParams({**tokens.get_params(), **params})
    examples = Examples('own', [*splits], 'train', read)
    return survey.describe(examples, schema, params, names, class_names)


def parsed(facts, examples, mode=EVAL, **params):
    return parse(parser, HParams({**tokens.get_params(), **params}, facts), [*map(records.encode, examples)], mode)


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
    found = prepare_raw(parser, HParams(tokens.get_params(), facts), {**raw, 'zip': ['1', '']})
    assert found.keys() == features.keys() and found['categorical'].tolist() == [[1, 2], [2, 0]]
    assert found['text'].tolist() == [[2, 4, 3, 5, 1], [1, 0, 0, 0, 0]]
    for name in ('image', 'numeric'):
        np.testing.assert_allclose(found[name][0], features[name], rtol=1e-6)
    np.testing.assert_allclose(found['numeric'][1], [0, -1, (8 - 149.5) / std], rtol=1e-5)
    specs = parser.raw_specs(HParams({}, facts))
    assert {name: spec.shape.as_list()[1:] for name, spec in specs.items()} == {**dict.fromkeys(specs, []), 'v': [2]}
    assert [name for name, spec in specs.items() if spec.name == 'picture'] == ['photo']


def test_the_kind_is_found_in_the_values(caplog):
    caplog.set_level('INFO', 'tensorflow')
    for values, expected in (
        (['a b c', 'd e'], 'ignored: it is different in each example'),
        (['a b c', 'd e f'], 'text'),
        (['a b c', 'a b c', 'd e'], 'categorical'),
        ([b'\xff', b'\xff'], 'ignored: it is neither an image file nor text in UTF-8: pixels need'),
        (['BM1', 'BM2', 'BM2'], 'categorical'),
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
        ({'m': 'numeric'}, RunError, 'own: the feature m is float or int64: write all as one type'),
    ):
        assert message in raised(error, infer, [{**mixed(0), 'w': [1, 2], 'm': 1}, {**mixed(1), 'w': 1, 'm': 1.0}], **features)
    message = failed(infer, [{'x': 1.0, 'tags': ['a', 'b'], 'label': 0}] * 2)
    assert '2 values of bytes, but categorical needs 1 of bytes or int64: write these, or give its kind, such as ign' in message


def test_images_are_decoded_resized_or_taken_as_pixels_and_others_refused():
    for images, options, message in (
        ([picture(), b''], {}, 'the image a is empty in 1 of the first 2 examples that have it'),
        ([b'\x89PNG'], {}, 'the image a is not an image of a kind that Pillow reads'),
        ([picture()[:20]], {}, 'the image a (cannot be read: .*|is not an image of a kind that Pillow reads)'),
        ([picture('gif'), picture()], {'channels': 1}, '1 channels of the image a: GIF and BMP files are decoded to 3 chan'),
        ([picture()], {'channels': 2}, '2 channels of the image a: an image file is decoded to 1 or 3 or 4 channels'),
        ([picture('bmp')], {}, 'the image a is a file of BMP of fewer than 24 bits, which TensorFlow does not decode'),
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
        found = prepare_raw(parser, HParams({}, facts), raw)['image']
        np.testing.assert_allclose(found, expected[None] / 255, rtol=1e-6)
    assert 'Input is empty' in raised(tf.errors.InvalidArgumentError, parsed, facts, [{'a': b'', 'label': 0}])


def test_transparent_and_turned_images_are_upright_on_white_in_records_and_raw_inputs(tmp_path, caplog):
    tags = Image.Exif()
    tags[ExifTags.Base.Orientation] = 6  # The left column becomes the first row.
    turned = Image.new('RGB', (2, 2), (0, 0, 0))
    turned.putpixel((0, 0), (255, 255, 255))
    turned.save(tmp_path / 'turned.png', exif=tags)
    Image.new('RGBA', (2, 2), (0, 0, 0, 51)).save(tmp_path / 'clear.png')  # On white, 204.
    expected = {'turned': np.array([[0, 255], [0, 0]]), 'clear': np.full([2, 2], 204)}
    contents = {name: (tmp_path / f'{name}.png').read_bytes() for name in expected}
    Image.new('P', (2, 2)).save(tmp_path / 'empty.gif', transparency=0)
    contents['empty'], expected['empty'] = (tmp_path / 'empty.gif').read_bytes(), np.full([2, 2], 255)
    for more in ({}, {'x': 1.0}):
        examples = [{'a': contents[name], 'label': name, **more} for name in expected]
        facts = describe(examples)
        assert facts['features'][0]['is_picture'] and 'own: some of the images a are transparent, or turned by' in caplog.text
        raw = {'a': [*contents.values()], **{name: [value] * 3 for name, value in more.items()}}
        found = prepare_raw(parser, HParams({}, facts), raw)['image']
        for (features, _), of_raw, pixels in zip(parsed(facts, examples), found, expected.values()):
            np.testing.assert_allclose(features['image'], np.repeat(pixels[..., None], 3, 2) / 255, rtol=1e-6)
            np.testing.assert_allclose(of_raw, features['image'], rtol=1e-6)
    facts['features'][0]['is_picture'] = True  # As older versions wrote, whose models had black ones.
    assert not parsed(facts, examples[2:])[0][0]['image'].any()
    facts = describe(examples[:2], {'features': {'a': {'kind': 'image', 'channels': 4}, 'x': 'ignore'}})
    assert 'is_picture' not in facts['features'][0]
    Image.fromarray(np.full([2, 2], 100 * 256, np.uint16)).save(tmp_path / 'gray.png')
    for name, pixel in (('clear', [0, 0, 0, 51]), ('gray', [100, 100, 100, 255])):
        ((_, record),) = input_files.read_input(str(tmp_path / f'{name}.png'), HParams({}, facts))
        ((features, _),) = parsed(facts, [{'a': records.decode(record)['a'][1][0], 'label': 'clear'}])
        np.testing.assert_allclose(features['image'], np.full([2, 2, 4], pixel) / 255, rtol=1e-6)


def test_opaque_images_are_decoded_only_if_they_may_be_transparent(tmp_path, monkeypatch, caplog):
    decoded = []
    load = ImageFile.ImageFile.load
    monkeypatch.setattr(ImageFile.ImageFile, 'load', lambda image: image.tile and decoded.append(image.format) or load(image))
    Image.new('P', (2, 2)).save(tmp_path / 'a.gif', transparency=1)
    gif = (tmp_path / 'a.gif').read_bytes()
    for images, is_picture, count in (
        ([picture(mode='RGB'), picture('jpeg', 'RGB'), picture('gif', 'RGB')], False, 0),
        ([gif, picture('jpeg', 'RGB')], False, 1),
        ([picture(mode='RGBA', value=(1, 2, 3, 255))] * 2, False, 2),
        ([picture(mode='RGBA', value=(1, 2, 3, 254))] * 9, True, 1),
    ):
        decoded.clear()
        examples = [{'a': image, 'label': i} for i, image in enumerate(images)]
        facts = describe(examples, {'features': {'a': {'kind': 'image', 'size': 2}}})
        assert facts['features'][0].get('is_picture') == (AS_PICTURES if is_picture else None)
        assert is_picture == ('transparent' in caplog.text)
        assert len(decoded) == count and 'JPEG' not in decoded


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
        ([0, 1], {'features': dict.fromkeys(['x', 'w', 'ws'], 'ignore')}, UsageError, 'no feature to learn from besides label'),
        ([], {}, RunError, 'own: the split train is empty'),
        ([[1, 2], [0]], {}, RunError, 'own: the label label has 1 to 2 values, but needs one: a class or a number'),
        ([[0, 1], [1, 0]], {'task': 'regression'}, RunError, 'has 2 values, but needs one: a class or a number'),
        ([[0, 1], [1, 0], [1, 1]], {}, RunError, 'the label label is not one-hot: write one 1 and 1 zeros, as in training'),
        ([[0, 1], [1, 0], [1.0, 0.0]], {}, RunError, 'own: the label label is float or int64'),
        ([[0.5, 0.5], [1.0, 0.0]], {}, RunError, 'has 2 values, but needs one: a class or a number'),
        ([b'\0\0', b'\1\0'], {}, RunError, r"label is bytes that are no text, such as b'\x00\x00': write a class as an int64"),
        ([b'caf\xe9', b'tea'], {}, RunError, r"the label label is no text in UTF-8, such as b'caf\xe9': write"),
        ([0, 1], {'weight': 'ws'}, RunError, 'own: the weight ws has 2 values, but needs one: a number'),
    ):
        assert message in raised(error, describe, labeled(labels, w='heavy', ws=[1.0, 2.0]), schema)


def test_an_example_of_another_split_has_as_many_labels_as_in_training_or_none():
    describe(labeled([0, 1] * 2), others={'eval': [*labeled([1]), {'x': 1.0}]})
    message = failed(describe, labeled([0, 1] * 2), others={'eval': [*labeled([0, 1]), {'x': 1.0, 'label': [0, 1]}]})
    assert 'the label label has 2 values, but 1 in training' in message


def test_a_picture_suffices_for_a_model_of_an_image_alone(tmp_path):
    def read(name, **feature):
        facts = {'features': [{'name': 'a', 'kind': 'image', 'size': 2, 'channels': 1, **feature}, {'kind': 'label'}, *others]}
        ((fields, record),) = input_files.read_input(str(tmp_path / name), HParams({}, facts))
        assert fields == {} and parser.image_features(HParams({}, facts), tf.constant([51]))['image'] == np.float32(0.2)
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
        ((_, record),) = input_files.read_input(str(tmp_path / name), facts)
        (expected,) = parse(parser, facts, [record], PREDICT)
        found = prepare_raw(parser, facts, {'a': [(tmp_path / name).read_bytes()]})
        np.testing.assert_allclose(found['image'][0], expected['image'], atol=2 / 255)  # Pillow decodes JPEG otherwise.
        assert name != 'c.jpg' or found['image'][0, 0, 0, 0] > found['image'][0, 0, 1, 0] + 1 / 255  # It is turned.
    others = [{'name': 'x', 'kind': 'numeric'}]
    assert 'a.PNG: the model needs the features a, x: give TFRecord files' in failed(read, 'a.PNG', is_raw=False)
    image = {'name': 'a', 'kind': 'image', 'size': 2, 'channels': 1, 'is_raw': False}

    def read_label(folder, others=(), **label):
        (tmp_path / folder).mkdir(exist_ok=True)
        path = shutil.copy(tmp_path / 'b.jpg', tmp_path / folder / 'b.jpg')
        facts = {'features': [image, {'name': 'y', 'kind': 'label', **label}, *others], 'class_names': ['7', '9']}
        ((fields, record),) = input_files.read_labeled(str(path), HParams({}, facts))
        return records.decode(record)['y']

    assert read_label('9', stored='int64') == ('int64', [9]) and read_label('7', stored='bytes') == ('bytes', [b'7'])
    assert read_label('9', stored='int64', is_index=True) == ('int64', [1])
    assert read_label('9', stored='float', values=2, is_index=True, is_one_hot=True) == ('float', [0.0, 1.0])
    wrong = f'{tmp_path}/8/b.jpg: its folder, 8, is not named after a class: 7, 9'
    assert failed(read_label, '8', stored='int64') == wrong
    weight = {'name': 'w', 'kind': 'weight'}
    assert 'b.jpg: a picture alone has no label y, or no weight: give TFRecord' in failed(
        read_label, '7', [weight], stored='bytes'
    )
    assert parser.image_features(HParams({}, {'features': others}), tf.constant([51])) is None


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


@pytest.mark.parametrize('one', (1, 1.0))
def test_one_hot_labels_are_classes_by_position(one, caplog):
    vectors = [[one * 0, one, one * 0], [one * 0, one * 0, one], [one * 0, one, one * 0]]
    examples = labeled(vectors)
    facts = describe(examples, others={'eval': [*labeled(vectors[:1]), {'x': 1.0}]})
    assert (facts['task'], facts['class_names'], facts['num_classes']) == ('classification', ['0', '1', '2'], 3)
    assert [labels['label'] for _, labels in parsed(facts, examples)] == [1, 2, 1]
    assert caplog.text.count('the label label is one-hot: taken as the classes 0 to 2.') == 1
    assert 'the split train has no example of the class 0: it is not learned' in caplog.text
    wrong = labeled([[one, one, one * 0]])
    found = raised(RunError, describe, examples, others={'eval': labeled(vectors[:1]) + wrong})
    assert 'the label label is not one-hot: write one 1 and 2 zeros' in found


def test_input_with_labels_that_are_not_one_hot_is_named(tmp_path):
    facts = describe(labeled([[0, 1], [1, 0]]))
    write(tmp_path / 'a.tfrecord', labeled([[1, 0], [1, 1], [0, 1, 0]]))
    found = [str(record) for _, record in input_files.read_labeled(str(tmp_path / 'a.tfrecord'), HParams({}, facts))]
    assert [re.sub('.*/', '', text) for text in found[1:]] == [
        'a.tfrecord: record 1: the label label is not one-hot: write one 1 and 1 zeros, as in training',
        'a.tfrecord: record 2: the label label has 3 values, but 2 in training: write as many in all',
    ]
    assert all(not isinstance(r, RunError) for _, r in input_files.read_input(str(tmp_path / 'a.tfrecord'), HParams({}, facts)))


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


def sequence(**features):
    """Returns a serialized tf.train.SequenceExample with the list frames."""
    context = tf.train.Example.FromString(records.encode(features)).features
    found = tf.train.SequenceExample(context=context)
    found.feature_lists.feature_list['frames'].feature.add().float_list.value.append(1.0)
    return found.SerializeToString()


UNKNOWN = records.encode({'x': 1.0}) + b'\x12\x00\x1a\x01a\x20\x01'  # Fields 2, 3 and 4.


@pytest.mark.parametrize(
    'records_, message',
    [
        ([sequence(x=1.0, label=0)], 'is a tf.train.SequenceExample, whose feature_lists frames would be ignored: write a'),
        ([UNKNOWN], 'is not a tf.train.Example, which has no field 2, 3, 4: write such examples'),
        ([b'text'], 'is not a tf.train.Example'),
    ],
)
def test_records_of_other_kinds_are_refused(records_, message):
    manifest.clear_cache(trusts=True)
    assert f'record 8: {message}' in failed(describe, [*labeled(), *records_])


def test_a_split_of_records_of_another_kind_is_refused():
    message = 'record 0: is a tf.train.SequenceExample, whose feature_lists frames would be ignored'
    assert message in failed(describe, labeled(), others={'eval': [sequence(label=0)]})


def later(example, schema=None, split='train', **first):
    """Returns the metadata of a thousand examples and another one."""
    manifest.clear_cache(trusts=True)
    examples = labeled([i % 2 for i in range(1000)], **first)
    others = {} if split == 'train' else {split: [example]}
    return describe([*examples, *([example] if split == 'train' else [])], schema, others=others)


@pytest.mark.parametrize(
    'example, message',
    [
        ({'x': 1.0, 'z': 2}, 'the feature z is not in the first 1000 examples: give its kind, such as numeric or ignore, in'),
        ({'x': 1}, 'the feature x is int64, but float in training: write all as one type'),
        ({'x': 'a'}, 'the feature x is bytes, but float in training: write all as one type'),
        ({'x': [1.0, 2.0]}, 'the feature x has 2 values, but 1 in training: write as many in all'),
        ({'label': 1.0}, 'the label label is float, but int64 in training: write all as one type'),
        ({'label': [0, 1]}, 'the label label has 2 values, but 1 in training: write as many in all'),
        ({'a': b'RIFFsizeWEBP'}, 'the image a is a file of WebP, which TensorFlow does not decode: write PNG or JPEG'),
    ],
)
def test_an_example_after_the_sample_that_differs_is_named_with_a_cure(example, message):
    assert failed(later, {'x': 0.0, 'label': 0, 'a': picture(), **example}, a=picture()).startswith(f'record 1000: {message}')


def test_transparent_and_turned_images_after_the_sample_count_too(caplog):
    tags, content = Image.Exif(), io.BytesIO()
    tags[ExifTags.Base.Orientation] = 6
    Image.new('L', (4, 4)).save(content, 'jpeg', exif=tags)
    for image, is_picture in (
        (content.getvalue(), True),
        (picture(mode='LA', value=(7, 254)), True),
        (picture(mode='LA', value=(7, 255)), False),
        (picture('jpeg'), False),
    ):
        facts = later({'a': image, 'label': 0}, a=picture())
        assert facts['features'][0].get('is_picture') == (AS_PICTURES if is_picture else None)
        assert ('own: some of the images a are transparent, or turned' in caplog.text) == is_picture
        caplog.clear()
    many = later({'a': picture(mode='LA', value=(7, 254)), 'label': 0}, a=picture(mode='LA', value=(7, 255)))
    assert many['features'][0]['is_picture'] == AS_PICTURES
    assert (
        'is_picture'
        not in later({'a': picture(mode='LA', value=(7, 254)), 'label': 0}, split='eval', a=picture())['features'][0]
    )


def test_an_example_without_a_label_is_named_and_other_splits_are_checked_too():
    assert failed(later, {'x': 1.0}) == 'record 1000: has no feature label: write it, or leave out the example'
    assert later({'x': 1.0}, split='test')['task'] == 'classification'
    assert failed(later, {'x': 1}, split='test') == 'record 0: the feature x is int64, but float in training: ' + (
        'write all as one type'
    )


def test_the_schema_may_name_a_feature_that_first_occurs_late():
    example = {'x': 1.0, 'label': 0, 'z': 2}
    names = [[item['name'] for item in later(example, {'features': {'z': kind}})['features']] for kind in ('numeric', 'ignore')]
    assert names == [['x', 'z', 'label'], ['x', 'label']]


def test_missing_integers_are_missing_like_floats():
    examples = [{'n': value, 'c': i % 2, 'label': i % 2} for i, value in enumerate([1, 3, 5])]
    facts = describe([*examples, {'label': 1}, {'label': 0}], {'features': {'c': 'categorical'}}, min_count=1)
    facts_n, facts_c = facts['features'][1], facts['features'][0]
    assert (facts_n['mean'], facts_n['std']) == ([3], [pytest.approx(np.std([1, 3, 5]))])
    assert facts_c['vocabulary'] == ['0', '1']
    for mode in (EVAL, PREDICT):
        found = parsed(facts, [*examples, {'label': 1}], mode)
        features = [item if mode == PREDICT else item[0] for item in found]
        expected = [[-2 / np.std([1, 3, 5])], [0], [2 / np.std([1, 3, 5])], [0]]
        np.testing.assert_allclose([item['numeric'] for item in features], expected, rtol=1e-6)
        assert [item['categorical'].tolist() for item in features] == [[1], [2], [1], [0]]


LABELS = [  # Stored labels; the task given; the classes or the mean; the parsed labels.
    ([0.0, 1.0, 1.0], 'classification', ['0', '1'], [0, 1, 1]),
    ([10.0, -0.0, 2.0], 'classification', ['0', '2', '10'], [2, 0, 1]),
    ([0.0, 1.0], None, 0.5, [0, 1]),
    (['TRUE', 'True', 'True', 'false'], None, ['True', 'false'], [0, 0, 0, 1]),
    (['e\u0301te\u0301', '\xe9t\xe9', 'hiver'], None, ['hiver', '\xe9t\xe9'], [1, 1, 0]),
    (['1', '2.00', '1.0'], None, ['1', '2'], [0, 1, 0]),
    (['-1.00', 'x'], None, ['-1', 'x'], [0, 1]),
    (['1e+05', '1e-05', '0.00001'], None, ['0.00001', '1e-05', '1e+05'], [2, 1, 0]),
    (['2024-01-01T00:00:00', '2024-01-01 00:00:00'], None, ['2024-01-01 00:00:00', '2024-01-01T00:00:00'], [1, 0]),
    (['01', '1'], None, ['01', '1'], [0, 1]),
]


@pytest.mark.parametrize('labels, task, expected, ids', LABELS)
def test_spellings_of_a_label_are_one_class(labels, task, expected, ids):
    facts = describe(labeled(labels), {'task': task} if task else {})
    assert facts.get('class_names', facts.get('target_mean')) == expected
    assert [found['label'] for _, found in parsed(facts, labeled(labels))] == ids


def test_floats_that_are_few_whole_numbers_are_a_regression_with_a_warning(caplog):
    describe(labeled([0.0, 1.0, 2.0]))
    assert 'own: the label label is 0 or 1 or 2, all floats, which is taken for a number to predict, not for' in caplog.text
    assert '"task": "classification" in --hparams=schema=FILE' in caplog.text
    caplog.clear()
    for labels in ([0.0, 0.5], [float(i) for i in range(21)]):
        describe(labeled(labels))
    assert not caplog.text


@pytest.mark.parametrize('labels', [[0.5, 1.0], [float(i) for i in range(1001)], [0.0, float('nan'), 1.0]])
def test_floats_that_are_no_classes_are_refused_as_such(labels):
    message = 's.json: task is classification, but the label label is float, with other than whole numbers or with many: write'
    assert refused(describe, labeled(labels), {'task': 'classification'}).startswith(message)


def test_numbers_to_predict_that_are_equal_or_that_float32_cannot_tell_apart_are_refused():
    for labels, message in (
        ([1.5] * 4, ' is always 1.5: there is nothing to learn'),
        ([0.0, -0.0], ' is always 0: there is nothing to learn'),
        (
            [1700000000 + i for i in range(1500)],
            ': the numbers around 1.7e+09 differ too little for float32: subtract a constant',
        ),
        (
            [2**53 + i for i in range(1500)],
            ': the numbers around 9.0072e+15 differ too little for float32: subtract a constant',
        ),
    ):
        assert f'own: the label label{message}' in failed(describe, labeled(labels))


def test_texts_that_are_not_utf8_are_named(caplog):
    examples = [{**example, 'city': city} for example, city in zip(labeled('aabb'), ['Rom', b'K\xf6ln'] * 2)]
    found = describe(examples, {'features': {'city': 'categorical'}})
    assert found['features'][0]['vocabulary'] == ['Rom']
    assert "own: the split train: the feature city has texts that are not UTF-8, such as b'K\\xf6ln': the model" in caplog.text
    message = failed(describe, labeled('aabb'), others={'eval': labeled([b'\xf6'])})
    assert "own: the split eval: the label label b'\\xf6' is not UTF-8: write classes as UTF-8" in message


def test_another_split_whose_values_are_unknown_raises_an_alarm(caplog):
    def examples(city, text):
        return [{'city': city, 'text': f'{text} {text} film', 'label': i % 2} for i in range(4)]

    others = {'eval': examples('ROM', 'schlecht'), 'test': examples('Rome', 'good')}
    describe(examples('Rome', 'good'), others=others)
    place = 'own: the split eval: '
    assert (
        f'{place}100 % of the values of the feature city are unknown: the training data has Rome, here are ROM' in caplog.text
    )
    assert (
        f'{place}66 % of the words of the texts are unknown: the training data has good, film, here are schlecht' in caplog.text
    )
    assert 'split test' not in caplog.text


def test_unknown_values_in_input_raise_an_alarm(tmp_path, caplog):
    def file(name, city, text):
        return write(tmp_path / name, [{'city': city, 'zip': 7, 'text': f'{text} film {i}', 'label': i % 2} for i in range(4)])

    def read(path):
        caplog.clear()
        params = HParams(tokens.get_params(), facts)
        return [record for _, record in input_files.read_input(str(path), params)]

    examples = [{'city': 'Rome', 'zip': 7, 'text': 'good film it is', 'label': i % 2} for i in range(4)]
    facts = describe(examples, {'features': {'zip': 'categorical'}})
    assert len(read(file('a.tfrecord', 'Rome', 'good'))) == 4 and not caplog.text
    assert len(read(file('b.tfrecord', 'ROM', 'guter film mehr'))) == 4
    assert (
        'b.tfrecord: 100 % of the values of the feature city are unknown: the training data has Rome, here are' in caplog.text
    )
    assert 'b.tfrecord: 60 % of the words of the texts are unknown' in caplog.text and 'feature zip' not in caplog.text


DOUBTFUL = [  # Features of two examples; what is warned of.
    ([{'n': 0.1}, {'n': 0.1}], 'own: nothing can be learned from n, always the same or missing in training.'),
    ([{'n': float('nan')}] * 2, 'own: nothing can be learned from n, always the same or missing in training.'),
    ([{'n': [0, 5]}, {'n': [0, 5]}], 'own: nothing can be learned from n, always the same or missing in training.'),
    (
        [{'n': [1.0, float('nan')]}, {'n': [2.0, float('inf')]}],
        'own: numbers that are missing, NaN or infinite are taken for the mean of their feature: in training n (6).',
    ),
    ([{'n': 1700000000}, {'n': 1700000060}], 'own: the feature n: the numbers around 1.7e+09 differ too little for float32'),
    ([{'n': '0.5'}, {'n': '0.5'}], 'the feature n has numbers, such as 0.5, written as text, so they are taken for categories'),
    ([{'n': []}, {'n': 1.0}], 'n is ignored: its values differ in number: it is an empty list in some examples: leave it out'),
    (
        [{'n': b'\xff\xfe\xfd'}, {'n': b'\xff'}],
        'the feature n is ignored: it is neither an image file nor text in UTF-8: pixels',
    ),
    ([{'label': 'Dog'}, {'label': 'dog '}], "own: the classes 'Dog', 'dog ' differ only in case or spaces: if they are one"),
]


@pytest.mark.parametrize('features, message', DOUBTFUL)
def test_doubtful_features_and_classes_are_warned_of(features, message, caplog):
    describe([{**example, **found} for example, found in zip(labeled([0, 1]) * 3, features * 3)])
    assert message in caplog.text


@pytest.mark.parametrize(
    'features',
    [
        [{'n': 0.1}, {'n': 0.2}],
        [{'n': [0.1, 0]}, {'n': [0.1, 1]}],
        [{'n': '10115'}, {'n': '2'}],
        [{'n': 0}, {'n': 1}],
    ],
)
def test_sound_features_are_not_warned_of(features, caplog):
    examples = [{**example, **found} for example, found in zip(labeled([0, 1]) * 3, [*features, {'n': features[0]['n']}] * 2)]
    describe(examples, others={'eval': examples})
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize(
    'values, warning',
    [
        ([-999 if i % 5 else i / 2 for i in range(40)], '-999 is far from all others, and occurs repeatedly: write NaN, or no'),
        ([*range(39), 1e30], '1e+30 is far from all others, and next to it, a model can hardly tell them apart: write NaN'),
        ([[i, 9999 if i % 5 else 2] for i in range(40)], '9999 is far from all others, and occurs repeatedly'),
        ([[i / 40, i % 2 / 2, i % 3, i % 5, 1e6 + i] for i in range(40)], ''),
    ],
)
def test_numbers_that_may_mark_missing_ones_are_warned_of(values, warning, caplog):
    describe([{'n': np.float32(value), 'label': i % 2} for i, value in enumerate(values)])
    assert (f'own: the feature n: {warning}' if warning else '') in caplog.text and bool(warning) == ('far' in caplog.text)


def test_labels_that_may_mark_missing_ones_or_are_none_are_warned_of(caplog):
    examples = [{'x': float(i), 'label': -999.0 if i % 5 else i / 2} for i in range(40)]
    describe(examples, others={'eval': [{'x': 1.0, 'label': float('nan')}], 'test': [{'x': 2.0}]})
    assert 'own: the label label: -999 is far from all others, and occurs repeatedly: leave out the example if' in caplog.text
    assert 'own: the label label is NaN or infinite in the split eval: its metrics will be NaN: leave out' in caplog.text
    assert 'split test' not in caplog.text


def test_a_split_without_examples_is_warned_of(caplog):
    describe(labeled([0, 1] * 2), others={'eval': []})
    assert 'own: the split eval has no examples.' in caplog.text and 'no example has' not in caplog.text


def test_features_that_all_examples_of_other_data_lack_are_warned_of(tmp_path, caplog):
    examples = [{'n': [float(i), 1.0], 'k': i, 'c': 'ab'[i % 2], 'e': float('nan'), 'label': i % 2} for i in range(4)]
    other = [{'N': [1.0, 1.0], 'k': 1, 'label': 0}, {'n': [float('nan')] * 2, 'C': 'a', 'label': 0}]
    facts = describe(examples, others={'eval': other, 'test': [*other, examples[0]]})
    assert 'own: the split eval: no example has a value of n, c, as the training data has: ' in caplog.text
    assert 'split test: no' not in caplog.text
    caplog.clear()
    path = write(tmp_path / 'a.tfrecord', [{'N': [1.0, 1.0], 'k': 1, 'e': 1.0}])
    assert len([*input_files.read_input(str(path), HParams(tokens.get_params(), facts))]) == 1
    assert 'a.tfrecord: no example has a value of c, n, as the training data has: ' in caplog.text
    caplog.clear()
    path = write(tmp_path / 'b.tfrecord', [{'n': [float('nan')] * 2, 'k': np.iinfo(np.int64).min, 'c': ''}])
    assert len([*input_files.read_input(str(path), HParams(tokens.get_params(), facts))]) == 1
    assert 'b.tfrecord: no example has a value of c, k, n, as the training data has: ' in caplog.text


def test_transparent_images_of_files_that_the_model_does_not_expect_are_warned_of(tmp_path, caplog):
    params = HParams(tokens.get_params(), describe([{'a': picture(), 'label': i % 2} for i in range(4)]))
    for name, opacity in (('a', 254), ('b', 255)):
        path = write(tmp_path / f'{name}.tfrecord', [{'a': picture(mode='LA', value=(7, opacity))}])
        assert len([*input_files.read_input(str(path), params)]) == 1
    assert 'a.tfrecord: some of the images a are transparent, or turned by EXIF data, which the model' in caplog.text
    assert 'b.tfrecord' not in caplog.text


def test_infinite_numbers_of_files_are_warned_of_and_raw_ones_refused(tmp_path, caplog):
    facts = describe([{'x': float(i), 'v': [1.0, float(i)], 'k': i, 'label': i % 2} for i in range(4)])
    params, infinity = HParams(tokens.get_params(), facts), float('inf')
    rows = [{'x': infinity, 'v': [1.0, -infinity], 'k': 1}, {'x': float('nan'), 'v': [infinity, 1.0], 'k': 1}]
    assert len([*input_files.read_input(str(write(tmp_path / 'a.tfrecord', rows)), params)]) == 2
    assert 'a.tfrecord: infinite numbers are taken for the mean of their feature: in examples v (2), x (1).' in caplog.text
    caplog.clear()
    finite = {'k': 1, 'v': [1.0, 2.0], 'x': 2.0}
    assert len([*input_files.read_input(str(write(tmp_path / 'b.tfrecord', [finite])), params)]) == 1 and not caplog.text
    assert prepare_raw(parser, params, {name: [value] for name, value in finite.items()})['numeric'].shape == (1, 4)
    for wrong, named in (({'x': infinity}, 'x'), ({'v': [1.0, -infinity]}, 'v')):
        raw = {name: [value] for name, value in {**finite, **wrong}.items()}
        with pytest.raises(tf.errors.InvalidArgumentError, match=f'infinite, where NaN is missing, are the inputs.*{named}'):
            prepare_raw(parser, params, raw)


def test_classes_are_logged_with_their_examples_and_doubtful_ones_are_warned_of(caplog):
    caplog.set_level('INFO', 'tensorflow')
    others = {'eval': labeled(['cat', 'owl']), 'test': [{'x': 1.0}]}
    describe(labeled(['dog', 'cat', 'dog']), others=others)
    for line in (
        'INFO     tensorflow:description.py:',
        'own: 3 classes, with their examples in train: cat 1, dog 2, owl 0\n',
        'own: the split train has only one example of the class cat.',
        'own: the split train has no example of the class owl: it is not learned.',
        'own: the split eval has no example of the class dog: its metrics ignore it.',
    ):
        assert line in caplog.text
    assert 'split test' not in caplog.text


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
    paths = {survey.facts_path('d', HParams({**given, **change})) for change in changes}
    assert len(paths) == len(changes) and all(path.startswith('d/metadata-') for path in paths)
    assert survey.facts_path('d', HParams({**given, 'max_length': 7})) in paths


def test_images_that_a_saved_model_does_not_take_as_pictures_stay_so(tmp_path):
    given = {'schema': '', 'train_split': 'train', 'image_size': 0, **tokens.get_params()}
    image = feature('a', 'bytes', 'image', size=4, channels=3, is_raw=False)
    fresh, older, saved = ({'features': [{**image, **how}]} for how in ({'is_picture': AS_PICTURES}, {'is_picture': True}, {}))
    survey.describe_once(str(tmp_path), HParams(given), lambda: fresh)
    for known in ({}, fresh, older, saved):
        assert survey.read_metadata(str(tmp_path), HParams(given, known)) == (known or fresh)


def write(path, examples):
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            writer.write(serialized(example))
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
    params = build.add_metadata(found.params, found.metadata)  # Its image_size is another than that of the facts' path.
    assert params.image_size == 4 and 'photo' in tfrecord.summary(str(tmp_path / 'data'), params)
    assert len(os.listdir(directory)) == 3  # Nothing is written beside the files.
    path = directory / 'train-00001-of-00002.tfrecord'
    content = path.read_bytes()
    path.write_bytes(content[:40] + b'\xff' + content[41:])
    assert re.search(f'{path}: the record at byte 0 is corrupt: .*: restore it', failed(prepared))
    path = write(tmp_path / 'input.tfrecord', [*map(mixed, range(5)), {'x': 1.0}, b'no example', {**mixed(0), 'x': 1}])
    shutil.rmtree(directory)
    shutil.rmtree(tmp_path / 'data')
    features, errors = found.predict(path)
    wrong = {5: 'has no feature photo, review', 6: 'is not a tf.train.Example'}
    wrong[7] = 'the feature x is int64, but float in training: write all as one type'
    assert errors == {number: f'{path}: record {number}: {text}' for number, text in wrong.items()}
    np.testing.assert_equal(features, expected)
    write(path, [*map(mixed, range(5)), {name: value for name, value in mixed(5).items() if name != 'label'}])
    examples, errors = found.read_labeled(path)
    assert [labels['label'] for _, labels in examples] == [0, 1, 2, 0, 1]
    assert errors == {5: f'{path}: record 5: has no feature label'}


def test_compressed_files_are_recognized_by_their_content_decompressed_once_and_read(tmp_path, prepared, caplog):
    caplog.set_level('INFO', 'tensorflow')
    plain = write(tmp_path / 'plain' / 'own', labeled(range(4))).read_bytes()
    for name, compress in (('train.tfrecord', zlib.compress), ('eval.tfrecord.gz', gzip.compress)):
        (tmp_path / 'own').mkdir(exist_ok=True)
        (tmp_path / 'own' / name).write_bytes(compress(plain))
    found = prepared()
    assert [[labels['label'] for _, labels in found.read(split)] for split in ('train', 'eval')] == [[0, 1, 2, 3]] * 2
    assert 'own/train.tfrecord: is compressed with ZLIB: decompressing it to ' in caplog.text
    (directory,) = (tmp_path / 'data').iterdir()
    caplog.clear()
    assert len(prepared().read('eval')) == 4 and 'decompressing' not in caplog.text
    (directory / 'eval.tfrecord').write_bytes(plain[:-1])
    manifest.clear_cache(trusts=True)
    assert failed(found.read, 'eval').endswith(f'delete {directory} to convert the data again')
    assert len(found.predict(tmp_path / 'own' / 'eval.tfrecord.gz')[0]) == 4
    os.utime(tmp_path / 'own' / 'train.tfrecord', (1, 1))  # Copies are bound to the state of the files.
    assert len(prepared().read('eval')) == 4
    assert f'earlier conversions, which can be deleted unless a run is reading them: {directory}' in caplog.text


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
    assert re.search(f'{path}: record 1000, at byte .*: the feature x has 2 values, but 1 in training', failed(prepared))
