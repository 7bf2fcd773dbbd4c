"""Predictions of arrays, with a Predictor, of splits, and of the files of --input."""

import concurrent.futures
import itertools
import os
import re
import shutil
import threading
import types

import numpy as np
from PIL import Image
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference import predictor as predictor_module
from estimator_trainer.common.inference.input_files import open_files
from estimator_trainer.common.inference.prediction import Prediction, predict_files, predict_split, read_labels
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.plugins import loader
from estimator_trainer.common.records import records
from estimator_trainer.common.storage.best_checkpoint import keep_if_best
from estimator_trainer.common.storage.objective import Objective
from estimator_trainer.hparams import build
from tests import tfrecords
from tests.linear import MODEL, X, make_estimator
from tests.shared import DAMAGES

SPECS = {'x': tf.TensorSpec([None, 2], tf.float32)}


def read(split, data_dir, params):
    return tf.data.Dataset.from_tensor_slices([records.encode({'x': x, 'name': f'n{i}'}) for i, x in enumerate(X)])


def parse(mode, params, record):
    spec = {'x': tf.io.FixedLenFeature([2], tf.float32), 'name': tf.io.FixedLenFeature([], tf.string, 'none')}
    parsed = tf.io.parse_single_example(record, spec)
    return {'x': parsed['x'], 'example_id': parsed['name']}, {}


def read_input(path, params):
    for number, line in enumerate(open(path)):
        values = [float(word) for word in line.split()]
        yield {'line': number}, records.encode({'x': values}) if values else UsageError('is empty')
    raise UsageError(f'{path}: has no end')


def read_name(path, params):
    yield {}, path


def make_source(**functions):
    params = build.make_hparams('m', {'image_size': 4, 'num_channels': 1}, 'd', {}, text='eval_batch_size=4')
    return DataSource(types.SimpleNamespace(**{'read': read, 'parse': parse, **functions}), '', params)


def open_rows(pattern, **functions):
    return open_files(make_source(**functions), str(pattern))


def open_images(pattern):
    return open_rows(pattern, image_features=lambda params, images: {'image': images})


def write(folder, *names, content=b''):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def inputs(files, folder):
    return [fields['input'].removeprefix(f'{folder}/') for fields, _ in files.entries]


def expected(tmp_path, step, x):
    return x @ tf.train.load_variable(f'{tmp_path}/model.ckpt-{step}', 'w')[:, 0]


def test_bad_examples_of_files_do_not_prevent_other_predictions(trained, tmp_path):
    rows = ['1 2', '', '3 4', '5', '6 7', '8 9 10', '1 0']  # Two have the wrong number of values.
    assert records.encode({'x': [1.0, 0.0]}).endswith(b'\0')  # Which NumPy would drop.
    (tmp_path / 'rows.txt').write_text('\n'.join(rows))
    files = open_rows(tmp_path / 'rows.txt', read_input=read_input)
    found = [prediction.to_json() for prediction in predict_files(trained, files, 3, f'{tmp_path}/model.ckpt-4')]
    assert [line.get('line') for line in found] == [*range(7), None]
    assert ['error' in line for line in found] == [False, True, False, True, False, True, False, True]
    assert found[1]['error'] == 'is empty' and 'Key: x' in found[3]['error']
    assert found[7]['error'] == f'{tmp_path}/rows.txt: has no end'
    x = np.array([[1, 2], [3, 4], [6, 7], [1, 0]])
    np.testing.assert_allclose([line['y'] for line in found if 'y' in line], expected(tmp_path, 4, x), rtol=1e-4)


def test_a_file_that_a_users_reader_cannot_open_is_one_entry_of_its_folder(tmp_path):
    def read_input(path, params):
        with open(f'{path}.label' if path.endswith('b') else path) as file:
            yield {}, file.read()

    write(tmp_path, 'a', 'b', 'c', content=b'1')
    found = [*open_rows(tmp_path, read_input=read_input).entries]
    assert [fields['input'][-1] for fields, _ in found] == ['a', 'b', 'c']
    assert [str(example) for _, example in found] == [
        '1',
        f'{tmp_path}/b.label: cannot be read: No such file or directory',
        '1',
    ]


