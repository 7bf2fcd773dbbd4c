"""margins.f16 in an output_dir: the margin of each training example at each time that it was trained on.

A margin is the logit of the label minus the largest other one. The file has nothing but these numbers, float16, in the order of
training: the order tells which example each is of. NaN stands for those of steps that were not recorded.
"""

import os
import shutil

import numpy as np

from estimator_trainer.common import files

_DTYPE = np.dtype('<f2')


def margins_path(output_dir: str) -> str:
    """Returns the path of the file."""
    return os.path.join(output_dir, 'margins.f16')


def restart(output_dir: str, count: int) -> None:
    """Cuts the file to the margins of `count` examples, those up to a checkpoint; fills what lacks with NaN."""
    with open(margins_path(output_dir), 'ab') as file:
        known = file.tell() // _DTYPE.itemsize
        file.truncate(min(known, count) * _DTYPE.itemsize)
    for start in range(known, count, 2**20):
        append(output_dir, np.full(min(2**20, count - start), np.nan))


def append(output_dir: str, margins: np.ndarray) -> None:
    """Adds the margins of the next examples, float16 [n], so that they are in the file if the process is killed then."""
    files.append(margins_path(output_dir), margins.astype(_DTYPE).tobytes())


def abandon(output_dir: str, step: int, folder: str) -> None:
    """Copies the file to a folder of output_dir/abandoned, unless that has it: training from an earlier step cuts it."""
    target = os.path.join(folder, os.path.basename(margins_path(output_dir)))
    if exists(output_dir) and not os.path.exists(target):
        with files.atomic_path(target) as part:
            shutil.copyfile(margins_path(output_dir), part)


def exists(output_dir: str) -> bool:
    return os.path.exists(margins_path(output_dir))


def read(output_dir: str, count: int) -> np.ndarray:
    """Returns the margins of the first `count` examples, or of as many as the file has: float16 [n]."""
    return np.fromfile(margins_path(output_dir), _DTYPE, count)
