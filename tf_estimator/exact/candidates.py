"""What adanet's Estimator notes beside its checkpoints: the candidates whose training has ended."""

import os

import tensorflow.compat.v1 as tf


def train_again(directory: str) -> None:
    """Deletes the notes younger than the latest checkpoint, of a training that was killed before it saved its last steps.

    Otherwise, their candidates would stay as they are in the checkpoint, without these steps.
    """
    latest = tf.train.latest_checkpoint(directory)
    saved = tf.io.gfile.stat(f'{latest}.index').mtime_nsec if latest else 0
    for path in tf.io.gfile.glob(os.path.join(directory, 'train_manager', '*', '*.json')):
        if tf.io.gfile.stat(path).mtime_nsec > saved:
            tf.io.gfile.remove(path)
