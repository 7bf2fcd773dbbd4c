"""One task of a cluster, by TF_CONFIG: fits y = 2x, each worker of a strategy with an example of its own.

Arguments: model_dir, steps, strategy, and `graph` to disable eager execution. It prints what the task sees, and the slope.
"""

import json
import os
import sys
import time

import tf_estimator  # noqa: F401 - before TensorFlow
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
seen = {}


def model_fn(features, labels, mode, config):
    slope = tf1.get_variable('slope', [], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(slope * features['x'] - labels))
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={'slope': tf1.metrics.mean(slope)})
    seen.update(
        task=[config.task_type, config.task_id, config.is_chief, config.global_id_in_cluster],
        counts=[config.num_worker_replicas, config.num_ps_replicas],
    )
    if config.num_ps_replicas:
        seen.update(device=slope.device)
    train_op = tf1.train.MomentumOptimizer(0.002, 0.5).minimize(loss, tf1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(input_context=None):
    x = np.float32([1, 2, 3])
    data = tf.data.Dataset.from_tensor_slices(({'x': x}, 2 * x))
    if input_context:
        seen.update(input=[input_context.input_pipeline_id, input_context.num_input_pipelines])
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data.repeat().batch(1)


class Slope(tf.estimator.SessionRunHook):
    def __init__(self, config):
        self.config = config
        self.worker_has_trained = os.path.join(config.model_dir, 'worker')

    def begin(self):
        self.variable = next(variable for variable in tf1.trainable_variables() if variable.op.name.startswith('slope'))

    def after_run(self, run_context, run_values):
        """Keeps the chief from finishing before the worker has trained, if they train independently."""
        if self.config.train_distribute is None and not self.config.is_chief:
            open(self.worker_has_trained, 'a').close()
        elif self.config.train_distribute is None:
            while not os.path.exists(self.worker_has_trained):
                time.sleep(0.1)

    def end(self, session):
        print(json.dumps({**seen, 'slope': float(session.run(self.variable))}), flush=True)


def main(model_dir, steps, strategy, *options):
    tf1.logging.set_verbosity(tf1.logging.INFO)
    if 'graph' in options:
        tf1.disable_eager_execution()
    has_strategy = strategy == 'multi_worker'
    config = tf.estimator.RunConfig(
        model_dir, save_checkpoints_steps=5 if has_strategy else 100,
        train_distribute=tf.distribute.experimental.MultiWorkerMirroredStrategy() if has_strategy else None,
        experimental_max_worker_delay_secs=0)
    tf.estimator.train_and_evaluate(
        tf.estimator.Estimator(model_fn, config=config),
        tf.estimator.TrainSpec(input_fn, max_steps=int(steps), hooks=[Slope(config)]),
        tf.estimator.EvalSpec(input_fn, steps=3, start_delay_secs=0, throttle_secs=0))


if __name__ == '__main__':
    main(*sys.argv[1:])
