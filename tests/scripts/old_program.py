"""A typical Estimator program, independent of this project. test_runner.py runs it, 3 steps of y = 2x."""

import os
import sys
import warnings

import numpy as np
import tensorflow.compat.v1 as tf

# Beside this file when the test runs it, and not this project's packages of these names.
from common import STEPS
import datasets
from hparams import mine as hparams
from models import mine as models


def model_fn(features, labels, mode):
    training = mode == tf.estimator.ModeKeys.TRAIN
    hidden = tf.layers.conv2d(tf.reshape(features['x'], [-1, 1, 1, 1]), 4, 1, activation=tf.nn.relu)
    hidden = tf.layers.dropout(tf.layers.flatten(tf.layers.batch_normalization(hidden, training=training)), training=training)
    tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(2), tf.expand_dims(tf.layers.dense(hidden, 2), 1), dtype=tf.float32)

    slope = tf.get_variable('slope', [], initializer=tf.zeros_initializer())
    prediction = slope * features['x']
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'y': prediction})
    loss = tf.losses.mean_squared_error(labels, prediction)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step(), [slope])
    metrics = {'error': tf.metrics.mean_absolute_error(labels, prediction)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def input_fn():
    dataset = tf.data.Dataset.from_tensors(({'x': np.float32([1, 2])}, np.float32([2, 4])))
    return tf.data.make_one_shot_iterator(dataset.repeat()).get_next()


if __name__ == '__main__':
    _, _, model_dir, *words = sys.argv
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.INFO)
    warnings.warn('`my.layer` is deprecated and will be removed in a future version.')
    warnings.warn('A tensor of mine is large.', RuntimeWarning)
    tf.logging.warning('From %s: my flag is deprecated and will be removed. Instructions for updating: drop it.', 'me')

    estimator = tf.estimator.Estimator(model_fn, model_dir, tf.estimator.RunConfig(session_config=tf.ConfigProto()))
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(input_fn, max_steps=STEPS), tf.estimator.EvalSpec(input_fn, steps=1))
    prediction = next(iter(estimator.predict(input_fn)))
    x = tf.placeholder(tf.float32, [None])
    serving_input_fn = tf.estimator.export.build_raw_serving_input_receiver_fn({'x': x})
    estimator.export_saved_model(os.path.join(model_dir, 'export'), serving_input_fn)
    names = ', '.join(module.NAME for module in (datasets, hparams, models))
    print(__name__, os.path.basename(__file__), sys.argv[0], words, names, prediction['y'])
    sys.exit(7)
