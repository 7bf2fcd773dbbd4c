"""A dataset in TFRecord files from `write`: numbers, words and targets; and a model of it.

The model is smooth and in float64, so that the order of sums hardly matters; hyper-parameters add words and batch norm.
"""

import itertools
import os
import threading
import time

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.layers import batch_normalization
from estimator_trainer.common.records import records

WORDS = 30
_QUICK = 20  # Batches.
_SHAPES = {'x': ([3], tf.float32), 'words': ([4], tf.int64), 'y': ([], tf.float32)}


def write(data_dir, seed=0):
    """Writes 100 training and 20 evaluation examples, by the seed, and returns the directory."""
    random = np.random.RandomState(seed)

    def examples(count):
        for _ in range(count):
            x, words = random.uniform(-1, 1, 3), random.randint(0, WORDS, 4)
            yield {'x': x.tolist(), 'words': (words * random.randint(0, 2, 4)).tolist(), 'y': float(np.tanh(x).sum())}

    records.write(str(data_dir), {'train': examples(100), 'eval': examples(20)}, num_shards=2)
    return data_dir


def get_params():
    return {'uses_words': False, 'normalizes': False}


def prepare(data_dir, params):
    del data_dir, params


def read(split, data_dir, params):
    return records.read(data_dir, split)


def parse_batch(mode, params, serialized):
    """Takes TINY_SECONDS, an environment variable, if set, for each batch of this process after the first 20.

    In an evaluation, waits until the file TINY_EVALUATION exists, if set. A missing word is 0.
    """
    if 'TINY_SECONDS' in os.environ:
        serialized = tf.ensure_shape(tf.py_func(_wait, [serialized], tf.string), serialized.shape)
    if 'TINY_EVALUATION' in os.environ and mode == tf.estimator.ModeKeys.EVAL:
        serialized = tf.ensure_shape(tf.py_func(_wait_for_file, [serialized], tf.string), serialized.shape)
    found = tf.io.parse_example(serialized, {name: tf.io.FixedLenFeature(*shape) for name, shape in _SHAPES.items()})
    return found, {'y': found.pop('y')}


_count, _turn = itertools.count(), threading.Lock()


def _wait(value):
    with _turn:  # However many batches tf.data prepares at once.
        if next(_count) >= _QUICK:
            time.sleep(float(os.environ['TINY_SECONDS']))
    return value


def _wait_for_file(value):
    while not os.path.exists(os.environ['TINY_EVALUATION']):
        time.sleep(0.01)
    return value


def model(features, labels, mode, params):
    """Predicts y, after TINY_MODEL_SECONDS. The words' gradient is sparse, with no rows for examples without words."""
    time.sleep(float(os.environ.get('TINY_MODEL_SECONDS', 0)))
    x = tf.cast(features['x'], tf.float64)
    hidden = tf.tanh(tf.matmul(x, tf.get_variable('hidden', [3, 4], tf.float64)))
    y = tf.matmul(hidden, tf.get_variable('output', [4, 1], tf.float64))[:, 0]
    y += tf.get_variable('bias', [], tf.float64)
    if params.uses_words:
        table = tf.get_variable('words', [WORDS, 2], tf.float64)
        rows = tf.where(features['words'] > 0)
        found = tf.gather(table, tf.gather_nd(features['words'], rows))
        y += tf.math.unsorted_segment_sum(tf.reduce_sum(found, 1), rows[:, 0], tf.size(y))
    if params.normalizes:
        y = batch_normalization(y[:, tf.newaxis], mode == tf.estimator.ModeKeys.TRAIN)[:, 0]
    y = tf.cast(y, tf.float32)
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])


def hooks(mode, params):
    """Changes the bias after the step that TINY_BAD_STEP gives, if set."""
    if mode != tf.estimator.ModeKeys.TRAIN or 'TINY_BAD_STEP' not in os.environ:
        return []
    hook, step = tf.train.SessionRunHook(), tf.train.get_global_step()
    (bias,) = (variable for variable in tf.trainable_variables() if variable.op.name == 'bias')
    change = tf.assign_add(bias, 1e-9)

    def after_run(context, values):
        if context.session.run(step) == int(os.environ['TINY_BAD_STEP']):
            context.session.run(change)

    hook.after_run = after_run
    return [hook]
