"""An exported model's signatures, for datasets of every kind, loaded and asked again."""

import types

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.data import records
from common.data.source import DataSource
from common.errors import UsageError
from common.inference import serving
from common.ops.python_op import python_op
from common.training import model_fn
from common.training.options import TrainingOptions
from hparams import build

SPEC = {'x': tf.io.FixedLenFeature([2], tf.float32), 'n': tf.io.FixedLenFeature([], tf.int64)}


def doubled(features, labels, mode, params):
    """Gives back what came in, times a variable, so that a checkpoint is needed."""
    factor = tf.get_variable('factor', initializer=2.0)
    y = features['x'] * factor + tf.cast(features['n'], tf.float32)[:, None]
    return {'y': y}, None if labels is None else tf.reduce_sum(y, 1)


def examples():
    return tf.data.Dataset.from_tensor_slices([records.encode({'x': [1.0, 2.0], 'n': 3}) for _ in range(4)])


def parse(mode, params, serialized):
    parsed = tf.io.parse_single_example(serialized, SPEC)
    return {'x': parsed['x'], 'n': tf.cast(parsed['n'], tf.int32)}, {}


def parse_batch(mode, params, serialized):
    parsed = tf.io.parse_example(serialized, SPEC)
    return {'x': parsed['x'], 'n': tf.cast(parsed['n'], tf.int32)}, {}


def tensors():
    return tf.data.Dataset.from_tensor_slices({'x': np.ones([4, 2], np.float32), 'n': np.arange(4, dtype=np.int32)})


DATASETS = {
    'records parsed one by one': dict(read=lambda *_: examples(), parse=parse),
    'records parsed in batches': dict(read=lambda *_: examples(), parse_batch=parse_batch),
    'tensors made in memory': dict(read=lambda *_: tensors(), parse=lambda mode, params, record: (record, {})),
}


def make(tmp_path, dataset, model):
    """Returns a trained Estimator and the function of the inputs of its export."""
    params = build.make_hparams('m', {}, 'd', {}, text='optimizer=sgd,learning_rate=0')
    fn = model_fn.make_model_fn(types.SimpleNamespace(model=model), [], TrainingOptions(), total_steps=1)
    estimator = tf.estimator.Estimator(fn, str(tmp_path), params=params)
    features = {'x': np.ones([1, 2], np.float32), 'n': np.ones([1], np.int32)}
    estimator.train(lambda: tf.data.Dataset.from_tensors((features, {'y': [1.0]})), steps=1)
    return estimator, serving.make_serving_input_fn(DataSource(types.SimpleNamespace(**dataset), '', params))


@pytest.mark.parametrize('kind', DATASETS)
def test_both_signatures_of_an_export_agree_for_any_batch(tmp_path, kind):
    estimator, serving_input_fn = make(tmp_path, DATASETS[kind], doubled)
    specs = serving.check_exportable(estimator, serving_input_fn, estimator.latest_checkpoint())
    assert {name: (spec.shape.as_list(), spec.dtype) for name, spec in specs.items()} == {
        'x': ([None, 2], tf.float32),
        'n': ([None], tf.int32),
    }
    path = estimator.export_saved_model(str(tmp_path / 'export'), serving_input_fn)
    signatures = tf2.saved_model.load(path.decode()).signatures
    for count in (1, 3):
        x = np.random.RandomState(count).normal(size=[count, 2]).astype(np.float32)
        n = np.arange(count, dtype=np.int32)
        raw = signatures['serving_default'](x=tf2.constant(x), n=tf2.constant(n))['y']
        serialized = tf2.constant([records.encode({'x': x[i], 'n': n[i]}) for i in range(count)])
        from_examples = signatures['examples:serving_default'](examples=serialized)['y']
        for y in (raw, from_examples):
            np.testing.assert_allclose(y, 2 * x + n[:, None], rtol=1e-6)


def test_a_model_that_calls_python_is_not_exported(tmp_path):
    def model(features, labels, mode, params):
        y = python_op(lambda x: x, lambda x, gradient: gradient)(tf.get_variable('w', initializer=1.0) * features['x'])
        return {'y': y}, None if labels is None else tf.reduce_sum(y, 1)

    estimator, serving_input_fn = make(tmp_path, DATASETS['tensors made in memory'], model)
    with pytest.raises(UsageError, match='^--schedule=export: model/PyFunc is a Python function, which only this process'):
        serving.check_exportable(estimator, serving_input_fn, estimator.latest_checkpoint())


def test_a_feature_of_unknown_rank_is_not_exported(tmp_path):
    def parse_grid(mode, params, record):
        return {'grid': tf.ones([record['n'], record['n']])}, {}

    _, serving_input_fn = make(tmp_path, {'read': lambda *_: tensors(), 'parse': parse_grid}, doubled)
    with tf.Graph().as_default(), pytest.raises(UsageError, match='the feature grid must have a shape whose first dimension'):
        serving_input_fn()
