"""An Optuna study in a file, whose trials are trainings in processes of their own, several at once."""

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import time

import optuna
from optuna.trial import TrialState
import sqlalchemy
import tensorflow.compat.v1 as tf

from common import files
from common.errors import RunError, UsageError
from hparams.build import differences, renamed
from hparams.defaults import DEFAULTS

_FILE, _NAME = 'study.db', 'sweep'
_POLL_SECONDS = 0.2
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPED = [code for number in _STOPS for code in (128 + number, -number)]  # The latter while Python starts.


def lock(directory):
    """Returns a context that keeps other sweeps from the directory, and gives the lock's file descriptor.

    A process that inherits it keeps the lock for as long as it lives: the trainings of a sweep that was killed do.

    Raises:
      RunError: when it is entered, and another process has it.
    """
    return files.lock(
        os.path.join(directory, 'study.lock'),
        lambda holder: (
            f'--output_dir={directory}: another sweep, or a training that it started, is running there: wait for it, or choose '
            'another'
        ),
    )


def open_study(directory, objective, seed, setup):
    """Opens the study of a directory, or makes it.

    Bad trials are pruned by the median of the others: `optuna.pruners.MedianPruner`, once five are complete.

    Args:
      directory: str, local.
      objective: Objective, of a trial's best evaluation.
      seed: int.
      setup: dict of what trials must have in common to be compared, as JSON can say it.

    Returns:
      optuna.Study.

    Raises:
      UsageError: the study was made with another setup.
      RunError: the file is damaged, or of something else.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = os.path.join(directory, _FILE)
    setup = json.loads(files.dumps(setup))  # Without tuples, as the study keeps it.
    with _telling_storage_errors(path):
        study = optuna.create_study(
            storage=str(sqlalchemy.URL.create('sqlite', database=path)),
            study_name=_NAME,
            pruner=optuna.pruners.MedianPruner(),
            load_if_exists=True,
            direction='maximize' if objective.is_max else 'minimize',
        )
        # By the number of trials, too: the same seed again would draw what it drew at first.
        study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials), constant_liar=True)
        known = {key: DEFAULTS[key] for key in DEFAULTS.keys() & setup.keys()}  # Older studies know fewer of them.
        found = differences({**known, **renamed(study.user_attrs.get('setup', setup))}, setup)
        if found:
            raise UsageError(f'{path}: {found}: use the same values, or choose another --output_dir')
        study.set_user_attr('setup', setup)
    return study


@contextlib.contextmanager
def _telling_storage_errors(path):
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, RuntimeError) as error:
        while error.__cause__:  # SQLite's own is the one that says what is wrong.
            error = error.__cause__
        cause = (str(error) or repr(error)).splitlines()[0]
        raise RunError(f'{path}: {cause}: check that it is not locked or corrupt, or choose another --output_dir') from None


@dataclasses.dataclass
class _Training:
    trial: optuna.Trial
    process: subprocess.Popen
    num_reported: int  # Evaluations that the study knows.
    is_pruned: bool = False


def run_trials(study, space, objective, num_trials, jobs, trainings, stop):
    """Runs trials until there are num_trials in the study, those first that an earlier sweep was stopped amid.

    Whatever ends this ends the trainings, each after a checkpoint.

    Args:
      study: optuna.Study.
      space: {name: optuna.distributions.BaseDistribution}.
      objective: Objective; a trial's value is that of its best evaluation.
      num_trials: int.
      jobs: int, how many trainings to run at once.
      trainings: TrialRunner, or what has its `start`, `read` and `explain`.
      stop: StopOnSignal; a signal ends the process.

    Yields:
      The optuna.trial.FrozenTrial of each that has ended: complete, or pruned, with a user attribute `error` where it
      failed.

    Raises:
      RunError: somebody else has stopped a training, or the study's file fails.
    """
    running = []
    with _telling_storage_errors(_FILE), stop.defer_signals():
        num_new = num_trials - len([trial for trial in study.trials if trial.state != TrialState.WAITING])
        trials = itertools.chain(_stopped_trials(study, space), (study.ask(space) for _ in range(num_new)))
        try:
            while True:
                for trial in itertools.islice(trials, jobs - len(running)):
                    known = study.trials[trial.number].intermediate_values
                    running.append(_Training(trial, trainings.start(trial), len(known)))
                if not running:
                    return
                time.sleep(_POLL_SECONDS)
                stop.exit_if_received()
                for training in list(running):
                    has_ended = training.process.poll() is not None  # Before reading, so that nothing is written after.
                    values = trainings.read(training.trial)
                    _follow(training, values)
                    if has_ended:
                        running.remove(training)
                        yield _tell(study, training, values, objective, trainings)
        finally:
            if running:
                tf.logging.info('Stopping %d trials after saving a checkpoint; rerun the command to resume.', len(running))
            for training in running:
                training.process.terminate()
            for training in running:
                training.process.wait()


def _stopped_trials(study, space):
    """Returns the trials that are not at their end, as optuna.Trial, to go on with."""
    stopped = []
    for frozen in study.get_trials(states=[TrialState.RUNNING]):
        if frozen.params.keys() == space.keys():
            stopped.append(optuna.Trial(study, frozen._trial_id))  # pylint: disable=protected-access; it has no other name.
        else:  # Before all of its values were drawn.
            study.tell(frozen.number, state=TrialState.FAIL)
    return stopped


def _follow(training, values):
    """Tells the study of new evaluations, and stops a training that is worse than others were at its point."""
    new = values[training.num_reported :]
    for value in new:  # By their number: steps would not do, as a space may change the batch size.
        training.num_reported += 1
        training.trial.report(value, training.num_reported)
    if new and training.process.poll() is None and training.trial.should_prune():
        training.is_pruned = True
        training.process.terminate()


def _tell(study, training, values, objective, trainings):
    trial, code, best = training.trial, training.process.returncode, objective.best(values)
    if training.is_pruned:
        return study.tell(trial, state=TrialState.PRUNED)
    if code in _STOPPED:
        raise RunError(f'trial {trial.number} was interrupted: rerun the command to resume')
    if code or best is None:
        # Not FAIL, of which the sampler learns nothing: most often the values are to blame, as where a loss diverges.
        trial.set_user_attr('error', trainings.explain(trial, code) if code else f'{objective.metric} was never a number')
        return study.tell(trial, state=TrialState.PRUNED)
    return study.tell(trial, best)
