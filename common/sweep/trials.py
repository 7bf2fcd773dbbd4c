"""The trials of a sweep: runs of the trainer in child processes."""

from collections.abc import Mapping, Sequence
import dataclasses
import os
from typing import Any

import optuna
import tensorflow.compat.v1 as tf

from estimator_trainer.common import processes
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import read_json, stamp, to_json
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import run_dir
from estimator_trainer.common.storage.metrics import read_metric
from estimator_trainer.common.storage.metrics_table import metrics_path
from estimator_trainer.common.storage.objective import Objective
from estimator_trainer.common.sweep.space import decode
from estimator_trainer.common.sweep.starts import Process, Start
from estimator_trainer.common.sweep.study import preload
from estimator_trainer.hparams import build, comparison, merge
from estimator_trainer.hparams.defaults import DEFAULTS

AnyTrial = optuna.Trial | optuna.trial.FrozenTrial


@dataclasses.dataclass(frozen=True)
class TrialRunner:
    """Starts the runs of trials, one for each seed, and reads their results.

    A trial has the directory trial-NUMBER in the sweep's output_dir. That is the output_dir of its run; with several seeds, it
    has an output_dir for each, seed-SEED. flags are passed to all runs, params are the
    hyper-parameters that a trial's values override; split and objective select the metric; num_seeds is the number of runs,
    with the seed of params and the following ones; start_trainer is set by `search`.
    """

    flags: Sequence[str]
    params: Mapping[str, Any]
    output_dir: str
    split: str
    objective: Objective
    num_seeds: int = 1
    start_trainer: Start | None = None
    _known: dict[str, tuple[Any, list[float]]] = dataclasses.field(default_factory=dict)  # By the state of the file.
    _log_ends: dict[str, int] = dataclasses.field(default_factory=dict)  # Before the run that goes on.

    def directory(self, trial: AnyTrial) -> str:
        """Returns the directory of a trial."""
        return os.path.join(self.output_dir, f'trial-{trial.number}')

    def seed(self, index: int) -> int:
        """Returns the seed of a trial's run."""
        return self.params['seed'] + index

    def check(self, stop: StopOnSignal) -> None:
        """Makes a dry run with the hyper-parameters that trials override, which also prepares the data; `stop` may end it.

        Raises:
          UsageError: the flags are wrong.
          RunError: the dry run fails.
        """
        hparams, log = (os.path.join(self.output_dir, name) for name in ('dry_run.json', 'dry_run.txt'))
        build.save(self.params, hparams)
        with stop.defer_signals():
            output_dir = f'--output_dir={os.path.join(self.output_dir, "dry_run")}'  # Not the default, which may have a run.
            code = stop.wait_for(self._start(hparams, log, '--schedule=dry_run', output_dir), preload)
        if code:
            raise processes.error_of(code)(f'a dry run failed: {self._explain(log, code)}')

    def start(self, trial: optuna.Trial, index: int = 0) -> Process:
        """Starts or resumes a run of a trial, and returns its process.

        Raises:
          RunError: its directory has a run with other hyper-parameters.
        """
        directory = self._run_directory(trial, index)
        tf.logging.info('%s: %s', directory, ', '.join(f'{name}={to_json(value)}' for name, value in trial.params.items()))
        os.makedirs(directory, exist_ok=True)
        path, hparams = run_dir.hparams_path(directory), self._hparams(trial, index)
        if os.path.exists(path):
            _check_same(path, hparams, trial.params)
        else:
            build.save(hparams, path)
        return self._start(path, os.path.join(directory, 'log.txt'), f'--output_dir={directory}')

    def read(self, trial: optuna.Trial, index: int = 0) -> list[float]:
        """Returns the metric's values in the evaluations of a run so far."""
        directory = self._run_directory(trial, index)
        path = metrics_path(directory)
        state = stamp(path) if os.path.exists(path) else None
        if directory not in self._known or self._known[directory][0] != state:
            self._known[directory] = state, read_metric(directory, self.split, self.objective.metric)
        return self._known[directory][1]

    def has_result(self, trial: optuna.Trial, index: int = 0) -> bool:
        """Whether a run has saved its result, as it does at its end."""
        return os.path.exists(run_dir.results_path(self._run_directory(trial, index)))

    def explain(self, trial: optuna.Trial, index: int, code: int) -> str:
        """Explains the exit code of a failed run, and names its log."""
        return self._explain(os.path.join(self._run_directory(trial, index), 'log.txt'), code)

    def save_hparams(self, trial: AnyTrial, path: str) -> None:
        """Writes a trial's hyper-parameters as a set, with its first seed."""
        build.save(self._hparams(trial), path)

    def chosen(self, trial: AnyTrial) -> dict[str, Any]:
        """Returns the hyper-parameters that a trial has chosen, with values of their types."""
        return {name: decode(name, value, self.params) for name, value in trial.params.items()}

    def _hparams(self, trial, index=0):
        seed = {'seed': self.seed(index)} if index else {}
        return build.HParams(merge.apply(self.params, '--space', {**self.chosen(trial), **seed}))

    def _run_directory(self, trial, index):
        directory = self.directory(trial)
        return directory if self.num_seeds == 1 else os.path.join(directory, f'seed-{self.seed(index)}')

    def _explain(self, log_path, code):
        return processes.explain(log_path, code, self._log_ends.get(log_path, 0))

    def _start(self, hparams, log_path, *flags):
        assert self.start_trainer
        self._log_ends[log_path] = processes.log_end(log_path)
        return self.start_trainer([*self.flags, f'--hparams_set={hparams}', *flags], log_path)


def _check_same(path, expected, chosen):
    """Raises RunError if saved hyper-parameters differ. The trainer cannot notice: this file is its set."""
    # Of the modules' own, the trainer has saved what the data sets, such as num_classes, in place of 0 or an empty value.
    of_data = [name for name, value in expected.items() if not value and name not in DEFAULTS and name not in chosen]
    try:
        found = comparison.differences(build.HParams(build.renamed(read_json(path), expected)), expected, of_data)
    except ValueError as error:
        found = str(error)
    if found:
        raise RunError(f'{os.path.dirname(path)} belongs to another sweep ({found}): delete it, or choose another --output_dir')
