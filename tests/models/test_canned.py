"""The models that are canned Estimators."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training.estimator_fn import EstimatorFn
from estimator_trainer.common.training.training import Training
from estimator_trainer.hparams import build
from estimator_trainer.models import linear, wide_deep

NUMBER, WEIGHT = {'name': 'x', 'kind': 'numeric', 'values': 1}, {'name': 'w', 'kind': 'weight'}


@pytest.mark.parametrize('model', [linear, wide_deep])
@pytest.mark.parametrize('task', ['classification', 'regression'])
@pytest.mark.parametrize(('stored', 'expected'), [([NUMBER], 0.5), ([NUMBER, WEIGHT], 0.25)])
def test_weights_of_examples_count_if_the_data_has_them(tmp_path, model, task, stored, expected):
    params = build.make_hparams('m', model.get_params(), 'tfrecord', {}, '', f'task={task}')
    params = build.add_metadata(params, {'features': stored})
    made = model.estimator(tf.estimator.RunConfig(str(tmp_path)), params)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.create_global_step()
        features = {'x': tf.constant([[1.0], [2.0]]), 'weight': tf.constant([3.0, 1.0])}
        labels = tf.constant([0, 1], tf.int32 if task == 'classification' else tf.float32)
        mean, update = made.model_fn(features, labels, tf.estimator.ModeKeys.EVAL, made.config).eval_metric_ops['label/mean']
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(update)
        assert session.run(mean) == pytest.approx(expected)


@pytest.mark.parametrize('stored, shares', [([NUMBER], [1, 3]), ([NUMBER, WEIGHT], [2, 3])])
def test_class_weights_count_in_training_alone(tmp_path, stored, shares):
    names = set()
    params = build.make_hparams('m', linear.get_params(), 'tfrecord', {}, '', 'class_weights=[1,3],learning_rate=0.0')
    params = build.ReadHParams(build.add_metadata(params, {'features': stored}), names)
    made = linear.estimator(tf.estimator.RunConfig(str(tmp_path)), params)
    data = types.SimpleNamespace()
    training = Training(Options(), 1, modules=[linear, data])
    model_fn = EstimatorFn(made.model_fn, data, training, params, names)
    found = {}
    for mode in ('train', 'eval'):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.create_global_step()
            features, labels = {'x': tf.constant([[1.0], [2.0]])}, {'label': tf.constant([0, 1])}
            labels |= {'weight': tf.constant([2.0, 1.0])} if WEIGHT in stored else {}
            spec = model_fn(features, labels, mode, None, made.config)
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            found[mode] = session.run(spec.loss) / np.log(2)  # A sum: all weights of the model are 0.
    weights = [2, 1] if WEIGHT in stored else [1, 1]
    assert found == {'train': pytest.approx(sum(shares)), 'eval': pytest.approx(sum(weights))}
