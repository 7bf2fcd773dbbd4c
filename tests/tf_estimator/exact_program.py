"""A program whose runs a test kills and stops: each in a process of its own, forked after the slow import.

    python exact_program.py

runs, for each line of stdin, such as `cut 30 SIGKILL`, the program up to a step in a directory, with a fault at step 13, 14
for `nan`, or the last for `renamed`, with a CheckpointSaverHook of its own for `own-SIGKILL`, appends its log to DIRECTORY.log,
and prints its exit code.
"""

import os
import shutil
import signal
import sys

import tf_estimator

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf


class Fault(tf.train.SessionRunHook):
    def __init__(self, fault):
        self._fault = fault

    def after_run(self, run_context, run_values):
        if run_context.session.run(tf.train.get_global_step()) == (14 if self._fault == 'nan' else 13):
            if self._fault == 'nan':
                run_context.session.run('spoil')
            elif self._fault.startswith('SIG'):
                os.kill(os.getpid(), getattr(signal, self._fault))


def read(i):
    x = np.random.RandomState(0).randn(12, 3).astype(np.float32)
    data = tf2.data.Dataset.from_tensor_slices((x, (x.sum(1) > 0).astype(np.int64))).shuffle(5)
    return data.map(lambda x, y: (tf.image.random_brightness(x, 1.0) * tf.cast(i + 1, tf.float32), y), num_parallel_calls=2)


def input_fn():
    data = tf2.data.Dataset.range(3).shuffle(3).interleave(read, 2, num_parallel_calls=2, deterministic=False)
    data = data.filter(lambda x, y: tf.random.uniform([]) < 0.9).shuffle(9).repeat().batch(4).prefetch(1)
    return tf.data.make_one_shot_iterator(data).get_next()


def generated():
    return tf2.data.Dataset.from_generator(lambda: iter([([1.0, 2.0, 3.0], 1)] * 999), (tf.float32, tf.int64), ([3], [])).batch(
        4
    )


def model_fn(features, labels, mode, params):
    cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.BasicRNNCell(3), 0.7)
    net = tf.nn.dynamic_rnn(cell, tf.reshape(features, [-1, 3, 1]), dtype=tf.float32)[0][:, -1]
    loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.layers.dense(tf.layers.dropout(net, 0.3, training=True), 2))
    train_op = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    weights = tf.trainable_variables()[-1]
    tf.group(weights.assign(weights * np.nan), name='spoil')
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Fault(params['fault'])])


def run(directory, last, fault):
    config = tf.estimator.RunConfig(
        directory, None if fault == 'renamed' else 1, save_checkpoints_steps=5, keep_checkpoint_max=2
    )
    own, _, fault = fault.rpartition('-')
    hooks = [tf.train.CheckpointSaverHook(f'{directory}/', save_steps=5, checkpoint_basename='own.ckpt')] if own else []
    estimator = tf.estimator.Estimator(model_fn, config=config, params={'fault': fault})
    estimator.train(generated if fault == 'generator' else input_fn, hooks, max_steps=int(last))
    if fault == 'renamed':
        rename(directory, last)
        estimator.train(input_fn, max_steps=int(last) + 5)


def rename(directory, step):
    """Makes the checkpoint of a step that of iteration 1, as adanet does before it trains on."""
    for name in [name for name in os.listdir(directory) if name.startswith(f'model.ckpt-{step}.')]:
        shutil.copy(f'{directory}/{name}', f'{directory}/{name}'.replace(f'model.ckpt-{step}', 'increment.ckpt-1'))
    tf.train.update_checkpoint_state(directory, f'{directory}/increment.ckpt-1')


def main():
    for line in sys.stdin:
        directory, last, fault = line.rstrip('\n').rsplit(' ', 2)
        child = os.fork()
        if not child:
            os.dup2(os.open(f'{directory}.log', os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
            tf_estimator.enable(exact=True)
            run(directory, last, fault)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == '__main__':
    main()
