"""The cluster described by TF_CONFIG, which Kubernetes' TFJob and Vertex AI set on each host, or by Slurm."""

from collections.abc import Mapping, MutableMapping, Sequence
import dataclasses
import json
import re

from estimator_trainer.common import json_text
from estimator_trainer.common.cluster.slurm_lists import expand_counts, expand_hosts
from estimator_trainer.common.errors import UsageError

CHIEF, WORKER, PS, EVALUATOR = JOBS = ('chief', 'worker', 'ps', 'evaluator')
_FIX = 'correct it, or unset it to train on one machine'
_SLURM_FIX = 'start the tasks with srun, or unset SLURM_STEP_NUM_TASKS to train on one machine'
_SLURM_NAMES = (
    'SLURM_STEP_NUM_TASKS',
    'SLURM_STEP_NODELIST',
    'SLURM_STEP_TASKS_PER_NODE',
    'SLURMD_NODENAME',
    'SLURM_LOCALID',
)
_FIRST_PORT, _NUM_PORTS = 10000, 21900  # Below those of outgoing connections.
_JOB_STRIDE, _STEP_STRIDE = 37, 8009  # Ports between jobs, as of an array, and between steps; not divisors of _NUM_PORTS.
_OLD_NAMES = {'master': CHIEF}


@dataclasses.dataclass(frozen=True)
class ClusterConfig:
    """A cluster: the addresses of its tasks, by job, and the job and index of this process's task.

    If there is no chief, the first worker does the chief's work.

    Attributes:
      source: origin of the description, for messages.
      names: of the workers, if they are some of the tasks of another cluster, see `of_trainers`.
    """

    addresses: Mapping[str, Sequence[str]]
    job: str
    index: int
    source: str = 'TF_CONFIG'
    names: Sequence[str] = ()

    @property
    def trainers(self) -> list[tuple[str, int]]:
        """The (job, index) of the tasks that train, the chief first."""
        return [(job, i) for job in (CHIEF, WORKER) for i in range(len(self.addresses.get(job, ())))]

    @property
    def members(self) -> list[tuple[str, int]]:
        """The (job, index) of the tasks that exchange tensors: those that train, then the parameter servers."""
        return [*self.trainers, *((PS, i) for i in range(len(self.addresses.get(PS, ()))))]

    @property
    def is_worker(self) -> bool:
        """Whether this process trains, but does not do the chief's work."""
        return (self.job, self.index) in self.trainers[1:]

    @property
    def name(self) -> str:
        """The own task's name, such as 'worker 1'."""
        return self.name_of(self.job, self.index)

    def name_of(self, job: str, index: int) -> str:
        """Returns a task's name."""
        return self.names[index] if self.names and job == WORKER else task_name(job, index)

    def of_trainers(self, chosen: Sequence[int]) -> 'ClusterConfig':
        """Returns the cluster of some of the tasks that train, by their indices in `trainers`, the own one among them.

        All are workers, in the given order, so that the first does the chief's work, and keep their names.
        """
        tasks = [self.trainers[i] for i in chosen]
        addresses = {WORKER: [self.addresses[job][i] for job, i in tasks]}
        if EVALUATOR in self.addresses:
            addresses[EVALUATOR] = [*self.addresses[EVALUATOR]]
        names = [task_name(*task) for task in tasks]
        return ClusterConfig(addresses, WORKER, tasks.index((self.job, self.index)), self.source, names)


def task_name(job: str, index: int) -> str:
    """Returns a task's name, such as 'worker 1'."""
    return job if job == CHIEF else f'{job} {index}'


def read(environ: MutableMapping[str, str]) -> ClusterConfig | None:
    """Returns the cluster described by os.environ; None if this process trains alone.

    Removes TF_CONFIG, from which the Estimator would set up parameter servers or take its model_dir.

    Raises:
      UsageError: TF_CONFIG does not describe a cluster with this process in it.
    """
    text = environ.pop('TF_CONFIG', '')
    config = _parse(text) if text else _from_slurm(environ)
    if config is None or config.job != EVALUATOR and sum(map(len, config.addresses.values())) < 2:
        return None
    return config


def refuse(environ: MutableMapping[str, str], program: str) -> None:
    """Removes a TF_CONFIG of one task from os.environ.

    Raises:
      UsageError: TF_CONFIG has several tasks, or is invalid.
    """
    if read(environ):
        raise UsageError(
            f'TF_CONFIG or Slurm describes a cluster, but {program} runs on one machine: unset it, or start one task'
        )


