"""A folder of output_dir/abandoned: what a roll-back moves or copies there. Both may be repeated if it is interrupted."""

import os

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import copy


def move(path: str, folder: str) -> None:
    """Moves a file to a folder."""
    tf.io.gfile.makedirs(folder)
    tf.io.gfile.rename(path, os.path.join(folder, os.path.basename(path)), overwrite=True)


def keep_copy(path: str, folder: str) -> None:
    """Copies a file to a folder before it is changed, unless the folder has it already."""
    target = os.path.join(folder, os.path.basename(path))
    if not tf.io.gfile.exists(target):
        tf.io.gfile.makedirs(folder)
        copy(path, target)
