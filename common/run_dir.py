"""An output_dir: hparams.json, results.json, and the checkpoints and events that the Estimator writes."""

import os

import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.files import write_json


def hparams_path(output_dir):
    return os.path.join(output_dir, 'hparams.json')


def claim(output_dir):
    """Makes the directory for a training.

    Raises:
      UsageError: it cannot be made or written.
    """
    probe = os.path.join(output_dir, '.writable')
    try:
        tf.io.gfile.makedirs(output_dir)
        with tf.io.gfile.GFile(probe, 'w') as file:
            file.write('')
        tf.io.gfile.remove(probe)
    except tf.errors.OpError as error:
        raise UsageError(f'--output_dir={output_dir}: cannot be written: {error.message}') from None


def has_checkpoint(output_dir):
    """Whether a training has saved something there."""
    return bool(tf.io.gfile.glob(os.path.join(output_dir, 'model.ckpt-*.index')))


def check_state(output_dir):
    """Raises RunError if there are checkpoints, but not the file that names the last: the Estimator would begin anew."""
    try:
        latest = tf.train.latest_checkpoint(output_dir)
    except ValueError:  # The file is empty.
        latest = None
    if has_checkpoint(output_dir) and not latest:
        raise RunError(f'{os.path.join(output_dir, "checkpoint")}: does not name a checkpoint that is there: restore it, a '
                       'line such as model_checkpoint_path: "model.ckpt-100", or choose another --output_dir')


def require_checkpoint(output_dir):
    """Raises UsageError if there is no checkpoint to load."""
    if not has_checkpoint(output_dir):
        raise UsageError(f'--output_dir={output_dir}: no checkpoint there; train first with --schedule=train, or name the '
                         'directory of a training')


def save_results(output_dir, results):
    """Writes results.json."""
    write_json(os.path.join(output_dir, 'results.json'), results)
