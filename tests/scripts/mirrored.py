"""Trains y = 2x on two logical CPU devices, a MirroredStrategy's. tests/test_tf_estimator.py runs it.

An example has a device of its own, so that only both together learn as one device does from both examples.
"""

import json
import sys

import common.tf_estimator  # Before TensorFlow.
import numpy as np
import tensorflow as tf

replicas = []


def model_fn(features, labels, mode):
    replicas.append(tf.distribute.get_replica_context().replica_id_in_sync_group)
    slope = tf.compat.v1.get_variable('slope', [], initializer=tf.compat.v1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(slope * features['x'] - labels))
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    return tf.data.Dataset.from_tensor_slices(({'x': np.float32([1, 2])}, np.float32([2, 4]))).repeat().batch(1)


def main(model_dir):
    # It raises if importing common.tf_estimator has already made use of the devices.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices('CPU')[0], [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])
    config = tf.estimator.RunConfig(model_dir, train_distribute=strategy, eval_distribute=strategy)
    estimator = tf.estimator.Estimator(model_fn, config=config)
    estimator.train(input_fn, max_steps=3)
    trained_on = sorted(replicas)
    metrics = estimator.evaluate(input_fn, steps=1)
    print(json.dumps({
        'replicas': trained_on,
        'slope': float(estimator.get_variable_value('slope')),
        'loss': float(metrics['loss']),
        'global_step': int(metrics['global_step']),
    }))


if __name__ == '__main__':
    main(sys.argv[1])