def test_the_labels_of_a_split_are_read_in_its_order_up_to_where_they_are_missing(caplog):
    def read_first(labels, batch=False):
        name = 'parse_batch' if batch else 'parse'
        functions = {name: lambda _, __, i: ({'x': i}, labels(i))}
        source = make_source(read=lambda *_: tf.data.Dataset.range(9), **({'parse': None} if batch else {}), **functions)
        return [label if label is None else label.item() for label in itertools.islice(read_labels(source, 'eval'), 10)]

    numbers, unknown = [*range(9), None], [None] * 10
    for batch in (False, True):
        assert read_first(lambda i: {'label': i, 'other': i + 1}, batch) == numbers
    assert read_first(lambda i: {'y': i / 2, 'weight': 1.0}) == [*(i / 2 for i in range(9)), None]  # The only one.
    assert read_first(lambda i: {'label': tf.stack([i, i])}) == unknown
    assert read_first(lambda i: {'y': i, 'z': i}) == read_first(lambda i: {}) == unknown
    assert read_first(lambda i: {'label': tf.gather([1], i)}) == unknown  # Fails.
    assert read_first(lambda i: {}['label']) == unknown
    assert 'has no labels' not in caplog.text  # At WARNING: a split to predict need not have any.
    assert read_first(lambda i: {'label': tf.gather([*range(6)], i)}) == [0, 1, 2, 3, *unknown[4:]]  # In batches of four.
    assert 'The split eval has no labels from example 4 on: ' in caplog.text


def test_a_class_and_a_label_are_written_with_their_names():
    prediction = Prediction({'input': 'a'}, {'class': np.int64(1)}, label=np.int32(0))
    named = {'input': 'a', 'label': 0, 'label_name': 'cat', 'class': 1, 'class_name': 'dog'}
    assert prediction.to_json(['cat', 'dog']) == named
    assert prediction.to_json(['cat']) == {'input': 'a', 'label': 0, 'label_name': 'cat', 'class': 1}
    assert Prediction({}, {'value': np.float32(1)}, label=np.float32(0.5)).to_json() == {'label': 0.5, 'value': 1}


def test_predictions_of_several_targets_are_named_by_them_and_labels_by_their_names():
    values = {'class_a': np.int64(1), 'value_b': np.float32(2)}
    several = Prediction({}, values, label={'label_a': np.int32(0), 'label_b': np.float32(0.5)})
    names = {'label_name_a': 'cat', 'class_name_a': 'dog'}
    assert several.to_json({'a': ['cat', 'dog']}) == {'label_a': 0, 'label_b': 0.5, 'class_a': 1, 'value_b': 2, **names}
    values = {'probabilities': np.float32([0.5, 0.25]), 'predicted': np.int64([1, 0])}
    labels = Prediction({}, values, label=np.int32([0, 1])).to_json({}, ['x', 'y'])
    assert labels == {'label': ['y'], 'predicted': ['x'], 'probabilities': {'x': 0.5, 'y': 0.25}}


def test_predictions_of_a_split_name_their_example_and_where_it_is(trained, tmp_path):
    for i in range(2):
        with tf.io.TFRecordWriter(f'{tmp_path}/{i}.tfrecord') as writer:
            for j in range(3):
                writer.write(records.encode({'x': X[3 * i + j]}))
    records.index(f'{tmp_path}/index', {'own': [f'{tmp_path}/{i}.tfrecord' for i in range(2)]})
    source = make_source(read=lambda split, *_: records.read(f'{tmp_path}/index', split))
    found = [prediction.to_json() for prediction in predict_split(trained, source, 'own', f'{tmp_path}/model.ckpt-4')]
    places = [{'split': 'own', 'example': i, 'file': f'{tmp_path}/{i // 3}.tfrecord', 'record': i % 3} for i in range(6)]
    assert [{name: line[name] for name in places[0]} for line in found] == places
    np.testing.assert_allclose([line['y'] for line in found], expected(tmp_path, 4, X[:6]), rtol=1e-4)
    found = [prediction.to_json() for prediction in predict_split(trained, make_source(), 'eval', f'{tmp_path}/model.ckpt-4')]
    assert [(line['split'], line['example'], line['example_id']) for line in found] == [
        ('eval', i, f'n{i}') for i in range(len(X))
    ]
    assert 'file' not in found[0]


