"""A part of a cluster's run, trained again by as many tasks: sums and random numbers depend on them."""

from collections.abc import Sequence
import os
import re

from estimator_trainer.common.cluster import local, local_tasks
from estimator_trainer.common.commands.rerun_task import ASKED
from estimator_trainer.common.console import errors_only
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import write_json
from estimator_trainer.common.processes import SCRIPT
from estimator_trainer.common.replay.recorded import Recorded
from estimator_trainer.common.stop import StopOnSignal

_LOG = re.compile(r' \(log: .*')  # Deleted in the end.


def train(
    flags: Sequence[str],
    directory: str,
    tasks: int,
    end: int,
    stop: StopOnSignal,
    recorded: Recorded | None,
    first: int | None,
) -> bool:
    """Trains from the checkpoint in a directory, or the initialization, up to a step, and saves a checkpoint.

    Args:
      flags: of the tasks.
      recorded, first: see `common.replay.recorder.record`; the files have batches, and of each task the weights.

    Returns:
      Whether loss and variables stayed finite, as far as that is recorded.

    Raises:
      UsageError, RunError: a task failed.
    """
    asked = {'end': end, 'first': first, 'directory': recorded.directory if recorded else ''}
    write_json(os.path.join(directory, ASKED), asked)
    failure: UsageError | RunError | None = None
    try:
        with errors_only():
            local.run([SCRIPT, 'rerun_task', *flags], local_tasks.parse(f'chief:1,worker:{tasks - 1}'), directory, 0, stop)
    except (UsageError, RunError) as error:
        failure = type(error)(f'training up to step {end} again, by {tasks} tasks, failed: {_LOG.sub("", str(error))}')
    is_finite = recorded.read_losses() if recorded else True
    if failure and is_finite:
        raise failure
    return is_finite
