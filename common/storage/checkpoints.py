"""The checkpoints of an output_dir: which there are, and which of them is whole."""

import os
import re
import time

import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.files import is_remote, remove_abandoned
from common.storage.best_checkpoint import best_dir, find_best
from common.storage.restore import is_intact, without_suffix

# What TensorFlow and common/files.py write, to be renamed.
_LEFTOVER = re.compile(r'model\.ckpt-\d+_temp(_\w+)?/?|(model\.ckpt-\d+\.meta|checkpoint|graph\.pbtxt)\.tmp[0-9a-f]{32}')
_PART = re.compile(r'\w+\.(json|csv|jsonl)\.[0-9a-f]{32}\.part')
_REPORT_SECONDS = 60


def has_checkpoint(output_dir):
    """Whether a training has saved something there, whole or not."""
    return any(step > 0 or tf.io.gfile.exists(f'{path}.index') for step, path in _list(output_dir))


def latest_intact(output_dir):
    """Returns the path of the last checkpoint that is whole, without suffix; None where there is none at all.

    Every tensor is read, so that its checksum is compared. What is damaged is named in a warning.

    Raises:
      RunError: none is whole.
    """
    for _, path in _list(output_dir):
        if is_intact(path):
            return path
        tf.logging.warning('%s: is corrupt or incomplete.', path)
    if has_checkpoint(output_dir):
        raise RunError(f'{output_dir}: all checkpoints are corrupt: choose another directory')
    return None


def recover(output_dir):
    """Makes the directory such that a training goes on from the last checkpoint that is whole.

    For the one process that trains there. What a save that was interrupted has left is deleted, but not what another process,
    such as a prediction, is writing.

    Raises:
      RunError: there are checkpoints, and none is whole.
    """
    path = latest_intact(output_dir)
    names = tf.io.gfile.listdir(output_dir)
    for name in filter(_PART.fullmatch, names):
        remove_abandoned(os.path.join(output_dir, name))
    leftovers = [os.path.join(output_dir, name) for name in filter(_LEFTOVER.fullmatch, names)]
    for _, checkpoint in _list(output_dir):
        if not tf.io.gfile.exists(f'{checkpoint}.index'):
            leftovers += tf.io.gfile.glob(f'{checkpoint}.*')
    for leftover in leftovers:
        tf.io.gfile.rmtree(leftover)
    if path and _named(output_dir) != path:
        tf.logging.warning('Going on from %s.', path)
        older = [other for _, other in reversed(_list(output_dir)) if tf.io.gfile.exists(f'{other}.index')]
        older = older[: older.index(path) + 1]
        tf.train.update_checkpoint_state(output_dir, path, older)


def _named(output_dir):
    """Returns the path that the file `checkpoint` names, which the Estimator goes by; None where it names none."""
    try:
        return tf.train.latest_checkpoint(output_dir)
    except ValueError:  # The file is empty.
        return None


def require_checkpoint(output_dir):
    """Raises UsageError if there is no checkpoint to load."""
    if not has_checkpoint(output_dir):
        raise UsageError(
            f'--output_dir={output_dir}: contains no checkpoint: train first, with --schedule=train, or '
            'choose the directory of a training'
        )


def find_checkpoint(output_dir, which):
    """Returns the path of a checkpoint, without suffix.

    Args:
      output_dir: str.
      which: 'latest', 'best', or the path of a checkpoint, with or without suffix.

    Raises:
      UsageError: there is no such checkpoint.
    """
    if which == 'latest':
        require_checkpoint(output_dir)
        return latest_intact(output_dir)
    if which == 'best':
        path = find_best(output_dir)
        if not path:
            raise UsageError(
                f'--checkpoint=best: there is none in {best_dir(output_dir)}; --schedule=train_and_evaluate keeps one'
            )
        return path
    path = without_suffix(which)
    if not tf.io.gfile.exists(f'{path}.index'):
        known = sorted(tf.io.gfile.glob(os.path.join(output_dir, 'model.ckpt-*.index')))
        raise UsageError(
            f'--checkpoint={which}: no such checkpoint; available: best, latest, {", ".join(map(without_suffix, known))}'
        )
    return path


def is_of(output_dir, checkpoint_path):
    """Whether a checkpoint is one of an output_dir, or its best, and not another training's, by whatever paths they go."""
    return _real(os.path.dirname(checkpoint_path)) in (_real(output_dir), _real(best_dir(output_dir)))


def _real(path):
    return os.path.normpath(path) if is_remote(path) else os.path.realpath(path)


def _list(output_dir):
    """Returns (step, path without suffix) of all checkpoints of which there is a file, the last one first."""
    found = [
        re.search(r'/model\.ckpt-(\d+)\.(index|data-\d+-of-\d+)$', path)
        for path in tf.io.gfile.glob(os.path.join(output_dir, 'model.ckpt-*'))
    ]
    steps = {int(match[1]) for match in found if match}
    return [(step, os.path.join(output_dir, f'model.ckpt-{step}')) for step in sorted(steps, reverse=True)]


def new_checkpoints(directory, last_step, timeout=0):
    """Yields the paths of checkpoints as another process saves them, and logs every minute what it waits for.

    Args:
      directory: str.
      last_step: int, the step at which that training ends, for the messages.
      timeout: int, seconds to wait for the next one; 0 waits forever.

    Raises:
      RunError: none came in that time.
    """
    waiting_since, last = time.monotonic(), None

    def say():
        waited = time.monotonic() - waiting_since
        seen = f'the last one was {last}' if last else 'there has been none'
        if timeout and waited >= timeout:
            raise RunError(
                f'{directory}: no new checkpoint for {waited:.0f} seconds, and {seen}; the training was to end at '
                f'step {last_step}: check whether it has failed, or raise --eval_timeout'
            )
        tf.logging.info(
            'Still waiting for a checkpoint in %s, for %d seconds; %s, and the training ends at step %d.',
            directory,
            waited,
            seen,
            last_step,
        )

    for last in tf.train.checkpoints_iterator(
        directory, timeout=min(timeout or _REPORT_SECONDS, _REPORT_SECONDS), timeout_fn=say
    ):
        yield last
        waiting_since = time.monotonic()
