"""The limit of a network's own operations: its training step alone, without the trainer.

    python -m benchmarks.bare_step TASK DATA.npz [TOWERS THREADS [PRECISION]]

TASK is alexnet, resnet, mlp or text_cnn of benchmarks.training, DATA.npz what it writes for the peers. The network trains with
TensorFlow's optimizer on a batch that stays the same: no input, augmentation, hooks, metrics or checkpoints. Steps run ten at a
time in a tf.while_loop. TOWERS share the batch, THREADS run an op (0: one per core), PRECISION is float32 or bfloat16.
"""

import importlib
import json
import os
import sys
import time
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks.training import TASKS
from estimator_trainer.common.ops.mixed_precision import training_in
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.training import filter_gradients
from estimator_trainer.common.training.parallel import make_parallel, tower_devices
from estimator_trainer.common.training.session_config import make_session_config
from estimator_trainer.hparams import build

STEPS_PER_CALL, CALLS, WARM_UP = 10, 30, 5


def _batch(name, data, size):
    """Returns features, labels and metadata: those that the datasets of the tasks give."""
    labels = {'label': tf.constant(data['labels'][:size])}
    if name == 'mlp':
        features = {'numeric': data['numeric'][:size], 'categorical': data['categorical'][:size]}
        return features, labels, {'vocabulary_sizes': {'categorical': data['sizes'].tolist()}}
    if name == 'text_cnn':
        return {'text': data['texts'][:size] + 2}, labels, {'vocabulary_size': int(data['texts'].max()) + 3}
    return {'image': data['images'][:size].astype(np.float32) / 255}, labels, {}


def measure(name: str, path: str, options: Options) -> dict[str, Any]:
    """Returns {'examples_per_second': ...}, of the median session call."""
    task, module = TASKS[name], importlib.import_module(f'estimator_trainer.models.{name}')
    hparams = build.make_hparams(name, module.get_params(), 'd', {}, text='')
    with np.load(path) as data, tf.Graph().as_default():
        features, labels, metadata = _batch(name, data, task.batch_size)
        params = build.HParams(hparams, metadata)
        rates = {'momentum': tf.train.MomentumOptimizer(0.1, 0.9), 'adam': tf.train.AdamOptimizer(0.001)}
        step = tf.train.get_or_create_global_step()
        tf.get_variable_scope().set_use_resource(True)
        # Variables, since constants would be computed once.
        batch = {key: tf.get_variable(f'batch_{key}', initializer=value, trainable=False) for key, value in features.items()}

        def tower(features, labels):
            with filter_gradients.faster(options.precision), training_in(options.precision):
                return module.model(features, labels, tf.estimator.ModeKeys.TRAIN, params)[1]

        def body(i):
            given = {key: tf.identity(value) for key, value in batch.items()}
            with tf.variable_scope('', reuse=tf.AUTO_REUSE):
                loss = tf.reduce_mean(make_parallel(tower, tower_devices(options), features=given, labels=labels))
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
                update = rates[params.optimizer].minimize(loss, step, colocate_gradients_with_ops=True)
            with tf.control_dependencies([update]):
                return i + 1

        loop = tf.while_loop(lambda i: i < STEPS_PER_CALL, body, [0], parallel_iterations=1)
        with tf.Session(config=make_session_config(options)) as session:
            session.run(tf.global_variables_initializer())
            seconds = []
            for _ in range(WARM_UP + CALLS):
                start = time.perf_counter()
                session.run(loop)
                seconds.append(time.perf_counter() - start)
        return {'examples_per_second': STEPS_PER_CALL * task.batch_size / float(np.median(seconds[WARM_UP:]))}


def main() -> None:
    os.environ['TF_OVERRIDE_GLOBAL_THREADPOOL'] = '1'  # Read with the first device: each session has threads of its own.
    name, path, towers, threads, precision = [*sys.argv[1:], *['1', '0', 'float32'][len(sys.argv) - 3 :]]
    options = Options(num_towers=int(towers), intra_op_threads=int(threads), precision=precision)
    print(json.dumps(measure(name, path, options)))


if __name__ == '__main__':
    main()
