"""Sums of two non-negative integers as text: reads '27+5', writes '32'. Generated in memory.

(The task of W. Zaremba, I. Sutskever: Learning to Execute, 2014.)
"""

import random
from typing import Any
import zlib

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import check_range
from estimator_trainer.hparams.build import HParams

# A checksum, independent of the order of the two numbers, holds out one in so many sums for evaluation.
HELD_OUT = 10


def get_params() -> dict[str, Any]:
    return {
        'max_digits': 3,  # Of each number; a third each has up to one, two and three.
        'num_examples': 100000,  # For training; a twentieth of that for evaluation.
    }


def prepare(data_dir: str, params: HParams) -> None:
    """Does nothing: `read` generates the examples."""
    del data_dir, params


def read(split: str, data_dir: str, params: HParams) -> tf.data.Dataset:
    """Returns num_examples examples {'source': '27+5', 'target': '32'}, two strings; for evaluation a twentieth, held out."""
    del data_dir
    check_range(params, 'max_digits', 1, 1000)
    check_range(params, 'num_examples', 20, 1000000)
    count = {'train': params.num_examples, 'eval': params.num_examples // 20}[split]
    numbers = random.Random(f'{split} {params.seed}')
    sources: list[str] = []
    targets: list[str] = []
    while len(sources) < count:
        a, b = (numbers.randrange(10 ** numbers.randint(1, params.max_digits)) for _ in range(2))
        checksum = zlib.crc32(f'{min(a, b)}+{max(a, b)}'.encode())
        if (checksum % HELD_OUT == 0) == (split == 'eval'):
            sources.append(f'{a}+{b}')
            targets.append(str(a + b))
    return tf.data.Dataset.from_tensor_slices({'source': sources, 'target': targets})


def parse_batch(mode: str, params: HParams, record: dict[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Returns {'source': string [batch]}, {'target': string [batch]}."""
    del mode, params
    return {'source': record['source']}, {'target': record['target']}
