"""The losses that a run has logged, compared with those of its steps computed again."""

from collections.abc import Mapping
import re
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.replay.run_copy import checkpoint_steps
from estimator_trainer.common.storage import run_dir
from estimator_trainer.common.storage.metrics_file import read_rows
from estimator_trainer.common.storage.metrics_table import STEP_LOSS, is_of_training


class Comparison(NamedTuple):
    """How losses compare with the logged ones.

    Attributes:
      steps: {step: (loss as logged, loss now)}, of those logged.
      differing: the first step whose losses differ in any bit; None if none do.
      largest: the largest absolute difference.
    """

    steps: Mapping[int, tuple[float, float]]
    differing: int | None
    largest: float


def compare(output_dir: str, losses: Mapping[int, Any]) -> Comparison:
    """Compares losses {step: NumPy scalar} with those in metrics.csv, which has all of their digits."""
    logged = _logged(output_dir)
    known = [step for step in sorted(losses) if step in logged]
    differing = [step for step in known if str(losses[step]) != logged[step]]
    steps = {step: (float(np.asarray(losses[step]).dtype.type(logged[step])), float(losses[step])) for step in known}
    return Comparison(
        steps, differing[0] if differing else None, max((abs(a - b) for a, b in steps.values() if a != b), default=0.0)
    )


def next_logged(output_dir: str, step: int) -> int | None:
    """Returns the first step after another whose loss a run has logged; None if there is none."""
    return min((logged for logged in _logged(output_dir) if logged > step), default=None)


def _logged(output_dir):
    """Returns {step: loss as text}."""
    rows = (row for row in read_rows(output_dir) if is_of_training(row))
    return {int(row['global_step']): row[STEP_LOSS] for row in rows if row.get(STEP_LOSS)}


def check_reached(output_dir: str, text: str, last: int) -> None:
    """Raises UsageError if a run has not come to a step, as far as its checkpoints, its log and its end show.

    Args:
      text: as given to --step.
    """
    status = run_dir.read_status(output_dir)
    named = re.search(r'(?:the loss of|after|by) step (\d+)', status.get('reason') or '')
    steps = [*checkpoint_steps(output_dir), status.get('global_step') or 0, int(named[1]) if named else 0]
    steps += [int(row['global_step']) for row in read_rows(output_dir) if is_of_training(row)]
    if last > (reached := max(steps)):
        raise UsageError(f'--step={text}: the run in {output_dir} has only reached step {reached}')
