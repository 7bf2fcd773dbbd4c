"""Predictions of splits and files, one after the other."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import records
from common.data.source import DataSource
from common.errors import UsageError
from common.inference.input_files import open_files
from common.inference.prediction import Prediction, predict_files, predict_split, read_labels
from hparams import build
from tests.linear import X, make_estimator


def read(split, data_dir, params):
    examples = [records.encode({'x': x, 'name': f'n{i}'}) for i, x in enumerate(X)]
    return tf.data.Dataset.from_tensor_slices(examples)


def parse(mode, params, record):
    spec = {'x': tf.io.FixedLenFeature([2], tf.float32), 'name': tf.io.FixedLenFeature([], tf.string, 'none')}
    parsed = tf.io.parse_single_example(record, spec)
    return {'x': parsed['x'], 'example_id': parsed['name']}, {}


def read_input(path, params):
    for number, line in enumerate(open(path)):
        values = [float(word) for word in line.split()]
        yield {'line': number}, records.encode({'x': values}) if values else UsageError('is empty')


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """An Estimator, a DataSource with batches of 4, a checkpoint, and its weights [2, 1]."""
    estimator = make_estimator(tmp_path_factory.mktemp('trained'))
    estimator.train(lambda: tf.data.Dataset.from_tensors(({'x': X}, {'y': X[:, 0] * 0})).repeat(), max_steps=1)
    module = types.SimpleNamespace(read=read, parse=parse, read_input=read_input)
    params = build.make_hparams('m', {}, 'd', {}, text='eval_batch_size=4')
    return estimator, DataSource(module, '', params), estimator.latest_checkpoint(), estimator.get_variable_value('w')


def test_the_predictions_of_a_split_have_the_ids_of_its_examples(trained):
    estimator, source, checkpoint, w = trained
    found = [prediction.to_json() for prediction in predict_split(estimator, source, 'eval', checkpoint)]
    assert [line['example_id'] for line in found] == [f'n{i}' for i in range(10)]
    np.testing.assert_allclose([line['y'] for line in found], X @ w[:, 0], rtol=1e-4)


def test_bad_examples_of_files_do_not_keep_the_others_from_being_predicted(trained, tmp_path):
    estimator, source, checkpoint, w = trained
    rows = ['1 2', '', '3 4', '5', '6 7', '8 9 10', '1 0']  # Two have the wrong number of values.
    assert records.encode({'x': [1.0, 0.0]}).endswith(b'\0')  # Which NumPy would drop.
    (tmp_path / 'rows.txt').write_text('\n'.join(rows))
    files = open_files(source, str(tmp_path / 'rows.txt'))
    found = [prediction.to_json() for prediction in predict_files(estimator, files, 3, checkpoint)]
    assert [line['line'] for line in found] == list(range(7))
    assert ['error' in line for line in found] == [False, True, False, True, False, True, False]
    assert found[1]['error'] == 'is empty' and 'Key: x' in found[3]['error']
    x = np.array([[1, 2], [3, 4], [6, 7], [1, 0]])
    np.testing.assert_allclose([line['y'] for line in found if 'y' in line], x @ w[:, 0], rtol=1e-4)


def test_the_labels_of_a_split_are_read_if_they_are_classes():
    def read_first(labels):
        dataset = types.SimpleNamespace(read=lambda *_: tf.data.Dataset.range(9), parse=lambda _, __, i: ({'x': i}, labels(i)))
        return read_labels(DataSource(dataset, '', build.make_hparams('m', {}, 'd', {}, text='eval_batch_size=4')), 'eval', 6)

    assert read_first(lambda i: {'label': i}) == [0, 1, 2, 3, 4, 5]
    assert read_first(lambda i: {'label': tf.cast(i, tf.float32)}) == []
    assert read_first(lambda i: {'label': tf.stack([i, i])}) == []
    assert read_first(lambda i: {'y': i}) == []
    assert read_first(lambda i: {'label': tf.gather([1], i)}) == []  # Fails.


def test_a_class_is_written_with_its_name():
    prediction = Prediction({'input': 'a'}, {'class': np.int64(1)})
    assert prediction.to_json(['cat', 'dog']) == {'input': 'a', 'class': 1, 'class_name': 'dog'}
    assert prediction.to_json(['cat']) == prediction.to_json() == {'input': 'a', 'class': 1}
