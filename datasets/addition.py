"""Sums of two whole numbers as text: reads '27+5', writes '32'. Made in memory.

(The task of W. Zaremba, I. Sutskever: Learning to Execute, 2014.)
"""

import random
import zlib

import tensorflow.compat.v1 as tf

from common.errors import check_range

# One of so many sums, picked by a checksum, is kept for evaluation and never trained on, the other way round neither.
HELD_OUT = 10


def get_params():
    return {
        'max_digits': 3,  # Of each number; a third has up to one, a third up to two, a third up to three.
        'num_examples': 100000,  # To train on; a twentieth of that to evaluate on.
    }


def prepare(data_dir, params):
    """There is nothing to make ready."""
    del data_dir, params


def read(split, data_dir, params):
    """Returns num_examples {'source': '27+5', 'target': '32'}, two strings; other ones for evaluation."""
    del data_dir
    check_range(params, 'max_digits', 1, 1000)
    check_range(params, 'num_examples', 20, 1000000)
    count = {'train': params.num_examples, 'eval': params.num_examples // 20}[split]
    numbers = random.Random(f'{split} {params.seed}')
    sources, targets = [], []
    while len(sources) < count:
        a, b = (numbers.randrange(10 ** numbers.randint(1, params.max_digits)) for _ in range(2))
        checksum = zlib.crc32(f'{min(a, b)}+{max(a, b)}'.encode())
        if (checksum % HELD_OUT == 0) == (split == 'eval'):
            sources.append(f'{a}+{b}')
            targets.append(str(a + b))
    return tf.data.Dataset.from_tensor_slices({'source': sources, 'target': targets})


def parse_batch(mode, params, record):
    """Returns {'source': string [batch]}, {'target': string [batch]}."""
    del mode, params
    return {'source': record['source']}, {'target': record['target']}
