"""A copy of what a run goes on from: one of its checkpoints, with its records. The run's own directory is only read."""

from collections.abc import Mapping
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import names_in, read_json
from estimator_trainer.common.runs.made_by import LENGTH
from estimator_trainer.common.storage import best_checkpoint, checkpoints, provenance, run_dir
from estimator_trainer.common.storage.restore import CheckpointGone, is_intact, paths_of
from estimator_trainer.common.training import exact_program
from estimator_trainer.hparams import build, overrides


def checkpoint_steps(output_dir: str) -> dict[int, str]:
    """Returns {step: path without suffix} of a run's checkpoints, intact or not, and the best one, by step."""
    found = {step: checkpoints.path_of(output_dir, step) for step in checkpoints.steps(output_dir)}
    best = best_checkpoint.best_step(output_dir)
    if best is not None:
        found.setdefault(best, best_checkpoint.find_best(output_dir) or '')
    return dict(sorted(found.items()))


def require_checkpoint(output_dir: str) -> None:
    """Raises UsageError if a run has no checkpoint, in best/ neither."""
    if not checkpoint_steps(output_dir):
        checkpoints.require_checkpoint(output_dir)


def checkpoint_before(output_dir: str, step: int) -> str:
    """Returns the path, without suffix, of the newest intact checkpoint from which a step can be computed again.

    Raises:
      UsageError: there is none; the message names the first step that can be.
    """
    found = checkpoint_steps(output_dir)
    for saved, path in reversed(found.items()):
        if saved < step and is_intact(path):
            return path
    first = next((saved + 1 for saved, path in found.items() if is_intact(path)), None)
    known = 'it has none at all' if first is None else f'the first step that can be replayed is {first}'
    raise UsageError(f'--step={step}: {output_dir} has no intact checkpoint before this step: {known}')


def copy(output_dir: str, checkpoint_path: str, directory: str) -> int:
    """Copies a checkpoint of a run, and the records by which it goes on, to an empty directory; returns the checkpoint's step.

    Raises:
      CheckpointGone: the run has deleted it meanwhile.
    """
    step = int(checkpoint_path.rpartition('-')[2])
    states = os.path.join(output_dir, exact_program.FOLDER)
    paths = [path for path in (run_dir.flags_path(output_dir), run_dir.dataset_path(output_dir)) if tf.io.gfile.exists(path)]
    paths += [os.path.join(states, name) for name in names_in(states) if name.partition('.')[0] == str(step)]
    try:
        for path in [*paths, *paths_of(checkpoint_path)]:
            folder = directory if os.path.dirname(path) != states else os.path.join(directory, exact_program.FOLDER)
            tf.io.gfile.makedirs(folder)
            tf.io.gfile.copy(path, os.path.join(folder, os.path.basename(path)))
    except tf.errors.NotFoundError:
        raise CheckpointGone(checkpoint_path) from None
    copied = os.path.join(directory, os.path.basename(checkpoint_path))
    if not is_intact(copied):
        raise CheckpointGone(checkpoint_path)
    tf.train.update_checkpoint_state(directory, copied, [copied])
    return step


def save_hparams(output_dir: str, directory: str, step: int, made_by: Mapping[str, Any] | None) -> None:
    """Writes the hyper-parameters with which a run trained the step after `step` to another directory.

    Args:
      made_by: what it was made by then; None if unknown. It has the length of the training, which schedules of the rate know.
    """
    saved = read_json(run_dir.hparams_path(output_dir))
    length = {name: made_by['hparams'][name] for name in LENGTH if name in made_by['hparams']} if made_by else {}
    build.save({**overrides.undone(saved, step + 1), **length}, run_dir.hparams_path(directory))


def changes(output_dir: str, record: provenance.Record) -> list[int]:
    """Returns the steps at which a run has resumed, perhaps with other hyper-parameters or flags."""
    history = overrides.read_history(run_dir.hparams_path(output_dir))
    return sorted({*(entry['global_step'] for entry in history), *(start['step'] for start in record.starts)})