def _parse(text):
    try:
        value = json_text.loads(text)
    except json_text.Misread as error:
        raise UsageError(f'TF_CONFIG: {error}: {_FIX}') from None
    except ValueError as error:
        raise UsageError(f'TF_CONFIG is not JSON ({error}): {_FIX}') from None
    if not isinstance(value, dict):
        raise UsageError(f'TF_CONFIG is not a JSON object: {_FIX}')
    addresses = _addresses(value.get('cluster', {}))
    task = value.get('task', {})
    if not isinstance(task, dict) or not isinstance(task.get('type', ''), str):
        raise UsageError(f'TF_CONFIG: its task is not an object of a type and an index: {_FIX}')
    if isinstance(task.get('index'), bool) or not re.fullmatch('[0-9]{1,99}', str(task.get('index', 0))):
        raise UsageError(f"TF_CONFIG: its task's index {json.dumps(task['index'])} is not an integer from 0: {_FIX}")
    job, index = task.get('type', ''), int(task.get('index', 0))
    job = _OLD_NAMES.get(job, job)
    if job == EVALUATOR:  # Not part of TFJob's cluster description.
        return ClusterConfig(addresses, job, index)
    count = len(addresses.get(job, ()))
    is_cluster = sum(map(len, addresses.values())) > 1
    if is_cluster:
        if not job:
            raise UsageError(f'TF_CONFIG: its task has no type, which says which task of the cluster this one is: {_FIX}')
        if job not in JOBS:
            raise UsageError(f'TF_CONFIG: its task has the type {job}, which is not one of {", ".join(JOBS)}: {_FIX}')
    if index >= count and (is_cluster or job in value.get('cluster', {})):
        raise UsageError(f'TF_CONFIG: its task is {job} {index}, and the cluster has {count} of this type: {_FIX}')
    return ClusterConfig(addresses, job, index)


def _addresses(cluster):
    """Returns a cluster's addresses by job, checked."""
    if not isinstance(cluster, dict) or not all(
        isinstance(hosts, list) and all(isinstance(host, str) for host in hosts) for hosts in cluster.values()
    ):
        raise UsageError(f'TF_CONFIG: its cluster is not an object of lists of hosts: {_FIX}')
    addresses: dict[str, list[str]] = {}
    for job, hosts in cluster.items():
        job = _OLD_NAMES.get(job, job)
        if job not in JOBS:
            raise UsageError(f'TF_CONFIG: its cluster has the job {job}, which is not one of {", ".join(JOBS)}: {_FIX}')
        addresses.setdefault(job, []).extend(hosts)
    if len(addresses.get(CHIEF, ())) > 1:
        raise UsageError(f'TF_CONFIG: its cluster has {len(addresses[CHIEF])} chiefs: {_FIX}')
    if addresses.get(PS) and not addresses.get(CHIEF) and not addresses.get(WORKER):
        raise UsageError(f'TF_CONFIG: its cluster has parameter servers, ps, and no chief or worker: {_FIX}')
    known = [address for hosts in addresses.values() for address in hosts]
    for address in known:
        port = re.fullmatch(r'(?:\[[^\[\]\s]+\]|[^\s:\[\]]+):([0-9]{1,5})', address)
        if not port or not 0 < int(port[1]) < 2**16:
            scheme, separator, rest = address.rpartition('://')
            example = '[::1]:2222' if rest.count(':') > 1 else 'host:2222'
            omit = f' (omit {scheme}{separator})' if scheme else ''
            raise UsageError(f'TF_CONFIG: the address {address} is not a host and a port, such as {example}{omit}: {_FIX}')
        if known.count(address) > 1:
            raise UsageError(f'TF_CONFIG: the address {address} is given to several tasks: {_FIX}')
    return {job: hosts for job, hosts in addresses.items() if hosts}


def _from_slurm(environ):
    """Returns the cluster of an srun job step with several tasks; None if there is none.

    The tasks are numbered host by host, in the order of Slurm's list, whatever their distribution; SLURM_PROCID differs with
    `-m cyclic`. TensorFlow's SlurmClusterResolver sorts the hosts, n10 before n9.
    """
    if environ.get('SLURM_STEP_NUM_TASKS', '1') == '1':
        return None
    try:
        hosts = expand_hosts(environ['SLURM_STEP_NODELIST'])
        counts = expand_counts(environ['SLURM_STEP_TASKS_PER_NODE'])
        count, host, place = int(environ['SLURM_STEP_NUM_TASKS']), environ['SLURMD_NODENAME'], int(environ['SLURM_LOCALID'])
        first_port = _first_port(int(environ['SLURM_JOB_ID']), int(environ['SLURM_STEP_ID']))
    except KeyError as error:
        raise UsageError(f'{error.args[0]} is missing: {_SLURM_FIX}') from None
    except ValueError as error:
        raise UsageError(f"one of Slurm's variables cannot be read ({error}): {_SLURM_FIX}") from None
    tasks = [(name, i) for name, number in zip(hosts, counts) for i in range(number)]
    if not len(hosts) == len(counts) or not count == len(tasks) == len(set(tasks)) or (host, place) not in tasks:
        given = ' '.join(f'{name}={environ[name]}' for name in _SLURM_NAMES)
        raise UsageError(f"Slurm's variables contradict each other ({given}): {_SLURM_FIX}")
    return ClusterConfig(
        {WORKER: [f'{name}:{first_port + i}' for name, i in tasks]}, WORKER, tasks.index((host, place)), 'Slurm'
    )


def _first_port(job, step):
    """Returns the port of the first task on each host: further tasks have the next ones, other jobs and steps have others."""
    return _FIRST_PORT + (_JOB_STRIDE * job + _STEP_STRIDE * step) % _NUM_PORTS
