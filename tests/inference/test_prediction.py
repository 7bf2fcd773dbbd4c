"""Predictions of arrays, asked for many times, and of splits and files, one after the other."""

import re
import threading
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import records
from common.data.source import DataSource
from common.errors import RunError, UsageError
from common.inference.input_files import open_files
from common.inference.prediction import Prediction, predict_files, predict_split, read_labels
from common.inference.predictor import Predictor
from hparams import build
from tests.linear import MODEL, X, make_estimator

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


def make_source(**functions):
    return DataSource(types.SimpleNamespace(**functions), '', build.make_hparams('m', {}, 'd', {}, text='eval_batch_size=4'))


SOURCE = make_source(read=read, parse=parse, read_input=read_input)


def expected(tmp_path, step, x):
    return x @ tf.train.load_variable(f'{tmp_path}/model.ckpt-{step}', 'w')[:, 0]


def test_the_predictions_of_a_split_have_the_ids_of_its_examples(trained, tmp_path):
    found = [prediction.to_json() for prediction in predict_split(trained, SOURCE, 'eval', f'{tmp_path}/model.ckpt-4')]
    assert [line['example_id'] for line in found] == [f'n{i}' for i in range(10)]
    np.testing.assert_allclose([line['y'] for line in found], expected(tmp_path, 4, X), rtol=1e-4)


def test_bad_examples_of_files_do_not_keep_the_others_from_being_predicted(trained, tmp_path):
    rows = ['1 2', '', '3 4', '5', '6 7', '8 9 10', '1 0']  # Two have the wrong number of values.
    assert records.encode({'x': [1.0, 0.0]}).endswith(b'\0')  # Which NumPy would drop.
    (tmp_path / 'rows.txt').write_text('\n'.join(rows))
    files = open_files(SOURCE, str(tmp_path / 'rows.txt'))
    found = [prediction.to_json() for prediction in predict_files(trained, files, 3, f'{tmp_path}/model.ckpt-4')]
    assert [line['line'] for line in found] == list(range(7))
    assert ['error' in line for line in found] == [False, True, False, True, False, True, False]
    assert found[1]['error'] == 'is empty' and 'Key: x' in found[3]['error']
    x = np.array([[1, 2], [3, 4], [6, 7], [1, 0]])
    np.testing.assert_allclose([line['y'] for line in found if 'y' in line], expected(tmp_path, 4, x), rtol=1e-4)


def test_the_labels_of_a_split_are_read_if_they_are_classes():
    def read_first(labels):
        source = make_source(read=lambda *_: tf.data.Dataset.range(9), parse=lambda _, __, i: ({'x': i}, labels(i)))
        return read_labels(source, 'eval', 6)

    assert read_first(lambda i: {'label': i}) == [0, 1, 2, 3, 4, 5]
    assert read_first(lambda i: {'label': tf.cast(i, tf.float32)}) == []
    assert read_first(lambda i: {'label': tf.stack([i, i])}) == []
    assert read_first(lambda i: {'y': i}) == []
    assert read_first(lambda i: {'label': tf.gather([1], i)}) == []  # Fails.


def test_a_class_is_written_with_its_name():
    prediction = Prediction({'input': 'a'}, {'class': np.int64(1)})
    assert prediction.to_json(['cat', 'dog']) == {'input': 'a', 'class': 1, 'class_name': 'dog'}
    assert prediction.to_json(['cat']) == prediction.to_json() == {'input': 'a', 'class': 1}


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
    for name, value, message in (
        ('y', X, 'the inputs are x, not y'),
        ('x', np.zeros([3, 5], np.float32), 'the input x must be float32 (None, 2), not a NumPy array of float32 (3, 5)'),
        ('x', ['a', 'b'], 'the input x must be float32 (None, 2), not a NumPy array of <U1 (2,)'),
        ('x', [[1], 2], 'the input x must be float32 (None, 2), not a list of 2'),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            predictor.predict({name: value})


def test_threads_predict_with_the_weights_of_one_checkpoint_while_another_is_loaded(tmp_path):
    def model(features, labels, mode, params):
        several = [tf.get_variable(f'w{i}', [1000, 100], initializer=tf.zeros_initializer()) for i in range(20)]
        return {'y': features['x'] + tf.stack([variable[-1, -1] for variable in several])}, None

    estimator = make_estimator(tmp_path, model=types.SimpleNamespace(model=model))
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.create_global_step()
        model({'x': tf.zeros([1, 1])}, None, None, None)
        for number in (1, 2):
            for variable in tf.global_variables():
                variable.load(np.full(variable.shape, number), session)
            tf.train.Saver().save(session, f'{tmp_path}/model.ckpt', step)
    predictor = Predictor(estimator, {'x': tf.TensorSpec([None, 1], tf.float32)}, f'{tmp_path}/model.ckpt-1')
    assert predictor.reload() == f'{tmp_path}/model.ckpt-2'
    kinds, is_over = set(), threading.Event()

    def predict():
        while not is_over.is_set():
            kinds.add(tuple(predictor.predict([[0.0]])['y'].ravel()))

    threads = [threading.Thread(target=predict) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(2000):
        predictor.reload(f'{tmp_path}/model.ckpt-{i % 2 + 1}')
        if i > 20 and len(kinds) > 1:
            break
    is_over.set()
    for thread in threads:
        thread.join()
    assert kinds == {(1.0,) * 20, (2.0,) * 20}


def test_a_predictor_keeps_its_weights_when_another_checkpoint_is_damaged(trained, tmp_path):
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
    path = f'{tmp_path}/model.ckpt-2'
    content = (tmp_path / 'model.ckpt-2.data-00000-of-00001').read_bytes()
    for suffix, damaged in (('data-00000-of-00001', content[:-4]), ('index', b'garbage')):
        (tmp_path / f'model.ckpt-2.{suffix}').write_bytes(damaged)
        with pytest.raises(RunError, match=f'{path}: is corrupt'):
            predictor.reload(path)
        with pytest.raises(RunError, match=f'{path}: is corrupt'):
            Predictor(trained, SPECS, path)
    np.testing.assert_allclose(predictor.predict({'x': X})['y'], expected(tmp_path, 4, X), rtol=1e-5)
