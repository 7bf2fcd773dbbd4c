"""This process's task of a cluster, and its view of the other tasks."""

import abc
from collections.abc import Callable, Collection, Iterator, Mapping
import contextlib
import re
import sys
import threading
import time
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import stop
from estimator_trainer.common.cluster.members import Members
from estimator_trainer.common.cluster.probe import ANSWERS, FOREIGN, probe_all
from estimator_trainer.common.cluster.server import start_server
from estimator_trainer.common.cluster.tf_config import ClusterConfig
from estimator_trainer.common.cluster.training_task import TrainingTask, task_seed
from estimator_trainer.common.cluster.watch import Watch
from estimator_trainer.common.errors import RunError, UsageError, print_error
from estimator_trainer.common.processes import exit_process, restart_process

_RETRY_SECONDS = 0.2
_REMINDER_SECONDS = 20
_END_SECONDS = 3
_LOOK_SECONDS = 1
_SEARCH_SECONDS = 5  # Until a task that has failed has ended.
RESTART = 'restart all tasks to resume from the latest checkpoint'


class Restart(RunError):
    """This process starts its command again, from the latest checkpoint. `environ` is to be added to its environment."""

    def __init__(self, text: str, **environ: str):
        super().__init__(text)
        self.environ = environ


class ConnectionLost(Restart):
    """Other tasks could not be reached, and can be again: all restart."""


