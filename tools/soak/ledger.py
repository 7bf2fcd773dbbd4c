"""A small model and its dataset that record the examples and losses of each step.

    python trainer.py --model=tools.soak.ledger --dataset=tools.soak.ledger

appends a line to the file in the environment variable LEDGER for each step and tower: the step, the ids and the losses, the
bits of float32 as integers. {pid} in its path stands for the process. Random shifts and dropout, which is_random=false omits,
expose all random numbers. A step takes at least 5 ms, or LEDGER_SECONDS, so that it can be hit.
"""

import os
import time

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.layers import dropout
from estimator_trainer.common.ops.random import random_shift
from estimator_trainer.common.records import records

SIDE = 4


def get_params():
    return {
        'batch_size': 6,
        'eval_batch_size': 6,
        'learning_rate': 0.01,
        'shuffle_buffer': 100,
        'num_examples': 50,
        'is_random': True,
    }


def prepare(data_dir, params):
    """Writes examples of random images and targets, numbered from 0."""
    if records.is_written(data_dir):
        return
    random = np.random.RandomState(0)
    examples = [{'id': i, 'image': random.rand(SIDE * SIDE), 'y': random.rand()} for i in range(params.num_examples)]
    records.write(data_dir, {'train': examples, 'eval': examples[:10]})


def read(split, data_dir, params):
    del params
    return records.read(data_dir, split)


def parse_batch(mode, params, serialized):
    del mode, params
    example = tf.io.parse_example(
        serialized,
        {
            'id': tf.io.FixedLenFeature([], tf.int64),
            'y': tf.io.FixedLenFeature([], tf.float32),
            'image': tf.io.FixedLenFeature([SIDE, SIDE, 1], tf.float32),
        },
    )
    return {'id': example['id'], 'image': example['image']}, {'y': example['y']}


def model(features, labels, mode, params):
    """Returns {'y': [batch]} and the squared error [batch]."""
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    x = tf.layers.flatten(random_shift(features['image'], 1, is_training and params.is_random))
    x = dropout(tf.layers.dense(x, 8, tf.nn.tanh, name='hidden'), 0.3, is_training and params.is_random)
    y = tf.layers.dense(x, 1, name='y')[:, 0]
    if labels is None:
        return {'y': y}, None
    loss = tf.square(y - labels['y'])
    return {'y': y}, _write_down(features['id'], loss) if is_training else loss


def _write_down(ids, loss):
    """Returns the loss, whose gradient waits until the line is written."""
    with tf.control_dependencies([tf.py_func(lambda: time.sleep(float(os.environ.get('LEDGER_SECONDS', 0.005))), [], [])]):
        written = tf.print(
            tf.train.get_global_step() + 0,
            ids,
            tf.bitcast(loss, tf.int32),
            summarize=-1,
            output_stream=f'file://{os.environ["LEDGER"].replace("{pid}", str(os.getpid()))}',
        )
    with tf.control_dependencies([written]):
        return loss * tf.identity(1.0)


def read_ledger(path):
    """Returns the lines as a list of (step, ids, losses)."""
    with open(path, encoding='utf-8') as file:
        lines = [line.replace('[', '').split(']') for line in file.read().splitlines()]
    found = []
    for ids, losses, _ in lines:
        step, *ids = map(int, ids.split())
        found.append((step, tuple(ids), tuple(map(int, losses.split()))))
    return found
