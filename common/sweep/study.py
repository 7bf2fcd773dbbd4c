"""An Optuna study in a file, whose trials run in separate processes, several in parallel."""

from collections.abc import Generator, Mapping
import contextlib
import dataclasses
import itertools
import json
import os
import subprocess
import time
from typing import Any

import optuna
from optuna.trial import TrialState
import sqlalchemy
import tensorflow.compat.v1 as tf

from estimator_trainer.common import files, locks
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.processes import was_stopped
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage.metrics import Objective
from estimator_trainer.common.sweep.trials import TrialRunner
from estimator_trainer.hparams.build import differences, renamed
from estimator_trainer.hparams.defaults import DEFAULTS

_FILE, _NAME = 'study.db', 'sweep'
_POLL_SECONDS = 0.2
_ADDED_FLAGS = {'--warm_start_names': [], '--warm_start_exclude': ''}
_ADDED_CHECKS = ('--precision', '--xla', '--num_gpus', '--num_towers')  # Studies of older versions do not say what they had.


def lock(directory: str) -> contextlib.AbstractContextManager[int]:
    """Returns a context that locks the directory against other sweeps, and yields the lock's file descriptor.

    A child process that inherits it holds the lock as long as it lives: so do the runs of a killed sweep.

    Raises:
      RunError: on entering the context, if another process holds the lock.
    """
    return locks.lock(
        os.path.join(directory, 'study.lock'),
        lambda holder: (
            f'--output_dir={directory}: another sweep, or one of its runs, is active there: wait for it, or choose another'
        ),
    )


def open_study(directory: str, objective: Objective, seed: int, setup: Mapping[str, Any]) -> optuna.Study:
    """Opens the study of a directory, or creates it.

    Trials worse than the median of the others are pruned: `optuna.pruners.MedianPruner`, once five are complete.

    Args:
      directory: must be local.
      objective: applies to a trial's best evaluation.
      seed: of the sampler.
      setup: the setup that trials must share to be comparable; JSON-serializable.

    Raises:
      UsageError: the study was created with another setup.
      RunError: the file is corrupt, or is not a study.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = os.path.join(directory, _FILE)
    setup = json.loads(files.dumps(setup))  # Without tuples, like the stored setup.
    with _reporting_storage_errors(path):
        study = optuna.create_study(
            storage=str(sqlalchemy.URL.create('sqlite', database=path)),
            study_name=_NAME,
            pruner=optuna.pruners.MedianPruner(),
            load_if_exists=True,
            direction='maximize' if objective.is_max else 'minimize',
        )
        # The seed includes the number of trials: otherwise, a resumed study would sample the same values again.
        study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials), constant_liar=True)
        defaults = {**DEFAULTS, **_ADDED_FLAGS, **{name: setup[name] for name in _ADDED_CHECKS if name in setup}}
        known = {key: defaults[key] for key in defaults.keys() & setup.keys()}  # Studies of older versions lack some.
        found = differences({**known, **renamed(study.user_attrs.get('setup', setup), setup)}, setup)
        if found:
            raise UsageError(f'{path}: {found}: use the same values, or choose another --output_dir')
        study.set_user_attr('setup', setup)
    return study


@contextlib.contextmanager
def _reporting_storage_errors(path):
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, RuntimeError) as error:
        root: BaseException = error
        while root.__cause__:  # SQLite's own error has the informative message.
            root = root.__cause__
        cause = (str(root) or repr(root)).splitlines()[0]
        raise RunError(f'{path}: {cause}: check that it is not locked or corrupt, or choose another --output_dir') from None


@dataclasses.dataclass
class _Training:
    trial: optuna.Trial
    process: subprocess.Popen
    num_reported: int  # Evaluations already reported to the study.
    is_pruned: bool = False


def run_trials(
    study: optuna.Study,
    space: dict[str, optuna.distributions.BaseDistribution],
    objective: Objective,
    num_trials: int,
    jobs: int,
    trial_runner: TrialRunner,
    stop: StopOnSignal,
) -> Generator[optuna.trial.FrozenTrial, None, None]:
    """Runs trials until the study has num_trials; first resumes those of an interrupted sweep.

    On any exit, stops the running trials, each after saving a checkpoint.

    Args:
      study: from `open_study`.
      objective: determines a trial's value, that of its best evaluation.
      num_trials: total, including those of earlier sweeps.
      jobs: number of trials to run in parallel.
      trial_runner: any object with the methods `start`, `read` and `explain`.
      stop: its signal ends the process.

    Yields:
      Each finished trial: complete or pruned; with a user attribute `error` if it failed.

    Raises:
      RunError: another process has stopped a trial, or accessing the study's file fails.
    """
    running: list[_Training] = []
    with _reporting_storage_errors(_FILE), stop.defer_signals():
        num_new = num_trials - len([trial for trial in study.trials if trial.state != TrialState.WAITING])
        trials = itertools.chain(_stopped_trials(study, space), (study.ask(space) for _ in range(num_new)))
        try:
            while True:
                for trial in itertools.islice(trials, jobs - len(running)):
                    reported = study.trials[trial.number].intermediate_values
                    running.append(_Training(trial, trial_runner.start(trial), len(reported)))
                if not running:
                    return
                time.sleep(_POLL_SECONDS)
                stop.exit_if_received()
                for training in list(running):
                    has_ended = training.process.poll() is not None  # Before reading, so that nothing is written afterwards.
                    values = trial_runner.read(training.trial)
                    _report(training, values)
                    if has_ended:
                        running.remove(training)
                        yield _finish(study, training, values, objective, trial_runner)
        finally:
            if running:
                tf.logging.info('Stopping %d trials after saving a checkpoint; rerun the command to resume.', len(running))
            for training in running:
                training.process.terminate()
            for training in running:
                training.process.wait()


def _stopped_trials(study, space):
    """Returns the interrupted trials as optuna.Trial, for resuming."""
    stopped = []
    for frozen in study.get_trials(states=[TrialState.RUNNING]):
        if frozen.params.keys() == space.keys():
            stopped.append(optuna.Trial(study, frozen._trial_id))  # pylint: disable=protected-access; there is no public name.
        else:  # Interrupted before all its values were sampled.
            study.tell(frozen.number, state=TrialState.FAIL)
    return stopped


def _report(training, values):
    """Reports new evaluations to the study, and stops a trial to prune."""
    new = values[training.num_reported :]
    for value in new:  # Counted in evaluations, as steps are not comparable if the space changes the batch size.
        training.num_reported += 1
        training.trial.report(value, training.num_reported)
    if new and training.process.poll() is None and training.trial.should_prune():
        training.is_pruned = True
        training.process.terminate()


def _finish(study, training, values, objective, trial_runner):
    trial, code, best = training.trial, training.process.returncode, objective.best(values)
    if training.is_pruned:
        return study.tell(trial, state=TrialState.PRUNED)
    if was_stopped(code):
        raise RunError(f'trial {trial.number} was interrupted: rerun the command to resume')
    if code or best is None:
        # Not FAIL, which the sampler ignores: the cause is mostly the hyper-parameters, as when the loss diverges.
        trial.set_user_attr('error', trial_runner.explain(trial, code) if code else f'{objective.metric} was never a number')
        return study.tell(trial, state=TrialState.PRUNED)
    return study.tell(trial, best)
