"""Writes pictures with digits of MNIST at random places, and masks that tell the digit of each pixel.

    python -m benchmarks.digit_masks DIRECTORY COUNT

DIRECTORY/train has COUNT pictures of digits of the training images, val half as many of the test images. Pictures are JPEG
files of 64 to 96 pixels a side, with up to three digits on a noisy background. Masks are palette PNG files: 0 is background,
1 the digit zero, ..., 10 the digit nine, and 255, to be ignored, the blurred edge of a digit. classes.txt names the classes.
"""

import os
import sys

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
from PIL import Image

from estimator_trainer.common.ops.segmentation import palette
from estimator_trainer.datasets.mnist import read_idx

NAMES = ('background', 'zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine')
_SIDES = (64, 97)
_SIDE = 28  # Of a digit.


def draw(images: np.ndarray, digits: np.ndarray, random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Returns a picture, uint8 [height, width, 3], with some of the digits, and its mask, uint8 [height, width]."""
    height, width = random.randint(*_SIDES, 2)
    ink, mask = np.zeros([height, width], np.uint8), np.zeros([height, width], np.uint8)
    for i in random.randint(len(digits), size=random.randint(1, 4)):
        top, left = random.randint(height - _SIDE + 1), random.randint(width - _SIDE + 1)
        place = np.s_[top : top + _SIDE, left : left + _SIDE]
        if not ink[place].any():  # Digits do not overlap.
            ink[place] = images[i]
            mask[place] = np.where(images[i] > 127, digits[i] + 1, np.where(images[i] > 31, 255, 0))
    dark, light = random.uniform(0, 90, 3), random.uniform(165, 255, 3)
    pixels = dark + ink[:, :, None] / 255 * (light - dark) + random.normal(0, 20, [height, width, 3])
    return np.uint8(np.clip(pixels, 0, 255)), mask


def write(directory: str, count: int) -> None:
    """Writes the files."""
    random = np.random.RandomState(0)
    for split, prefix, size in (('train', 'train', count), ('val', 't10k', count // 2)):
        images, digits = (read_idx(f'{prefix}-{name}') for name in ('images-idx3-ubyte', 'labels-idx1-ubyte'))
        for folder in ('images', 'masks'):
            os.makedirs(os.path.join(directory, split, folder), exist_ok=True)
        for number in range(size):
            picture, numbers = draw(images, digits, random)
            Image.fromarray(picture).save(os.path.join(directory, split, 'images', f'{number:05}.jpg'), quality=95)
            mask = Image.fromarray(numbers)
            mask.putpalette(palette().tobytes())
            mask.save(os.path.join(directory, split, 'masks', f'{number:05}.png'))
    with open(os.path.join(directory, 'classes.txt'), 'w', encoding='utf-8') as file:
        file.write('\n'.join(NAMES) + '\n')


if __name__ == '__main__':
    write(sys.argv[1], int(sys.argv[2]))
