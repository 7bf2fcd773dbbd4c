"""An Estimator that learns y = 2x of the points (1, 2) and (2, 4): each step halves the error of the slope."""

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as tf1

X, Y = np.float32([1, 2]), np.float32([2, 4])


def slope_after(steps):
    return 2 - 2 * 0.5**steps


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


def make_estimator(model_dir, api=tf, rate=0.1, warm_start_from=None, **config):
    config = api.estimator.RunConfig(str(model_dir), **config)
    return api.estimator.Estimator(model_fn, config=config, params={'rate': rate}, warm_start_from=warm_start_from)
