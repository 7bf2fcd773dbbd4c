"""A process of a local cluster, and what happens to those that fail in elastic training."""

from collections.abc import Callable, Sequence
import re
import subprocess
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import processes
from estimator_trainer.common.cluster.tf_config import EVALUATOR, ClusterConfig

_WARNING = re.compile(r'^[\d-]+ [\d:]+ WARNING (.+)$', re.MULTILINE)  # As console.log writes it.


class LocalProcess:
    """A process of the cluster.

    Args:
      start: starts a process, which appends to the log.
      output: the binary file of its stdout; None if that is the log.

    Attributes:
      log_start: the offset of its part of the log.
      loss: its last logged loss.
      is_left_out: whether the others go on without it.
    """

    def __init__(self, config: ClusterConfig, log_path: str, start: Callable[[], subprocess.Popen], output: Any = None):
        self.config, self.log_path, self.output = config, log_path, output
        self.loss = ''
        self._start = start
        self.start()

    def start(self) -> None:
        """Starts it, again if it has ended."""
        self.log_start = self._position = processes.log_end(self.log_path)
        self.is_left_out = False
        self.process = self._start()

    def read_log(self) -> list[str]:
        """Updates the loss; returns the warnings that are new in the log."""
        with open(self.log_path, 'rb') as log:
            log.seek(self._position)
            lines, newline, _ = log.read().rpartition(b'\n')
        self._position += len(lines + newline)
        for match in re.finditer(rb'loss = \S+, step = \d+', lines):
            self.loss = match[0].decode()
        return _WARNING.findall(lines.decode(errors='replace'))

    def read_output(self) -> str:
        """Returns what it has printed."""
        self.output.seek(0)
        return self.output.read().decode(errors='replace')

    @property
    def state(self) -> str:
        code = self.process.returncode
        if code is None:
            return 'running'
        if self.is_left_out:
            return 'lost'
        return 'stopped' if processes.was_stopped(code) else 'failed' if code else 'ended'

    @property
    def breaks_training(self) -> bool:
        """Whether it ended too early for the others to continue."""
        return self.state == 'failed' or self.state == 'stopped' and self.config.job != EVALUATOR

    def explain(self) -> str:
        """Says what ended it."""
        cause = processes.explain(self.log_path, self.process.returncode, self.log_start).removeprefix('trainer.py: ')
        return f'{self.config.name} failed: {cause}'


class Recovery:
    """Starts tasks that are lost again, or leaves them out.

    Args:
      min_tasks: number of tasks that must train; 0 if all must.
      restarts: how often to start a task again.
    """

    def __init__(self, min_tasks: int, restarts: int):
        self._min_tasks, self._restarts, self._num_restarts = min_tasks, restarts, 0

    def recover(self, tasks: Sequence[LocalProcess]) -> None:
        """Recovers from failures of tasks that train, except for wrong usage, and once one has ended: training has, too."""
        trainers = [task for task in tasks if (task.config.job, task.config.index) in task.config.trainers]
        if not self._min_tasks or any(task.state == 'ended' or task.process.returncode == 2 for task in trainers):
            return
        for task in trainers:
            if task.state != 'failed':
                continue
            if self._num_restarts < self._restarts:
                self._num_restarts += 1
                again = f'restart {self._num_restarts} of {self._restarts}'
                tf.logging.warning('%s; starting it again (%s).', task.explain(), again)
                task.start()
            elif sum(other.state == 'running' for other in trainers) >= self._min_tasks:
                tf.logging.warning('%s; the others go on without it.', task.explain())
                task.is_left_out = True
