"""Keeps some checkpoints of a run, deletes the others, and compares the space that they take with what is free."""

from collections.abc import Iterable
import re
import shutil

import tensorflow.compat.v1 as tf

from estimator_trainer.common.memory import size, to_text
from estimator_trainer.common.paths import is_remote

_FEWEST = 3  # Checkpoints for which there should be space: the latest, the best, and the one that is written.


def delete_excess(saver: tf.train.Saver, keep_every: int) -> None:
    """Deletes the oldest checkpoints that a Saver has beyond its max_to_keep; call it before the Saver saves.

    A Saver deletes one checkpoint for each that it saves, so those that an earlier run left with a larger limit would stay.

    Args:
      keep_every: the Saver forgets the checkpoints at multiples of this step, so that they stay; 0 for none.
    """
    paths = [path for path in saver.last_checkpoints if not _stays(path, keep_every)]
    limit = saver.saver_def.max_to_keep
    kept = paths[-limit:] if limit else paths
    for path in paths[: len(paths) - len(kept)]:
        tf.logging.info('Deleting %s, beyond the %d latest.', path, limit)
        tf.train.remove_checkpoint(path)
    saver.recover_last_checkpoints(kept)


def _stays(path, keep_every):
    step = re.search(r'-(\d+)$', path)
    return bool(keep_every and step and int(step[1]) % keep_every == 0)


def warn_of_space(output_dir: str, variables: Iterable[tf.Variable]) -> None:
    """Logs a warning if a local directory has space for fewer than three checkpoints of the variables."""
    if is_remote(output_dir):
        return
    needed = sum(size(variable.shape, variable.dtype.base_dtype) for variable in variables)
    free = shutil.disk_usage(output_dir).free
    if free < _FEWEST * needed:
        tf.logging.warning(
            '%s: a checkpoint takes about %s, and %s is free on the disk: make room, or keep fewer with --keep_checkpoint_max.',
            *(output_dir, to_text(needed), to_text(free)),
        )
