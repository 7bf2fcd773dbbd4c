"""Samples of y = 5x^2 + 3, x uniform in [-10, 10], generated in memory.

(The first example of the guide Effective TensorFlow.)
"""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import check_range
from estimator_trainer.hparams.build import HParams


def get_params() -> dict[str, Any]:
    return {'num_samples': 100000, 'shuffle_buffer': 100000}


def prepare(data_dir: str, params: HParams) -> None:
    """Does nothing: `read` generates the samples."""
    del data_dir, params


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns num_samples examples {'x', 'y'}, float32 scalars; for evaluation a tenth, drawn with another seed."""
    del data_dir
    check_range(params, 'num_samples', 10, 10000000)
    seed, count = {'train': (0, params.num_samples), 'eval': (1, params.num_samples // 10)}[split]
    x = np.random.RandomState([seed, params.seed]).uniform(-10, 10, count).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices({'x': x, 'y': 5 * np.square(x) + 3})


def parse_batch(mode: str, params: HParams, record: dict[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Returns {'x': float32 [batch]}, {'y': float32 [batch]}."""
    del mode, params
    return {'x': record['x']}, {'y': record['y']}
