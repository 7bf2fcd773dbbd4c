"""The status.json of a run, written at changes of its state and lines of its log; see common/storage/status.py."""

from collections.abc import Mapping
import time
from typing import Any

from estimator_trainer.common import files, paths
from estimator_trainer.common.monitoring.tracker import Tracker
from estimator_trainer.common.storage import run_dir, status
from estimator_trainer.common.storage.status import State

# Between writes at lines of the log: the disk takes up to 5 ms to replace a file, a remote file system up to a second.
_SECONDS, _REMOTE_SECONDS = 1, 10
_OF_RUN = ('global_step', 'train_steps', 'training', 'evaluation', 'started', 'resumed')  # Which a run that resumes keeps.


class StatusFile:
    """The file, for the only process that trains in a directory.

    Args:
      output_dir: which exists; '' writes nothing, as in a worker.
      is_resumed: whether the directory has a checkpoint, so that the earlier status is of the same run.

    Attributes:
      tracker: of the loggers, which get the same; None without.
    """

    tracker: Tracker | None = None

    def __init__(self, output_dir: str = '', is_resumed: bool = False):
        self._output_dir, self._is_resumed = output_dir, is_resumed
        self._identity = paths.identify(output_dir)
        self._written = -float('inf')
        self._earlier = run_dir.read_status(output_dir) if output_dir else {}
        kept = {name: self._earlier[name] for name in _OF_RUN if self._earlier.get(name) is not None}
        self._values = status.new() | (kept if is_resumed else {'started': _time()})
        self._has_begun = False

    @property
    def state(self) -> State:
        return State(self._values['state'])

    def enter(self, state: State, reason: str = '') -> None:
        """Changes the state; a process that trains no more has no speed."""
        speed = {} if state in status.LIVING else {'examples/sec': None, 'seconds_left': None}
        self._write(state=state.value, reason=reason, **speed)
        if self.tracker and state not in status.LIVING:
            self.tracker.end(state.value, reason, has_signal=state is State.STOPPED)

    def begin(self, step: int, train_steps: int) -> None:
        """Enters training, at a step."""
        if self._is_resumed and not self._has_begun:  # A session may start several times in a process.
            self._values['resumed'] += 1
        self._has_begun = True
        self._values |= {'global_step': step, 'train_steps': train_steps}
        self.enter(State.TRAINING)

    def log(
        self,
        step: int,
        metrics: Mapping[str, float],
        speed: float | None,
        seconds_left: float | None,
        learning_rate: float | None = None,
    ) -> None:
        """Records a line of the log, which the file has after a second at most.

        Args:
          speed: examples per second.
        """
        if self.tracker:
            self.tracker.log(step, _numbers({**metrics, 'learning_rate': learning_rate, 'examples/sec': speed}))
        training = {'global_step': step, **_numbers(metrics)}
        self._values |= {'global_step': step, 'training': training}
        self._values |= {'examples/sec': speed and round(speed, 1), 'seconds_left': seconds_left and round(seconds_left, 1)}
        pause = _REMOTE_SECONDS if paths.is_remote(self._output_dir) else _SECONDS
        if time.monotonic() > self._written + pause:
            self._write(state=State.TRAINING.value)

    def evaluated(self, result: Mapping[str, Any]) -> None:
        """Records an evaluation, after which training continues."""
        self._write(state=State.TRAINING.value, global_step=result['global_step'], evaluation=dict(result))
        if self.tracker:
            self.tracker.evaluated(result)

    def refuse(self, reason: str) -> None:
        """Records that a mistake ended the process; before training begins, that changes nothing in an earlier run."""
        if self._earlier and not self._has_begun:
            files.write_json(status.status_path(self._output_dir), self._earlier)
        else:
            self.enter(State.FAILED, reason)

    def reach(self, step: int) -> None:
        """Records the last step."""
        self._values['global_step'] = step

    def _write(self, **changes):
        self._values |= changes
        if not self._output_dir:
            return
        paths.check_identity(self._output_dir, self._identity)
        files.write_json(status.status_path(self._output_dir), {**self._values, 'updated': _time()})
        self._written = time.monotonic()


def _numbers(metrics):
    return {name: files.to_json(value) for name, value in metrics.items()}


def _time():
    return status.now().isoformat(timespec='seconds')
