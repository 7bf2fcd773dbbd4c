"""The trials of a sweep: the trainer in child processes."""

from collections.abc import Mapping, Sequence
import dataclasses
import os
import subprocess
import time
from typing import Any

import optuna
import tensorflow.compat.v1 as tf

from estimator_trainer.common import processes
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import read_json, to_json
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import run_dir
from estimator_trainer.common.storage.metrics import Objective, read_metric
from estimator_trainer.common.sweep.space import decode
from estimator_trainer.hparams import build, merge

_POLL_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class TrialRunner:
    """Starts trials and reads their results.

    Each has the output_dir trial-NUMBER in the sweep's output_dir, with its hyper-parameters and its log. script is the
    trainer's path, flags are passed to all trials, params are the hyper-parameters that a trial's values override; split and
    objective select the metric; lock is a file descriptor kept open by every process, set by `search`.
    """

    script: str
    flags: Sequence[str]
    params: Mapping[str, Any]
    output_dir: str
    split: str
    objective: Objective
    lock: int = -1

    def directory(self, trial: optuna.Trial | optuna.trial.FrozenTrial) -> str:
        """Returns the output_dir of a trial."""
        return os.path.join(self.output_dir, f'trial-{trial.number}')

    def check(self, stop: StopOnSignal) -> None:
        """Makes a dry run with the hyper-parameters that trials override, which also prepares the data; `stop` may end it.

        Raises:
          UsageError: the flags are wrong.
          RunError: the dry run fails.
        """
        hparams, log = (os.path.join(self.output_dir, name) for name in ('dry_run.json', 'dry_run.txt'))
        build.save(self.params, hparams)
        with stop.defer_signals():
            process = self._start(hparams, log, '--schedule=dry_run')
            try:
                while process.poll() is None:
                    time.sleep(_POLL_SECONDS)
                    stop.exit_if_received()
            finally:
                process.terminate()
                process.wait()
        if process.returncode:
            error = UsageError if process.returncode == 2 else RunError
            raise error(f'a dry run failed: {processes.explain(log, process.returncode)}')

    def start(self, trial: optuna.Trial) -> subprocess.Popen:
        """Starts or resumes a trial, and returns its process.

        Raises:
          RunError: its directory has a run with other hyper-parameters.
        """
        directory = self.directory(trial)
        tf.logging.info('%s: %s', directory, ', '.join(f'{name}={to_json(value)}' for name, value in trial.params.items()))
        os.makedirs(directory, exist_ok=True)
        hparams = run_dir.hparams_path(directory)
        self._check_same(trial, hparams)
        self.save_hparams(trial, hparams)
        return self._start(hparams, os.path.join(directory, 'log.txt'), f'--output_dir={directory}')

    def read(self, trial: optuna.Trial) -> list[float]:
        """Returns the metric's values in a trial's evaluations so far."""
        return read_metric(self.directory(trial), self.split, self.objective.metric)

    def explain(self, trial: optuna.Trial, code: int) -> str:
        """Explains a failed trial's exit code, and names its log."""
        return processes.explain(os.path.join(self.directory(trial), 'log.txt'), code)

    def save_hparams(self, trial: optuna.Trial | optuna.trial.FrozenTrial, path: str) -> None:
        """Writes a trial's hyper-parameters as a set."""
        build.save(self._hparams(trial), path)

    def _hparams(self, trial):
        chosen = {name: decode(name, value, self.params) for name, value in trial.params.items()}
        return build.HParams(merge.apply(self.params, '--space', chosen))

    def _check_same(self, trial, path):
        """Raises RunError if the saved hyper-parameters differ. The trainer cannot notice: this file is its set."""
        if not os.path.exists(path):
            return
        try:
            expected = self._hparams(trial)
            found = build.differences(build.HParams(build.renamed(read_json(path), expected)), expected)
        except ValueError as error:
            found = str(error)
        if found:
            raise RunError(
                f'{os.path.dirname(path)} belongs to another sweep ({found}): delete it, or choose another --output_dir'
            )

    def _start(self, hparams, log_path, *flags):
        arguments = [self.script, *self.flags, f'--hparams_set={hparams}', *flags]
        return processes.start(arguments, log_path, stdout=subprocess.DEVNULL, pass_fds=[self.lock])
