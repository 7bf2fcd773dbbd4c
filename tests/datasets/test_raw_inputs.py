"""Raw inputs of an exported model become the features that the same examples become in files of --input."""

import pathlib

import numpy as np
from PIL import ExifTags, Image
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common import assets
from estimator_trainer.common.inference import serving
from estimator_trainer.common.inference.input_files import open_files
from estimator_trainer.common.inference.prediction import stack
from estimator_trainer.common.inference.signatures import DEFAULT, EXAMPLES, PICTURES, signatures_of
from estimator_trainer.common.records import records
from estimator_trainer.common.serving.served import form_of_export
from estimator_trainer.datasets import csv, image_folder, text, tfrecord
from tests.datasets.own_data import Prepared, make_schema, mixed, prepare_raw
from tests.linear import make_estimator


def of_files(source, path):
    """Returns the features of a file's examples, and the examples."""
    files = open_files(source, str(path))
    examples = [example for _, example in files.entries]
    with tf.Graph().as_default(), tf.Session() as session:
        features = files.to_features(tf.nest.map_structure(tf.constant, stack(*examples)))
        session.run(tf.tables_initializer())
        return session.run(features), examples


def doubled(features, labels, mode, params):
    """Returns the features times a variable."""
    factor = tf.get_variable('factor', initializer=2.0)
    return {name: tf.cast(value, tf.float32) * factor for name, value in features.items()}, None


def export(directory, source):
    """Returns the directory of an exported model that doubles the features of a dataset."""
    estimator = make_estimator(directory, model=doubled)
    with tf.Graph().as_default(), tf.Session() as session:
        step, factor = tf.train.create_global_step(), tf.get_variable('factor', initializer=2.0)
        session.run([step.initializer, factor.initializer])
        tf.train.Saver().save(session, f'{directory}/model.ckpt', step)
    with assets.written():
        path = estimator.export_saved_model(f'{directory}/export', serving.make_serving_input_fn(source))
    return path.decode()


def table(tmp_path):
    rows = [
        (i, ('Zürich', 'Rome', 'TRUE')[i % 3], 10115 + i % 2, '' if i == 4 else i / 3, 'no yes'.split()[i % 2])
        for i in range(60)
    ]
    (tmp_path / 'a.csv').write_text('\n'.join(['x,city,zip,w,y', *(','.join(map(str, row)) for row in rows)]))
    (tmp_path / 'schema.json').write_text('{"columns": {"zip": "categorical"}}')
    lines = 'x,w,city,zip,other\n3,NA,Zürich,10115,1\n4.5,2,,10116,1\n-1e3,0.5,Bonn,,1\n7,-999,NA,1,1\n'
    (tmp_path / 'new.csv').write_text(lines)
    raw = {
        'x': [3, 4.5, -1e3, 7],
        'w': [np.nan, 2, 0.5, -999],
        'city': ['Zu\u0308rich', '', 'Bonn', 'NA'],
        'zip': ['10115.0', '10116', '', '1'],
    }
    hparams = (f'csv_file={tmp_path}/a.csv', f'schema={tmp_path}/schema.json', 'target=y', 'missing=[-999,none]')
    return Prepared(csv, tmp_path / 'data', *hparams), tmp_path / 'new.csv', DEFAULT, raw


def texts(tmp_path):
    (tmp_path / 'a.txt').write_text('pos\ta good film\nneg\ta bad film\n' * 20)
    (tmp_path / 'new.txt').write_text('A good, good film\nunseen\nbad\n')
    raw = {'text': ['A good, good film', 'unseen', 'bad']}
    return Prepared(text, tmp_path / 'data', f'text_file={tmp_path}/a.txt'), tmp_path / 'new.txt', DEFAULT, raw


def parts_of_texts(tmp_path):
    pytest.importorskip('sentencepiece')
    found, *others = texts(tmp_path)
    return (Prepared(text, tmp_path / 'data', f'text_file={found.params.text_file}', 'tokens=subwords'), *others)


def examples(tmp_path):
    (tmp_path / 'own').mkdir()
    for name in ('own/train.tfrecord', 'own/eval.tfrecord', 'new.tfrecord'):
        with tf.io.TFRecordWriter(f'{tmp_path}/{name}') as writer:
            for i in range(30 if 'own' in name else 4):
                writer.write(records.encode(mixed(i)))
    raw = {name: [mixed(i)[name] for i in range(4)] for name in mixed(0)}
    return Prepared(tfrecord, tmp_path / 'data', f'tfrecord_dir={tmp_path}/own'), tmp_path / 'new.tfrecord', DEFAULT, raw


