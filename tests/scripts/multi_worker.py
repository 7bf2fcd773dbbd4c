"""One task of a MultiWorkerMirroredStrategy, by TF_CONFIG: fits y = 2x, each worker with an example of its own.

Arguments: model_dir, steps, `graph` for a program that disables eager execution, and `one client` for a MirroredStrategy, with
which the chief alone runs the program and uses the devices of all. tests/tf_estimator/test_multi_worker.py
runs it. It prints what the task sees, and the slope at the end of training or of each evaluation.
"""

import json
import sys

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
    train_op = tf1.train.MomentumOptimizer(0.02, 0.5).minimize(loss, tf1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(input_context=None):
    x = np.float32([1, 2, 3])
    data = tf.data.Dataset.from_tensor_slices(({'x': x}, 2 * x))
    if input_context:
        seen.update(input=[input_context.input_pipeline_id, input_context.num_input_pipelines])
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data.repeat().batch(1)


class Slope(tf.estimator.SessionRunHook):
    def begin(self):
        self.variable = next(variable for variable in tf1.trainable_variables() if variable.op.name.startswith('slope'))

    def end(self, session):
        print(json.dumps({**seen, 'slope': float(session.run(self.variable))}), flush=True)


def main(model_dir, steps, *options):
    tf1.logging.set_verbosity(tf1.logging.INFO)
    if 'graph' in options:
        tf1.disable_eager_execution()
    strategies = tf.distribute
    strategy = strategies.MirroredStrategy() if 'one client' in options else strategies.experimental.MultiWorkerMirroredStrategy()
    config = tf.estimator.RunConfig(model_dir, train_distribute=strategy, save_checkpoints_steps=5)
    tf.estimator.train_and_evaluate(
        tf.estimator.Estimator(model_fn, config=config),
        tf.estimator.TrainSpec(input_fn, max_steps=int(steps), hooks=[Slope()]),
        tf.estimator.EvalSpec(input_fn, steps=3, start_delay_secs=0, throttle_secs=0),
    )


if __name__ == '__main__':
    main(*sys.argv[1:])
