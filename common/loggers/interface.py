"""The interface of a module of `--loggers=my_package.my_logger`: a class `Logger`, without arguments, with three methods.

    class Logger:
        def start(self, run):
            self._file = open(f'{run.output_dir}/my_log.txt', 'a')
            return run.id or 'my first run'

        def log(self, step, metrics):
            print(step, metrics, file=self._file, flush=True)

        def end(self, state, reason, artifacts):
            print(state, reason, artifacts, file=self._file, flush=True)

Each logger works in a process of its own, beside the training, which it can neither slow nor break: what a method raises, and
the end of the process, is one warning. It is called from one thread, in the order of the steps. Its process has the training's
sys.path and environment, and no TensorFlow unless it imports it. It ignores SIGINT, SIGTERM and SIGHUP, which are for the
training. What it prints goes to stderr.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any, Protocol


@dataclasses.dataclass(frozen=True)
class Run:
    """A run, as a logger gets it.

    Attributes:
      id: what `start` returned when this run began; None if it begins now.
      name: the last two parts of output_dir, such as 'mnist/alexnet'.
      group: the output_dir of the sweep that the run is a trial of; '' for other runs.
      output_dir: an absolute path.
      hparams: all hyper-parameters, {name: value of JSON}.
      flags: those that differ from their defaults, likewise.
    """

    id: str | None
    name: str
    group: str
    output_dir: str
    hparams: Mapping[str, Any]
    flags: Mapping[str, Any]


class Logger(Protocol):
    """The three methods; each may raise any Exception."""

    def start(self, run: Run) -> str:
        """Begins to track a run, or goes on with the tracked run `run.id`; returns its id, which the run keeps."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds the numbers of a log line, or of an evaluation.

        No line and no evaluation comes twice: what a resumed run computes again is left out. After a crash, those that were not
        logged yet come first.

        Args:
          step: the global step.
          metrics: {name: float}, such as train/loss, train/learning_rate and train/examples/sec; eval/accuracy.
        """

    def end(self, state: str, reason: str, artifacts: Mapping[str, str]) -> None:
        """Ends this process's part of the run.

        Args:
          state: 'finished', 'failed' or 'stopped'.
          reason: the error, in a line, or the name of the signal; '' if finished.
          artifacts: {'best_checkpoint': its path without suffix, 'report': the path of report.html}, those that there are.
        """
