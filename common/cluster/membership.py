"""Who trains in an elastic cluster: a function of the tasks that are there, and of how many must be."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

from estimator_trainer.common.cluster.tf_config import PS, ClusterConfig
from estimator_trainer.common.errors import UsageError

REFORM_SECONDS = 30  # In which a task that loses another one starts again, as it imports TensorFlow.


@dataclasses.dataclass(frozen=True)
class Hello:
    """What a task that does not train says of itself.

    Attributes:
      task: its index among the trainers of the configured cluster.
      expected: the tasks that it has trained with and that were not lost, its own among them; () if it was just started.
      facts: {name: value}; must be the same for all tasks.
    """

    task: int
    expected: Sequence[int]
    facts: Mapping[str, str]

    @classmethod
    def parse(cls, value: Any) -> 'Hello':
        """Returns the Hello in a JSON value; raises ValueError if there is none."""
        try:
            found = cls(value['task'], tuple(value['expected']), dict(value['facts']))
        except (TypeError, KeyError) as error:
            raise ValueError(error) from None
        if not all(type(i) is int for i in (found.task, *found.expected)):
            raise ValueError('a task is not a number')
        return found


@dataclasses.dataclass(frozen=True)
class Formation:
    """The tasks that train together.

    Attributes:
      configured: the cluster of all tasks, with this process's.
      members: indices of those that train among the trainers of the configured one. The first does the chief's work.
    """

    configured: ClusterConfig
    members: Sequence[int]

    @property
    def config(self) -> ClusterConfig:
        """The cluster that trains."""
        return self.configured.of_trainers(self.members)

    @property
    def absent(self) -> list[str]:
        """The addresses of the tasks that do not take part."""
        tasks = [task for i, task in enumerate(self.configured.trainers) if i not in self.members]
        return [self.configured.addresses[job][index] for job, index in tasks]


def next_members(hellos: Mapping[int, Hello], count: int, needed: int, waited: float, timeout: float) -> tuple[int, ...]:
    """Returns the tasks that train next, the chief first; () while others may still come.

    Who has trained before comes first, so that a task that returns does not become the chief.

    Args:
      hellos: of the tasks that are there, by index.
      count: number of tasks.
      needed: number of tasks without which nobody trains.
      waited: seconds.
      timeout: seconds to wait for those that are expected: all, at the first start.
    """
    expected = {i for hello in hellos.values() for i in hello.expected}
    patience = min(REFORM_SECONDS, timeout) if expected else timeout
    is_complete = (expected or {*range(count)}) <= hellos.keys()
    if len(hellos) < needed or not is_complete and waited <= patience:
        return ()
    return tuple(sorted(hellos, key=lambda i: (not hellos[i].expected, i)))


def check(min_tasks: int, trainers: int, servers: int) -> None:
    """Raises UsageError if --min_tasks does not go with a cluster of so many tasks."""
    if servers:
        raise UsageError('--min_tasks is incompatible with parameter servers, whose workers come and go: omit it')
    if trainers < 2:
        raise UsageError(f'--min_tasks={min_tasks}: one task trains: add workers, or omit it')
    if min_tasks > trainers:
        raise UsageError(f'--min_tasks={min_tasks}: the cluster has only {trainers} tasks that train: use at most {trainers}')


def check_config(min_tasks: int, config: ClusterConfig | None) -> None:
    """Raises UsageError if --min_tasks does not go with a cluster, or there is none."""
    if not config:
        raise UsageError(
            f'--min_tasks={min_tasks} is for the tasks of a cluster: give --local_cluster, or set TF_CONFIG, or omit it'
        )
    check(min_tasks, len(config.trainers), len(config.addresses.get(PS, ())))