def test_a_predictor_gives_the_numbers_of_estimator_predict_for_any_batch(trained, tmp_path, monkeypatch):
    model, calls = MODEL.model, []
    monkeypatch.setattr(MODEL, 'model', lambda *args: calls.append(1) or model(*args))
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
    for size in (1, 10, 0, 3):
        found = predictor.predict({'x': X[:size]})
        assert found.keys() == {'y'} and found['y'].dtype == np.float32
        np.testing.assert_allclose(found['y'], expected(tmp_path, 4, X[:size]), rtol=1e-5)
    single = predictor.predict({'x': X[2]})['y']
    assert single.shape == () and single == predictor.predict(X[2].tolist())['y']  # An only input needs no name.
    np.testing.assert_allclose(single, found['y'][2], rtol=1e-5)
    predictor.reload(f'{tmp_path}/model.ckpt-2')
    found = predictor.predict({'x': X})['y']
    np.testing.assert_allclose(found, expected(tmp_path, 2, X), rtol=1e-5)
    assert len(calls) == 1  # The model is built once.
    of_estimator = trained.predict(lambda: tf.data.Dataset.from_tensors({'x': X}), checkpoint_path=f'{tmp_path}/model.ckpt-2')
    np.testing.assert_allclose(found, [prediction['y'] for prediction in of_estimator], rtol=1e-5)
    with monkeypatch.context() as context:
        context.setattr(os, 'getpid', lambda: 1)
        with pytest.raises(RunError, match="^this process was forked .*'spawn'"):
            predictor.predict(X)
    for name, value, message in (
        ('y', X, 'the inputs are x, not y'),
        ('x', np.zeros([3, 5], np.float32), 'the input x must be float32 (None, 2), not a NumPy array of float32 (3, 5)'),
        ('x', ['a', 'b'], 'the input x must be float32 (None, 2), not a NumPy array of <U1 (2,)'),
        ('x', [[1], 2], 'the input x must be float32 (None, 2), not a list of 2'),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            predictor.predict({name: value})


def test_a_value_that_does_not_fit_the_type_of_its_input_is_refused(trained, tmp_path):
    def model(features, labels, mode, params):
        numbers = [tf.cast(value, tf.float64) for value in features.values() if value.dtype != tf.string]
        return {'y': tf.add_n(numbers), 'text': features['string']}, None

    zeros: dict = {'string': ['ä', b'\xff']}
    zeros |= {name: np.zeros([2], name) for name in ('uint8', 'int32', 'int64', 'uint32', 'bool', 'float32')}
    specs = {name: tf.TensorSpec([None], name) for name in zeros}
    predictor = Predictor(make_estimator(tmp_path, model=model), specs, f'{tmp_path}/model.ckpt-4')
    for name, value, message in (
        ('uint8', [0.5, 1.0], '0.5 (float64) would become 0'),
        ('uint8', np.int64([255, 256]), '256 (int64) would become 0'),
        ('int32', np.float32([np.nan, 1]), 'nan (float32) would become '),
        ('uint32', [0, -1], '-1 (int64) would become 4294967295'),
        ('bool', [0, 2], '2 (int64) would become True'),
        ('float32', [1e39, 0], '1e+39 (float64) would become inf'),
    ):
        with pytest.raises(ValueError, match=re.escape(f'the input {name} is {name}: {message}')):
            predictor.predict({**zeros, name: value})
    objects, rounded = np.array([1.5, True], object), np.array([1.5, 2], tf.bfloat16.as_numpy_dtype)
    right = [('uint8', [255.0, 0.0]), ('bool', [1, 0]), ('float32', [0.1, np.inf]), ('float32', np.uint8([7, 255]))]
    for name, value in (*right, ('float32', objects), ('float32', rounded)):
        found = predictor.predict({**zeros, name: value})
        np.testing.assert_allclose(found['y'], np.float64(value), rtol=1e-6)
        assert [*found['text']] == ['ä'.encode(), b'\xff']
    single = predictor.predict({name: values[0] for name, values in zeros.items()})
    assert (single['y'], single['text']) == (0, 'ä'.encode())
    for name, value, message in (
        ('string', ['a', '\ud800'], 'the input string must be text or bytes, not '),
        ('string', [b'a', 5], 'the input string must be text or bytes, not '),
        ('float32', [1j, 1], 'the input float32 must be float32 (None,), not a NumPy array of complex128 (2,)'),
        ('float32', [None, 1], 'the input float32 is float32: None is not a number'),
        (
            'float32',
            np.array([2**53 + 1, 0.5], object),
            f'float32 is float32: {2**53 + 1} beside floats would become {2**53}.0',
        ),
        ('int64', [1.0, 2**53 + 1], f'the input int64 is int64: {2**53 + 1} beside floats would become {2**53}.0'),
        ('float32', np.ma.masked_array([1, 2], [True, False]), 'the input float32 has masked values: fill them, or leave'),
        ('float32', [1], 'have batches of different sizes: [1, 2]'),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            predictor.predict({**zeros, name: value})


def test_threads_predict_with_the_weights_of_one_checkpoint_while_another_is_loaded(tmp_path):
    def model(features, labels, mode, params):
        several = [tf.get_variable(f'w{i}', [1000, 100], initializer=tf.zeros_initializer()) for i in range(20)]
        return {'y': features['x'] + tf.stack([variable[-1, -1] for variable in several])}, None

    estimator = make_estimator(tmp_path, model=model)
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.create_global_step()
        model({'x': tf.zeros([1, 1])}, None, None, None)
        for number in (1, 2):
            for variable in tf.global_variables():
                variable.load(np.full(variable.shape, number), session)
            tf.train.Saver().save(session, f'{tmp_path}/model.ckpt', step)
    predictor = Predictor(estimator, {'x': tf.TensorSpec([None, 1], tf.float32)}, f'{tmp_path}/model.ckpt-1')
    assert [predictor.reload() for _ in range(2)] == [f'{tmp_path}/model.ckpt-2'] * 2
    kinds, is_over = set(), threading.Event()

    def predict(_):
        while not is_over.is_set():
            kinds.add(tuple(predictor.predict([[0.0]])['y'].ravel()))

    with concurrent.futures.ThreadPoolExecutor() as executor:
        answers = executor.map(predict, range(3))
        for i in range(2000):
            predictor.reload(f'{tmp_path}/model.ckpt-{i % 2 + 1}')
            if i > 20 and len(kinds) > 1:
                break
        is_over.set()
    assert not any(answers) and kinds == {(1.0,) * 20, (2.0,) * 20}


def test_the_newest_path_is_known_during_a_reload_and_changes_before_the_weights(trained, tmp_path, monkeypatch):
    seen = []

    class Watched(Predictor):
        def __setattr__(self, name, value):
            if name in ('_predict', '_predict_one'):
                seen.append(self.newest_path[-1])
            super().__setattr__(name, value)

    predictor = Watched(trained, SPECS, f'{tmp_path}/model.ckpt-2')
    load = predictor._load
    monkeypatch.setattr(predictor, '_load', lambda path: [seen.append(predictor.newest_path[-1]), load(path)][1])
    predictor.reload(f'{tmp_path}/model.ckpt-4')
    assert seen == ['2', '2', '2', '4', '4']


def test_a_predictor_of_the_best_checkpoint_loads_another_best_one_when_there_is_one(trained, tmp_path):
    def keep(step, loss):
        result = {'global_step': step, 'eval': {'loss': loss}}
        keep_if_best(f'{tmp_path}/model.ckpt-{step}', str(tmp_path), Objective('loss', False), 'eval', result)
        return f'{tmp_path}/best/model.ckpt-{step}'

    first = keep(2, 1.0)
    predictor = Predictor(trained, SPECS, first, follows_best=True)
    assert predictor.reload() == first  # The latest is that of step 4.
    last = keep(4, 0.5)
    assert predictor.reload() == last
    np.testing.assert_allclose(predictor.predict({'x': X})['y'], expected(tmp_path, 4, X), rtol=1e-5)
    shutil.rmtree(tmp_path / 'best')
    assert predictor.reload() == last


def test_single_examples_get_the_numbers_of_a_batch_from_a_small_model_loaded_twice(trained, tmp_path, monkeypatch):
    made = []
    make = predictor_module.make_session
    monkeypatch.setattr(predictor_module, 'make_session', lambda *args: made.append(make(*args)) or made[-1])
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
    expected_y = expected(tmp_path, 4, X)
    for i in range(3):
        single, batch = predictor.predict({'x': X[i]})['y'], predictor.predict({'x': X[i][None]})['y']
        np.testing.assert_allclose([single, *batch], 2 * [expected_y[i]], rtol=1e-6)
    assert len(made) == 2
    predictor.reload(f'{tmp_path}/model.ckpt-2')
    np.testing.assert_allclose(predictor.predict(X[1])['y'], expected(tmp_path, 2, X)[1], rtol=1e-6)
    made.clear()
    Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4', answers_one=False)
    monkeypatch.setattr(predictor_module, '_MAX_BYTES', 8)  # The two weights have 8 bytes, the global step others.
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
    assert len(made) == 2 and predictor.predict(X[0])['y'] == pytest.approx(expected_y[0], rel=1e-6)


def test_a_reload_reads_which_checkpoint_is_the_latest_only_after_it_has_changed(trained, tmp_path, monkeypatch):
    read, latest = [], tf.train.latest_checkpoint
    monkeypatch.setattr(tf.train, 'latest_checkpoint', lambda directory: read.append(1) or latest(directory))
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
    assert [predictor.reload() for _ in range(3)] == 3 * [f'{tmp_path}/model.ckpt-4'] and len(read) == 1
    for path in tmp_path.glob('model.ckpt-4.*'):
        shutil.copy(path, tmp_path / path.name.replace('-4', '-6'))
    os.rename(tmp_path / 'model.ckpt-6.index', tmp_path / 'index')  # Not there yet.
    tf.train.update_checkpoint_state(str(tmp_path), 'model.ckpt-6')
    assert predictor.reload() == f'{tmp_path}/model.ckpt-4'
    os.rename(tmp_path / 'index', tmp_path / 'model.ckpt-6.index')
    assert predictor.reload() == f'{tmp_path}/model.ckpt-6'
    read.clear()
    assert predictor.reload() == f'{tmp_path}/model.ckpt-6' and not read
    os.remove(tmp_path / 'checkpoint')
    assert predictor.reload() == f'{tmp_path}/model.ckpt-6'


def test_a_predictor_keeps_its_weights_when_another_checkpoint_is_damaged(trained, tmp_path):
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
    path = f'{tmp_path}/model.ckpt-2'
    DAMAGES['cut'](tmp_path / 'model.ckpt-2.data-00000-of-00001')
    for load in (predictor.reload, lambda path: Predictor(trained, SPECS, path)):
        with pytest.raises(RunError, match=f'{path}: is corrupt'):
            load(path)
    np.testing.assert_allclose(predictor.predict({'x': X})['y'], expected(tmp_path, 4, X), rtol=1e-5)


def test_image_files_become_grey_bytes_of_the_size_declared_upright_if_their_exif_is_intact(tmp_path):
    of_wrong_type = b'Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x05\0\0\0\x01\0\0\0\x1a\0\0\0\0'
    damaged = [('L', 100, 100, exif) for exif in (b'Exif\0\0MM\0*', b'Exi', of_wrong_type)]
    for mode, pixel, grey, exif in [('RGB', (10, 10, 10), 10, b''), ('RGBA', (0, 0, 0, 0), 255, b''), *damaged]:
        Image.new(mode, (9, 7), pixel).save(tmp_path / 'image.png', exif=exif)
        ((fields, image),) = open_images(tmp_path / 'image.png').entries
        assert fields == {'input': f'{tmp_path}/image.png'}
        np.testing.assert_array_equal(image, np.full([4, 4, 1], grey, np.uint8), mode)
    pixels, turned = np.arange(16, dtype=np.uint8).reshape(4, 4), Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / 'image.png', exif=turned)
    ((_, image),) = open_images(tmp_path / 'image.png').entries
    np.testing.assert_array_equal(image[:, :, 0], np.rot90(pixels, -1))


@pytest.mark.parametrize('name', ['photo [1].png', '[old] photos/1.png', 'what?*.png'])
def test_a_file_or_folder_that_is_there_is_taken_by_its_name(tmp_path, name):
    write(tmp_path, name, 'photo 1.png', 'what is.png')
    for path in (name, name.split('/')[0]):
        assert inputs(open_images(tmp_path / path), tmp_path) == [name]


def test_images_of_folders_and_patterns_are_sorted_and_a_bad_one_is_an_entry_with_its_error(tmp_path):
    write(tmp_path, 'b/2.png', 'b/c/1.png', 'a/4.png', 'a/.hidden')
    Image.new('L', (3, 3)).save(tmp_path / 'a' / '3.png')
    assert inputs(open_images(f'{tmp_path}/*'), tmp_path) == ['a/3.png', 'a/4.png', 'b/2.png', 'b/c/1.png']
    good, bad = (entry for _, entry in open_images(tmp_path / 'a' / '*.png').entries)
    assert good.shape == (4, 4, 1)
    assert isinstance(bad, UsageError) and str(bad) == f'{tmp_path}/a/4.png is empty: copy it again'


def test_tfrecord_files_and_folders_are_read_and_a_corrupt_one_is_an_entry_with_its_error(tmp_path):
    content = b''.join(tfrecords.record(records.encode({'x': x})) for x in ([1.5, 0.5], [2.5, 3.5]))
    write(tmp_path, 'x/1.tfrecord', content=content[:-1] + b'x')
    write(tmp_path, 'x/2.tfrecord', 'x/README.md', 'y.tfrecord-00000-of-00001', content=content)
    files = open_rows(tmp_path / '*')
    (fields, error), *entries = files.entries
    assert fields == {'input': f'{tmp_path}/x/1.tfrecord'} and str(error).startswith(f'{tmp_path}/x/1.tfrecord: the record at ')
    names = ('x/2.tfrecord', 'y.tfrecord-00000-of-00001')
    fields, examples = zip(*entries)
    assert fields == tuple({'input': f'{tmp_path}/{name}', 'record': i} for name in names for i in range(2))
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(files.to_features(tf.constant(examples)))['x']
    assert found.tolist() == 2 * [[1.5, 0.5], [2.5, 3.5]]


@pytest.mark.parametrize('patterns, names', [(('*.txt',), ['a.TXT', 'b/c/2.txt']), (None, ['a.TXT', 'b/1.csv', 'b/c/2.txt'])])
def test_a_folder_stands_for_the_files_of_the_dataset_beneath_it(tmp_path, patterns, names):
    write(tmp_path / 'in', 'b/1.csv', 'b/c/2.txt', 'a.TXT', '.a.txt', '.b/3.txt')
    (tmp_path / 'in' / 'b' / 'loop').symlink_to(tmp_path / 'in')
    functions = {'read_input': read_name, **({'INPUT_PATTERNS': patterns} if patterns else {})}
    found = [(fields['input'], entry) for fields, entry in open_rows(tmp_path / 'in', **functions).entries]
    assert found == [(f'{tmp_path}/in/{name}',) * 2 for name in names]


def test_of_a_folder_a_dataset_of_own_files_reads_those_of_its_kind(tmp_path):
    table, other_table, text, records, image = files = 'a.csv', 'b.tsv', 'c.txt', 'd.tfrecord-00000-of-00001', 'e.PNG'
    write(tmp_path, 'README.md', *files)
    kinds = {'csv': [table, other_table], 'text': [other_table, text], 'image_folder': [image]}
    for name, names in {**kinds, 'tfrecord': [records, image], 'tfds': [records, image]}.items():
        patterns = loader.load('dataset', name).INPUT_PATTERNS
        assert inputs(open_rows(tmp_path, read_input=read_name, INPUT_PATTERNS=patterns), tmp_path) == names


def test_a_pattern_without_a_folder_leads_to_names_without_one(tmp_path, monkeypatch):
    write(tmp_path, 'a.csv', 'b.csv')
    monkeypatch.chdir(tmp_path)
    for pattern, names in (('*.csv', ['a.csv', 'b.csv']), ('./*.csv', ['./a.csv', './b.csv'])):
        assert [fields['input'] for fields, _ in open_rows(pattern, read_input=read_name).entries] == names


def test_unreadable_inputs_are_named(tmp_path):
    write(tmp_path / 'in', 'x.csv')
    of_tables = {'read_input': read_name, 'INPUT_PATTERNS': ('*.txt', '*.tsv')}
    for functions, named in ((of_tables, '*.txt, *.tsv'), ({}, '*.tfrecord*')):
        ((fields, error),) = open_rows(tmp_path / 'in', **functions).entries
        assert fields == {'input': f'{tmp_path}/in'}
        assert isinstance(error, UsageError) and str(error) == f'{tmp_path}/in: has no files named {named}'
    os.mkfifo(tmp_path / 'in' / 'pipe.tsv')  # Reading it would wait for a writer.
    ((_, error),) = open_rows(tmp_path / 'in', **of_tables).entries
    assert 'has no files' in str(error)
    for path, problem in ((tmp_path / 'in' / 'pipe.tsv', 'is neither a file nor a folder'), ('nothing*.png', 'no such file')):
        with pytest.raises(UsageError, match=f'^--input={re.escape(str(path))}: {problem}'):
            open_rows(path)
    with pytest.raises(UsageError, match=r'--dataset=d takes no files other than \*.tfrecord: it has no read_input'):
        open_rows(tmp_path / 'in' / 'x.csv')
    tensors = {'read': lambda *_: tf.data.Dataset.range(2), 'parse': lambda mode, params, i: ({'x': i}, {})}
    with pytest.raises(UsageError, match=r'--dataset=d takes no files: it has no read_input'):
        open_rows(tmp_path / 'in', **tensors)


@pytest.mark.parametrize('wrong', [lambda x: tf.reduce_sum(x), lambda x: x[:1]])
def test_a_prediction_of_the_batches_of_an_input_fn_that_has_not_one_value_per_example_is_named(tmp_path, wrong):
    def model_fn(features, labels, mode):
        tf.get_variable('w', initializer=1.0)
        step = tf.assign_add(tf.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, {'x': features, 'y': wrong(features)}, tf.constant(0.0), step)

    dataset = types.SimpleNamespace(input_fn=lambda split, params: tf.data.Dataset.from_tensor_slices((X, X)).batch(5))
    source = DataSource(dataset, '', build.make_hparams('m', {}, 'd', {}))
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(lambda: source.make_batches('train'), steps=1)
    with pytest.raises(
        UsageError, match=r'^--model=m: predictions must have the shape \[batch, ...\]; a batch has: x \[5, 2\]'
    ):
        list(predict_split(estimator, source, 'eval', estimator.latest_checkpoint()))