def test_booleans_of_programs_are_the_integers_that_examples_have(tmp_path):
    (tmp_path / 'own').mkdir()
    for name in ('train', 'eval'):
        with tf.io.TFRecordWriter(f'{tmp_path}/own/{name}.tfrecord') as writer:
            for i in range(20):
                writer.write(records.encode({'is_old': i % 2 == 0, 'label': i % 3}))
    schema = make_schema(tmp_path, features={'is_old': 'categorical'})
    found = Prepared(tfrecord, tmp_path / 'data', f'tfrecord_dir={tmp_path}/own', schema)
    (ids,) = prepare_raw(tfrecord, found.params, {'is_old': ['1', 'True', 'TRUE', '0', 'false', '2', '']}).values()
    assert ids[:, 0].tolist() == [ids[0, 0]] * 3 + [ids[3, 0]] * 2 + [0, 0] and 0 < ids[0, 0] != ids[3, 0] > 0


def pictures(tmp_path, channels=3):
    exif, colors = Image.Exif(), np.random.RandomState(0)
    for i in range(4):
        for name in ('cat', 'dog'):
            pixels = colors.randint(0, 256, [3, 4, 3], np.uint8)
            picture = Image.fromarray(pixels).resize((90 + 10 * i, 70), Image.Resampling.BICUBIC)
            exif[ExifTags.Base.Orientation] = 5 + i
            (tmp_path / 'own' / name).mkdir(parents=True, exist_ok=True)
            picture.save(tmp_path / 'own' / name / f'{i}.jpg', exif=exif)
            picture.convert('RGBA' if i == 2 else 'RGB').save(tmp_path / 'own' / name / f'{i + 4}.png')
    raw = {'image': [path.read_bytes() for path in sorted((tmp_path / 'own').glob('*/*'))]}
    found = Prepared(image_folder, tmp_path / 'data', f'image_dir={tmp_path}/own', 'image_size=16', f'num_channels={channels}')
    return found, tmp_path / 'own', PICTURES, raw


def gray_pictures(tmp_path):
    return pictures(tmp_path, 1)


@pytest.mark.parametrize('make', [table, texts, parts_of_texts, examples, pictures, gray_pictures])
def test_raw_inputs_and_serialized_examples_become_what_files_become(tmp_path, make):
    found, path, name, raw = make(tmp_path)
    expected, serialized = of_files(found.source, path)
    specs = {name: signature.specs for name, signature in signatures_of(found.source).items()}
    assert specs.keys() == {DEFAULT, EXAMPLES, name}
    assert {field['name'] for field in form_of_export(found.source)['fields']} == {*specs[DEFAULT]}
    expected.pop('example_id', None)
    signatures = tf2.saved_model.load(export(tmp_path / 'model', found.source)).signatures
    for signature, inputs in ((name, raw), (EXAMPLES, {'examples': serialized})):
        fed = {key: tf2.constant(inputs[key], spec.dtype) for key, spec in specs[signature].items()}
        features = signatures[f'{signature}:serving_default'.removeprefix(':')](**fed)
        assert features.keys() == expected.keys()
        for feature, value in expected.items():
            np.testing.assert_allclose(features[feature], 2 * value, atol=2e-6, err_msg=feature)


def test_vocabularies_are_files_that_whoever_has_the_export_can_change(tmp_path):
    cities = ['Rome', 'Zürich', '"new\nline"']
    rows = [f'{i},{cities[i % 3]},{"ab"[i % 2]},a film of {i} number,{i % 2}' for i in range(60)]
    (tmp_path / 'a.csv').write_text('\n'.join(['x,city,City,films,y', *rows]))
    hparams = (
        f'table_file={tmp_path}/a.csv',
        'target=y',
        'eval_share=0',
        make_schema(tmp_path, columns={'City': 'categorical', 'x': 'ignore'}),
    )
    directory = export(tmp_path / 'model', Prepared(csv, tmp_path / 'data', *hparams).source)
    files = {path.name: path.read_text() for path in pathlib.Path(directory, 'assets').iterdir()}
    assert files == {'city.txt': 'a\t1\nb\t2\n', 'words.txt': 'a\t2\nfilm\t3\nnumber\t4\nof\t5\n'}  # city has a line break.
    pathlib.Path(directory, 'assets', 'city.txt').write_text('b\t1\nB\t1\n')
    ask = tf2.saved_model.load(directory).signatures['serving_default']
    inputs = {'city': ['Rome', 'new\nline'], 'City': ['B', 'a'], 'films': ['a of', 'film']}
    found = ask(**{name: tf2.constant(values) for name, values in inputs.items()})
    assert (found['categorical'] / 2).numpy().tolist() == [[1, 1], [3, 0]]
    assert (found['text'] / 2).numpy().tolist() == [[2, 5], [3, 0]]
