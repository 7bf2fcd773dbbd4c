"""Parser of --local_cluster."""

from collections.abc import Mapping
import re

from estimator_trainer.common.cluster.tf_config import CHIEF, EVALUATOR, JOBS, WORKER
from estimator_trainer.common.errors import UsageError

_MAX_TASKS = 64


def parse(text: str) -> dict[str, int]:
    """Parses the number of tasks of each job.

    Args:
      text: such as 'chief:1,worker:2,evaluator:1'.

    Raises:
      UsageError: the text does not describe a cluster that can train.
    """
    counts: dict[str, int] = {}
    for part in text.split(','):
        job, _, count = part.partition(':')
        if job not in JOBS or job in counts or not re.fullmatch('[1-9][0-9]{0,8}', count):
            raise UsageError(
                f'--local_cluster={text} must list jobs, each once, with their numbers of tasks, such as worker:2 or '
                f'chief:1,worker:2,ps:1,evaluator:1; the jobs are: {", ".join(JOBS)}'
            )
        counts[job] = int(count)
    for job in (CHIEF, EVALUATOR):
        if counts.get(job, 0) > 1:
            raise UsageError(f'--local_cluster={text}: a cluster has at most one {job}')
    total = sum(counts.values())
    if total > _MAX_TASKS:
        raise UsageError(f'--local_cluster={text}: {total} processes are too many for one machine: at most {_MAX_TASKS}')
    if not counts.get(CHIEF) and not counts.get(WORKER):
        raise UsageError(f'--local_cluster={text}: none of its tasks trains: add workers, or omit the flag')
    if total < 2:
        raise UsageError(f'--local_cluster={text}: one task is not a cluster: add workers or an evaluator, or omit the flag')
    return counts


def num_trainers(counts: Mapping[str, int]) -> int:
    """Returns the number of tasks that train."""
    return counts.get(CHIEF, 0) + counts.get(WORKER, 0)
