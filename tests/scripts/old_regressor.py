"""A typical program with a canned Estimator: fits y = 3x + 1, and prints the loss."""

import sys

import tensorflow as tf


def input_fn():
    return tf.data.Dataset.from_tensors(({'x': [0.0, 1.0, 2.0]}, [1.0, 4.0, 7.0])).repeat()


columns = [tf.feature_column.numeric_column('x')]
estimator = tf.estimator.LinearRegressor(columns, sys.argv[1], optimizer=lambda: tf.keras.optimizers.legacy.Adam(0.5))
estimator.train(input_fn, steps=100)
loss = estimator.evaluate(input_fn, steps=1)['average_loss']
print('average loss:', loss)
sys.exit(int(loss > 0.01))
