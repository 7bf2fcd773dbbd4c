"""The messages of a run to the loggers of --loggers: see common/loggers/interface.py.

Each logger has a thread, which keeps what is not logged yet, and calls the logger in a process of its own. So a logger neither
blocks nor breaks the training, nor takes its random numbers. output_dir/loggers/NAME.json has the id of the tracked run, and
the last steps that it has: a run that resumes logs what is later, first from metrics.csv.
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import os
import time
from typing import Any

from estimator_trainer.common.monitoring.logger_thread import LoggerThread, Row
from estimator_trainer.common.storage import run_dir

# For the rest at the end of a run; after a signal, less than a process has to exit.
_SECONDS, _SECONDS_AFTER_SIGNAL = 30, 2


class Tracker:
    """The loggers of a run.

    Args:
      modules: {name of the logger: its module}.
      run: the attributes of an `interface.Run`, without its id.
      suffix: of the names of the files in output_dir/loggers.
      earlier: the rows that metrics.csv has, ordered by step.
      find_artifacts: returns those of the run at its end.
      begins: whether the run begins now, not with its first row.
    """

    def __init__(
        self,
        modules: Mapping[str, str],
        run: Mapping[str, Any],
        suffix: str = '',
        earlier: Sequence[Row] = (),
        find_artifacts: Callable[[], Mapping[str, str]] = dict,
        begins: bool = True,
    ):
        self._find_artifacts = find_artifacts
        directory = run_dir.loggers_dir(run['output_dir'])
        self._threads = [
            LoggerThread(name, module, run, os.path.join(directory, f'{name}{suffix}.json'), earlier, begins)
            for name, module in modules.items()
        ]
        for thread in self._threads:
            thread.start()

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Logs a line of the training's log."""
        self._add(row_of_training(step, metrics))

    def evaluated(self, result: Mapping[str, Any]) -> None:
        """Logs an evaluation, {'global_step': int, split: {metric: value}}."""
        self._add(row_of_evaluation(result))

    def _add(self, row):
        for thread in self._threads:
            thread.add(row)

    def end(self, state: str, reason: str, has_signal: bool = False) -> None:
        """Tells how the run has ended, and waits until the loggers have the rest, for a limited time.

        Args:
          state, reason: see `interface.Logger.end`.
          has_signal: whether this process must exit soon, because of a signal.
        """
        artifacts: Mapping[str, str] = {}
        with contextlib.suppress(Exception):  # Those of a run that has failed may be broken.
            artifacts = self._find_artifacts()
        for thread in self._threads:
            thread.end(state, reason, artifacts)
        until = time.monotonic() + (_SECONDS_AFTER_SIGNAL if has_signal else _SECONDS)
        for thread in self._threads:
            thread.close(max(until - time.monotonic(), 0))


def row_of_training(step: int, metrics: Mapping[str, Any]) -> Row:
    """Returns the Row of a log line."""
    return Row('training', step, _numbers({'train': metrics}))


def row_of_evaluation(result: Mapping[str, Any]) -> Row:
    """Returns the Row of an evaluation, {'global_step': int, split: {metric: value}}."""
    return Row('evaluation', result['global_step'], _numbers({k: v for k, v in result.items() if k != 'global_step'}))


def _numbers(splits):
    """Returns {name: float} of the metrics that are numbers, of all splits."""
    named = {f'{split}/{name}': value for split, metrics in splits.items() for name, value in metrics.items()}
    return {name: float(value) for name, value in named.items() if type(value) in (int, float)}