class Task:
    """One of the processes of a cluster.

    Args:
      config: the cluster, with this process's task.
      timeout: seconds of each wait for other tasks.

    Raises:
      RunError: the port is in use.
    """

    def __init__(self, config: ClusterConfig, timeout: float, session_config: tf.ConfigProto):
        self.name = config.name
        self.index = config.members.index((config.job, config.index))
        self.count = len(config.trainers)
        self.num_servers = len(config.members) - self.count
        self.session_config = session_config
        self._source = config.source
        self._is_judging = threading.Lock()
        self._has_reset = False
        self._has_ended = threading.Event()
        self._timeout = self._meeting_seconds = timeout
        self._foreign_seconds = 0.0  # In which something else may still answer at another task's address.
        self._names = [config.name_of(*member) for member in config.members]
        self._addresses = [config.addresses[job][i] for job, i in config.members]
        self._members = Members(dict(zip(self._addresses, self._names)), self._addresses[self.index])
        self._watch = Watch(self._members, timeout, self._on_loss)
        self.target = start_server(config, session_config)

    def end_watch(self) -> None:
        """Ends the watch; call it after training, when the others may end, and before the process exits."""
        self._has_ended.set()
        self._watch.stop()

    def _wait_and_watch(self, awaited: Collection[int], watched: Collection[int]) -> None:
        """Waits until other tasks are reachable; afterwards, the loss of a watched one aborts waiting for it."""
        start = time.monotonic()
        deadline = start + self._meeting_seconds
        reminder = time.monotonic() + _REMINDER_SECONDS
        while missing := {address: state for address, state in self._states(awaited).items() if state != ANSWERS}:
            if FOREIGN in missing.values() and time.monotonic() >= start + self._foreign_seconds:
                raise RunError(f'{self._source}: {self._members.describe_foreign(missing)}')
            if time.monotonic() > deadline:
                raise RunError(f'{self._source}: {self._members.describe_missing(missing, self._meeting_seconds)}')
            if time.monotonic() > reminder:
                tf.logging.info('Waiting: %s.', self._members.describe_absent(missing))
                reminder += _REMINDER_SECONDS
            time.sleep(_RETRY_SECONDS)
        self._watch = Watch(self._members, self._timeout, self._on_loss)
        self._watch.start([self._addresses[i] for i in watched if i != self.index])

    def set_deadline(self, steps: int) -> None:
        """Limits this process's wait for others, from now on, to the timeout times the steps; 0 removes the limit."""
        self._watch.set_deadline(steps)

    def complete_step(self) -> None:
        """Notes that a session call for which `set_deadline` was called has ended. It removes the limit."""
        self.set_deadline(0)

    def _on_loss(self):
        """Ends the process if the main thread does not; called in its own thread when a watched task is lost."""
        if not self._has_ended.wait(_END_SECONDS):
            self._end_process()

    def _end_process(self):
        error = self.loss(tf.errors.DeadlineExceededError(None, None, ''))
        if isinstance(error, Restart):
            if number := stop.received():
                exit_process(128 + number)
            restart_process(error, error.environ)
        print_error(sys.argv[0], error)
        exit_process(1)

    @property
    def described(self) -> list[str]:
        """All tasks' names and addresses, in their order."""
        return [self._members.listed([address]) for address in self._addresses]

    @property
    def _cluster(self) -> dict[str, str]:
        """The addresses, for comparison between the tasks."""
        return {'TF_CONFIG': ' '.join(self._addresses)}

    @contextlib.contextmanager
    def naming_lost_tasks(self) -> Iterator[None]:
        """Within the block, replaces TensorFlow's error about a lost task with a RunError that names the task."""
        logger = tf.get_logger()
        is_outermost = _is_news not in logger.filters
        logger.addFilter(_is_news)
        try:
            yield
        except tf.errors.OpError as error:
            if re.search(_OTHER_CLUSTER, str(error)):
                raise UsageError(
                    f'{self._source}: {self.name} has the cluster {" ".join(self._addresses)}, and another task has another '
                    'one: give all the same addresses, in the same order'
                ) from None
            if not self._has_reset and not isinstance(error, _LOSSES) and 'ollective' not in str(error):
                raise
            raise self.loss(error) from None
        finally:
            if is_outermost:
                logger.removeFilter(_is_news)

    def loss(self, error: tf.errors.OpError | None = None) -> RunError:
        """Returns the error that names the tasks that are lost or unresponsive, ConnectionLost if they can be reached again."""
        with self._is_judging:  # The watch may have to end the process meanwhile.
            sightings = self._search(error)
            if sightings.has_trained and sightings.outages and (lost := self._wait_for_return(sightings)):
                return ConnectionLost(f'{lost}: all tasks restart from the latest checkpoint')
            if culprits := sightings.culprits():
                return RunError(f'{self._members.describe_culprits(culprits, sightings)}: {RESTART}')
        if isinstance(error, tf.errors.DeadlineExceededError) or self._watch.is_late:
            return RunError(
                f'another task has not answered for {self._timeout:g} seconds: {RESTART}; if a task is that slow, for example '
                'in an evaluation, raise --cluster_timeout'
            )
        cause = _cause(error) if error else ''
        reason = f' ({cause})' if cause else ''
        return RunError(f'another task has failed{reason}; its own log may say why: {RESTART}')

    @property
    def _needed(self):
        """The addresses of the tasks that must not be lost: with parameter servers, workers may come and go."""
        tasks = [0, *range(self.count, len(self._names))] if self.num_servers else range(len(self._names))
        return [self._addresses[i] for i in tasks if i != self.index]

    def _search(self, error):
        """Returns what was seen of the others, whose end may take a while after their error has arrived."""
        deadline = time.monotonic() + (0 if error and _cause(error) else _SEARCH_SECONDS)
        while not (sightings := self._watch.look(self._needed)).troubles and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        time.sleep(_LOOK_SECONDS)  # Until the others have detected the lost task: this process will look lost, too.
        return sightings

    def _wait_for_return(self, sightings):
        """Waits until the hosts of all tasks can be reached again, and returns what has happened; '' after the timeout."""
        start = min(start for start, _ in sightings.outages.values())
        while sightings.is_cut_off:
            if time.monotonic() > start + self._timeout:
                return ''
            time.sleep(_LOOK_SECONDS)
            self._watch.look(self._needed)
        seconds = max(end for _, end in sightings.outages.values()) - start
        return f'the connection to {self._members.listed(sightings.outages)} was lost for {seconds:.0f} s'

    @contextlib.contextmanager
    def session(self) -> Iterator[tf.Session]:
        """Yields a session of the default graph. It stays open after an error, as closing would print that it is lost."""
        session = tf.Session(self.target, config=self.session_config)
        yield session
        session.close()

    def wait_until(self, is_true: Callable[[], Any], what: str) -> Any:
        """Returns the function's result once it is true.

        Raises:
          RunError: the timeout has passed; its message begins with `what`.
        """
        deadline = time.monotonic() + self._timeout
        while not (result := is_true()):
            if time.monotonic() > deadline:
                raise RunError(f'{what} for {self._timeout:g} seconds (--cluster_timeout): its own log may say why')
            time.sleep(_RETRY_SECONDS)
        return result

    def _states(self, tasks):
        """Returns {address: state} of other tasks, see common/cluster/probe.py."""
        return probe_all(self._addresses[i] for i in tasks if i != self.index)


