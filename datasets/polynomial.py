"""Samples of y = 5x^2 + 3, x uniform in [-10, 10], made in memory.

(The first example of the guide Effective TensorFlow.)
"""

import numpy as np
import tensorflow.compat.v1 as tf

from common.errors import check_range


def get_params():
    return {'num_samples': 100000, 'shuffle_buffer': 100000}


def prepare(data_dir, params):
    """There is nothing to make ready."""
    del data_dir, params


def read(split, data_dir, params):
    """Returns num_samples {'x', 'y'}, float32 scalars; a tenth of that for evaluation, other ones."""
    del data_dir
    check_range(params, 'num_samples', 10, 10000000)
    seed, count = {'train': (0, params.num_samples), 'eval': (1, params.num_samples // 10)}[split]
    x = np.random.RandomState([seed, params.seed]).uniform(-10, 10, count).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices({'x': x, 'y': 5 * np.square(x) + 3})


def parse_batch(mode, params, record):
    """Returns {'x': float32 [batch]}, {'y': float32 [batch]}."""
    del mode, params
    return {'x': record['x']}, {'y': record['y']}
