"""An Estimator that learns y = 2x, and what it should have learned after each step; the tests share it.

It descends from the slope 0, on the examples (1, 2) and (2, 4) at once. The gradient of the mean squared error is
5 (slope - 2), the rate 0.1: each step halves what is missing of the slope. The loss is 10 at first.
"""

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

BOTH_APIS = pytest.mark.parametrize('api', [tf, tf1], ids=['tf', 'tf.compat.v1'])
X, Y = np.float32([1, 2]), np.float32([2, 4])


def slope_after(steps):
    return 2 - 2 * 0.5**steps


def loss_after(steps):
    return 10 * 0.25**steps


def model_fn(features, labels, mode, params):
    slope = tf1.get_variable('slope', [], initializer=tf1.zeros_initializer())
    y = slope * features['x']
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {'y': y})
    loss = tf.reduce_mean(tf.square(y - labels))
    optimizer = tf1.train.GradientDescentOptimizer(params.get('rate', 0.1))
    train_op = optimizer.minimize(loss, tf1.train.get_or_create_global_step())
    metrics = {'error': tf1.metrics.mean_absolute_error(labels, y)}
    return tf.estimator.EstimatorSpec(mode, {'y': y}, loss, train_op, metrics)


def input_fn():
    return tf.data.Dataset.from_tensors(({'x': X}, Y)).repeat()


def serving_input_fn():
    x = tf1.placeholder(tf.float32, [None])
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


def make_estimator(model_dir, api=tf, rate=0.1, warm_start_from=None, **config):
    return api.estimator.Estimator(
        model_fn,
        config=api.estimator.RunConfig(str(model_dir), **config),
        params={'rate': rate},
        warm_start_from=warm_start_from,
    )


def slope_of(estimator):
    return pytest.approx(float(estimator.get_variable_value('slope')), abs=1e-6)


def step_of(estimator):
    return int(estimator.get_variable_value('global_step'))
