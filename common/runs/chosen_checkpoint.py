"""The best checkpoint as the result of a run that asked for it: --best_metric or --early_stopping_patience."""

from collections.abc import Callable, Mapping
import os
import typing
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.runs import saved_flags
from estimator_trainer.common.storage import best_checkpoint, checkpoints
from estimator_trainer.common.storage.run_dir import flags_path

T = typing.TypeVar('T')


def choose(output_dir: str, given: str | None) -> str:
    """Returns which checkpoint a command uses: 'latest', 'best' or a path.

    Args:
      given: --checkpoint. If None, the best one of a run that asked for it, else the latest. That the best is not the
        latest, or cannot be used, is a warning.
    """
    if given is not None:
        return given
    return 'best' if _best_of_run(output_dir, lambda step: '--checkpoint=latest') else 'latest'


def weights_of(path: str) -> str:
    """Returns what a warm start reads: of a run's output_dir the best checkpoint, as `choose` has it; else the path itself."""
    latest = f'--warm_start_from={os.path.join(path, "model.ckpt-")}'
    return _best_of_run(path, lambda step: f'{latest}{step}') or path


def _best_of_run(output_dir, latest_flag):
    """Returns the path of a run's best checkpoint if its training asked for it and it is intact, else None.

    Args:
      latest_flag: returns the flag that uses the latest checkpoint in its place, from its step.
    """
    if saved_flags.are_lost(output_dir):
        tf.logging.warning(
            '%s is missing, so the latest checkpoint is used, even if the run asked for its best: restore it%s.',
            flags_path(output_dir),
            saved_flags.origin(output_dir),
        )
    if not _ask_for_best(saved_flags.load(output_dir)):
        return None
    problem = f'{best_checkpoint.best_dir(output_dir)} has no intact one'
    try:
        best = best_checkpoint.intact_best(output_dir)
    except RunError as error:
        best, problem = None, str(error)
    if not best:
        tf.logging.warning('Using the latest checkpoint in place of the best: %s.', problem)
        return None
    later = [step for step in checkpoints.steps(output_dir)[-1:] if not best.endswith(f'-{step}')]
    tf.logging.log(
        tf.logging.WARN if later else tf.logging.INFO,
        'Using the best checkpoint, %s, as --best_metric or --early_stopping_patience was given in training%s',
        os.path.basename(best),
        f'; {latest_flag(later[0])} uses that of step {later[0]}.' if later else '.',
    )
    return best


def use(output_dir: str, given: str | None, function: Callable[[str], T]) -> T:
    """Returns what a function returns for the path of the chosen checkpoint; see `checkpoints.use_checkpoint`."""
    return checkpoints.use_checkpoint(output_dir, choose(output_dir, given), function)


def with_best(result: dict[str, Any], output_dir: str, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the result of a run with the evaluation of the best checkpoint as 'best', if it was asked for.

    Args:
      result: {'global_step': int, split: {metric: value}}; a split named best stays.
      flags: of the run, {name: value}.
    """
    best = best_checkpoint.evaluation(output_dir) if _ask_for_best(flags) else None
    return {**result, 'best': best} if best and 'best' not in result else result


def _ask_for_best(flags):
    return bool(flags.get('best_metric') or flags.get('early_stopping_patience'))
