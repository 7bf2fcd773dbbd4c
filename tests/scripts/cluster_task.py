"""One task of a cluster, by TF_CONFIG: fits y = 2x. tests/tf_estimator/test_programs.py runs one of each kind."""

import os
import sys
import time

import tf_estimator  # noqa: F401 - before TensorFlow
import numpy as np
import tensorflow as tf


def model_fn(features, labels, mode):
    with tf.compat.v1.variable_scope(''):
        slope = tf.compat.v1.get_variable('slope', [], initializer=tf.compat.v1.zeros_initializer())
    print('slope on', slope.device, flush=True)
    loss = tf.reduce_mean(tf.square(slope * features['x'] - labels))
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.02)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    outputs = {'y': slope * features['x']}
    return tf.estimator.EstimatorSpec(mode, predictions=outputs, loss=loss, train_op=train_op)


def input_fn():
    return tf.data.Dataset.from_tensors(({'x': np.float32([1, 2])}, np.float32([2, 4]))).repeat()


class ChiefWaitsForWorker(tf.estimator.SessionRunHook):
    """Keeps the chief from finishing before the worker has trained too."""

    def __init__(self, config):
        self._config = config
        self._worker_file = os.path.join(config.model_dir, 'worker')

    def after_run(self, run_context, run_values):
        if not self._config.is_chief:
            open(self._worker_file, 'a').close()
        while self._config.is_chief and not os.path.exists(self._worker_file):
            time.sleep(0.1)


def main(model_dir):
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    config = tf.estimator.RunConfig(model_dir, experimental_max_worker_delay_secs=0)
    tf.estimator.train_and_evaluate(
        tf.estimator.Estimator(model_fn, config=config),
        tf.estimator.TrainSpec(input_fn, max_steps=200, hooks=[ChiefWaitsForWorker(config)]),
        tf.estimator.EvalSpec(input_fn, steps=1, start_delay_secs=0, throttle_secs=0))


if __name__ == '__main__':
    main(sys.argv[1])
