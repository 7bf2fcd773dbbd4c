"""Writes the digits of MNIST as PNG files, and two tables that name them: digits with several targets.

    python -m benchmarks.digit_list DIRECTORY COUNT

train.csv and eval.csv name COUNT of the training images, and half as many of the test images, with the columns file; even,
large (above 4) and loop (with a closed loop), each 0 or 1; digit, the class; and ink, the mean brightness in percent.
"""

import csv
import os
import sys

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
from PIL import Image

from estimator_trainer.datasets.mnist import read_idx

_LOOPS = (0, 6, 8, 9)


def write(directory: str, count: int) -> None:
    """Writes the files."""
    for split, prefix, size in (('train', 'train', count), ('eval', 't10k', count // 2)):
        images, digits = (read_idx(f'{prefix}-{name}')[:size] for name in ('images-idx3-ubyte', 'labels-idx1-ubyte'))
        os.makedirs(os.path.join(directory, split), exist_ok=True)
        with open(os.path.join(directory, f'{split}.csv'), 'w', newline='', encoding='utf-8') as file:
            writer = csv.writer(file)
            writer.writerow(['file', 'even', 'large', 'loop', 'digit', 'ink'])
            for number, (image, digit) in enumerate(zip(images, digits.tolist())):
                name = f'{split}/{number:05}.png'
                Image.fromarray(image).save(os.path.join(directory, name))
                labels = digit % 2 == 0, digit > 4, digit in _LOOPS
                writer.writerow([name, *map(int, labels), digit, f'{np.mean(image) / 2.55:.2f}'])


if __name__ == '__main__':
    write(sys.argv[1], int(sys.argv[2]))
