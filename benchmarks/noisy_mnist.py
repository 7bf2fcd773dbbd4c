"""MNIST with a share of the training labels changed, seeded, to see whether they are found: a dataset module.

The labels of the split eval are right.
"""

import os

import numpy as np

from estimator_trainer.common.formats import image_records
from estimator_trainer.common.records import records
from estimator_trainer.datasets import mnist

parse_batch, image_features = mnist.parse_batch, mnist.image_features


def get_params():
    return {**mnist.get_params(), 'changed_share': 0.01, 'changed_seed': 0}


def changed(labels: np.ndarray, num_classes: int, share: float, seed: int = 0) -> np.ndarray:
    """Returns labels, int [n], of which a share, chosen at random, has become any other class, uniformly."""
    random = np.random.default_rng(seed)
    chosen = random.choice(len(labels), round(share * len(labels)), replace=False)
    noisy = labels.astype(np.int64)
    noisy[chosen] = (noisy[chosen] + random.integers(1, num_classes, len(chosen))) % num_classes
    return noisy


def prepare(data_dir, params):
    directory = _directory(data_dir, params)
    if records.is_written(directory):
        return
    images, labels = (mnist.read_idx(f'train-{name}-ubyte') for name in ('images-idx3', 'labels-idx1'))
    held_out = image_records.Examples(mnist.read_idx('t10k-images-idx3-ubyte'), mnist.read_idx('t10k-labels-idx1-ubyte'))
    noisy = changed(labels, 10, params.changed_share, params.changed_seed).astype(labels.dtype)
    records.write(directory, {'train': image_records.Examples(images, noisy), 'eval': held_out})


def read(split, data_dir, params):
    return records.read(_directory(data_dir, params), split)


def _directory(data_dir, params):
    return os.path.join(data_dir, f'noisy_mnist-{params.changed_share}-{params.changed_seed}')
