"""Notes of adanet's Estimator beside its checkpoints: the candidates whose training has ended."""

import os

import tensorflow.compat.v1 as tf


def train_again(directory: str) -> None:
    """Deletes the notes younger than the latest checkpoint, of a run that was killed before it saved its last steps.

    Otherwise, their candidates would stay as they are in the checkpoint, without these steps.
    """
    latest = tf.train.latest_checkpoint(directory)
    saved = _written(f'{latest}.index') if latest else 0
    for path in tf.io.gfile.glob(os.path.join(directory, 'train_manager', '*', '*.json')):
        if _written(path) > saved:
            tf.io.gfile.remove(path)


def _written(path):
    """Returns the time of a file's last change in nanoseconds; TensorFlow's has whole seconds only."""
    return os.stat(path).st_mtime_ns if os.path.exists(path) else tf.io.gfile.stat(path).mtime_nsec