class TrainerTask(Task, TrainingTask):
    """A task of a cluster that trains: the chief or a worker. See Task for the arguments."""

    def __init__(self, config: ClusterConfig, timeout: float, session_config: tf.ConfigProto):
        super().__init__(config, timeout, session_config)
        self.is_chief = self.index == 0
        self._has_started = False

    @abc.abstractmethod
    def meet(self, facts: Mapping[str, str]) -> None:
        """Waits for the other tasks, and checks that they agree.

        Args:
          facts: {name: value}; must be the same for all tasks.

        Raises:
          UsageError: a task was started with other facts.
          RunError: a task is unreachable within the timeout.
        """

    def run_config(self, config: 'tf.estimator.RunConfig') -> 'tf.estimator.RunConfig':
        """See TrainingTask. The tasks draw different random numbers."""
        seed = task_seed(config.tf_random_seed, self.index)
        config = config.replace(session_config=self.session_config, tf_random_seed=seed)
        config._master = self.target  # RunConfig takes it from TF_CONFIG only.
        return config

    def start(self, facts: Callable[[], Mapping[str, str]]) -> bool:
        self._has_started = True
        return self._start(facts())

    def leave(self) -> None:
        if self.is_chief and not self._has_started:
            self._leave()

    def give_way(self, error: RunError) -> RunError:
        """Returns the error with which this chief ends as another process trains in its output_dir, which `error` says."""
        return error

    @abc.abstractmethod
    def _start(self, facts: Mapping[str, str]) -> bool:
        """See `start`."""

    @abc.abstractmethod
    def _leave(self) -> None:
        """See `leave`."""


def make_session_config(config: ClusterConfig, given: tf.ConfigProto | None, *devices: str) -> tf.ConfigProto:
    """Returns a copy of a tf.ConfigProto for sessions on this process's devices and the given ones, such as '/job:ps'.

    A session waits for the tasks of all devices that it may use.
    """
    session_config = tf.ConfigProto(allow_soft_placement=True)
    if given:
        session_config.CopyFrom(given)
    session_config.use_per_session_threads = False  # The server has the threads; its sessions refuse their own.
    session_config.device_filters.extend([f'/job:{config.job}/task:{config.index}', *devices])
    return session_config


def _is_news(record):
    """Whether a log record is not one of MonitoredSession's tracebacks about a lost task."""
    return not str(record.msg).startswith(('An error was raised. This may be', 'An error occurred when attempting to close'))


def _cause(error):
    """Returns another task's error message without the chain of tasks and the graph locations; '' if there is none."""
    text = str(error).split('Collective ops is aborted by: ')[-1]
    first = re.split(r' Additional GRPC| The error could be|\n', text)[0]
    if first != 'Graph execution error:':
        return first
    found = re.search(r'(.+)\n\s*\[\[', text)
    return found[1] if found else ''


_OTHER_CLUSTER = 'is joining a group with size|unknown device'
_LOSSES = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError, tf.errors.AbortedError, tf.errors.CancelledError)
