"""Checkpoints that can be trusted: only whole ones are used, and none with a NaN is saved."""

import os
import re

from tf_estimator.errors import CommandError
from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow.python.training import checkpoint_management


def steps(directory: str) -> list[int]:
    """Returns the steps of the checkpoints in a directory, whole or not, by any name, in ascending order."""
    return sorted({step for step, _ in _checkpoints(directory)})


def _checkpoints(directory):
    """Returns the steps and paths of the checkpoints in a directory, whole or not, in ascending order."""
    names = tf.io.gfile.listdir(directory) if tf.io.gfile.isdir(directory) else []
    found = (re.fullmatch(r'(.+-(\d+))\.index', name) for name in names)
    return sorted((int(each[2]), os.path.join(directory, each[1])) for each in found if each)


def step_of(checkpoint: str) -> int:
    """Returns the step of a whole checkpoint; the number of one that a program names itself may be another, as adanet's."""
    found = re.search(r'model\.ckpt-(\d+)$', checkpoint)
    return int(found[1] if found else tf.train.load_checkpoint(checkpoint).get_tensor(tf.GraphKeys.GLOBAL_STEP))


def is_whole(checkpoint: str) -> bool:
    """Reads all of a checkpoint; returns whether nothing is missing and each checksum is right."""
    try:
        reader = tf.train.load_checkpoint(checkpoint)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (tf.errors.OpError, LookupError, RuntimeError, ValueError):  # By kind of damage.
        return False
    return True


def use_newest_whole(directory: str) -> None:
    """Makes the file `checkpoint` name a whole checkpoint, if there is any; warns if it did not.

    Raises:
      CommandError: none is whole, so that the training would begin again at step 0.
    """
    named = tf.train.latest_checkpoint(directory)
    if named and is_whole(named):
        return
    # Others may be a program's own, without all variables.
    basenames = {_basename(named or 'model.ckpt-0'), 'model.ckpt'}
    present = [(step, path) for step, path in _checkpoints(directory) if _basename(path) in basenames]
    if not named and not present:
        return
    for step, found in reversed(present):
        if is_whole(found):
            reason = f'{named} is corrupt' if named else f'{directory}/checkpoint names no checkpoint'
            warn('%s: the training resumes from %s, the newest whole one.', reason, found)
            _name(directory, found, [path for older, path in present if older <= step])
            return
    first = named or present[0][1]
    if all(step == 0 for step, _ in present) and first.endswith('-0'):  # Of a full disk at the first save: nothing is lost.
        warn('%s is corrupt: the training begins at step 0.', first)
        tf.io.gfile.remove(os.path.join(directory, 'checkpoint'))
        return
    raise CommandError(f'{directory}: each checkpoint is corrupt. Restore one from a copy, or delete all to begin at step 0')


def _basename(checkpoint):
    return os.path.basename(checkpoint).rpartition('-')[0]


def _name(directory, checkpoint, all_checkpoints):
    checkpoint_management.update_checkpoint_state_internal(
        directory, checkpoint, all_model_checkpoint_paths=all_checkpoints, save_relative_paths=True
    )


class Numbers:
    """Finds variables with wrong numbers. Made before the graph is finalized."""

    def __init__(self) -> None:
        trainable = {variable.ref() for variable in tf.trainable_variables()}
        variables = [each for each in tf.global_variables() if each.dtype.base_dtype.is_floating]
        self._names = [each.op.name for each in variables]
        with tf.name_scope('exact/'):
            # An infinity in another variable may be meant: the best loss so far begins so.
            wrong = [tf.math.is_nan(each) if each.ref() not in trainable else ~tf.math.is_finite(each) for each in variables]
            self._wrong = tf.stack([tf.reduce_any(each) for each in wrong]) if wrong else tf.constant([], tf.bool)

    def wrong(self, session: tf.Session) -> list[str]:
        """Returns the names of variables with a NaN, and of trainable ones with an infinity."""
        return [name for name, is_wrong in zip(self._names, session.run(self._wrong)) if is_wrong]
