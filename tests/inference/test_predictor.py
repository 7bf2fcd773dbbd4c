"""Asking a model many times: the Estimator's numbers, without its building everything anew."""

import re
import threading
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.inference.predictor import Predictor
from tests.linear import MODEL, X, make_estimator

SPECS = {'x': tf.TensorSpec([None, 2], tf.float32)}


def expected(tmp_path, step, x):
    return x @ tf.train.load_variable(f'{tmp_path}/model.ckpt-{step}', 'w')[:, 0]


def test_a_predictor_gives_the_numbers_of_estimator_predict_for_any_batch(trained, tmp_path, monkeypatch):
    calls = []
    model = MODEL.model
    monkeypatch.setattr(MODEL, 'model', lambda *args: calls.append(1) or model(*args))
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
    for size in (1, 10, 0, 3):
        found = predictor.predict({'x': X[:size]})
        assert found.keys() == {'y'} and found['y'].dtype == np.float32
        np.testing.assert_allclose(found['y'], expected(tmp_path, 4, X[:size]), rtol=1e-5)
    predictor.reload(f'{tmp_path}/model.ckpt-2')
    found = predictor.predict({'x': X})['y']
    np.testing.assert_allclose(found, expected(tmp_path, 2, X), rtol=1e-5)
    assert len(calls) == 1  # The model is built once.
    of_estimator = trained.predict(lambda: tf.data.Dataset.from_tensors({'x': X}), checkpoint_path=f'{tmp_path}/model.ckpt-2')
    np.testing.assert_allclose(found, [prediction['y'] for prediction in of_estimator], rtol=1e-5)


def test_a_single_example_is_predicted_as_in_a_batch_and_an_only_input_needs_no_name(trained, tmp_path):
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
    found = predictor.predict({'x': X[3]})['y']
    assert found.shape == () and found == predictor.predict(X[3].tolist())['y']
    np.testing.assert_allclose(found, expected(tmp_path, 4, X)[3], rtol=1e-5)


def test_a_predictor_refuses_other_inputs(trained, tmp_path):
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
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
                session.run(variable.assign(tf.fill(variable.shape, tf.cast(number, variable.dtype))))
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


def test_a_checkpoint_that_does_not_fit_or_is_damaged_is_named(trained, tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        step, variables = tf.train.create_global_step(), [tf.get_variable('other', [2, 1]), tf.get_variable('w', [3, 1])]
        session.run(tf.global_variables_initializer())
        for variable in variables:
            tf.train.Saver([step, variable]).save(session, f'{tmp_path}/with_{variable.op.name}')
    with pytest.raises(RunError, match='with_other: does not match the model: it has no variable w'):
        Predictor(trained, SPECS, f'{tmp_path}/with_other')
    predictor = Predictor(trained, SPECS, f'{tmp_path}/model.ckpt-4')
    data, index = (tmp_path / f'model.ckpt-2.{suffix}' for suffix in ('data-00000-of-00001', 'index'))
    whole, whole_index = data.read_bytes(), index.read_bytes()
    for damage, name, message in (
        (lambda: None, 'with_w', r'does not match the model: w has shape \[3, 1\] in the checkpoint, but \[2, 1\]'),
        (lambda: data.write_bytes(whole[:-4]), 'model.ckpt-2', 'is corrupt'),
        (lambda: data.write_bytes(b'x' * len(whole)), 'model.ckpt-2', 'is corrupt'),
        (lambda: index.write_bytes(b'garbage'), 'model.ckpt-2', 'is corrupt'),
        (lambda: index.write_bytes(whole_index) and data.unlink(), 'model.ckpt-2', 'a file of it is missing'),
    ):
        damage()
        with pytest.raises(RunError, match=f'{name}: {message}'):
            predictor.reload(f'{tmp_path}/{name}')
    np.testing.assert_allclose(predictor.predict({'x': X})['y'], expected(tmp_path, 4, X), rtol=1e-5)
