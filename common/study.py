"""An Optuna study in a file, whose trials are trainings in processes of their own, several at once."""

import contextlib
import dataclasses
import fcntl
import json
import os
import signal
import subprocess
import time
import typing

import optuna
from optuna.trial import TrialState
import sqlalchemy.exc
import tensorflow.compat.v1 as tf

from common import run_dir
from common.errors import RunError, UsageError
from hparams.build import differences

_NAME = 'sweep'
_POLL_SECONDS = 0.2
_STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


@contextlib.contextmanager
def lock(directory):
    """Keeps other sweeps from the directory, and gives the lock's file descriptor.

    A process that inherits it keeps the lock for as long as it lives: the trainings of a sweep that was killed do.

    Raises:
      RunError: another process has it.
    """
    with open(os.path.join(directory, 'study.lock'), 'w', encoding='utf-8') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f'--output_dir={directory}: another sweep, or a training that it started, is at work there: wait '
                           'for it, or choose another') from None
        yield file.fileno()


def open_study(directory, goal, seed, setup):
    """Opens the study of a directory, study.db, or makes it.

    Bad trials are pruned by the median of the others: `optuna.pruners.MedianPruner`, from the sixth trial on.

    Args:
      directory: str, local.
      goal: Goal, of a trial's best evaluation.
      seed: int.
      setup: dict of what trials must have in common to be compared.

    Returns:
      optuna.Study.

    Raises:
      UsageError: the study was made with another setup.
      RunError: the file is damaged.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = os.path.join(directory, 'study.db')
    try:
        study = optuna.create_study(storage=f'sqlite:///{path}', study_name=_NAME, pruner=optuna.pruners.MedianPruner(),
                                    direction='maximize' if goal.is_max else 'minimize', load_if_exists=True)
        # By the number of trials, too: the same seed again would draw what it drew at first.
        study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials), constant_liar=True)
    except sqlalchemy.exc.DatabaseError as error:
        raise RunError(f'{path}: cannot be read: {error.orig}: choose another --output_dir') from None
    setup = json.loads(json.dumps(setup))  # As the study keeps it, without tuples.
    found = differences(study.user_attrs.get('setup', setup), setup)
    if found:
        raise UsageError(f'{path}: {found}: give the same again, or choose another --output_dir')
    study.set_user_attr('setup', setup)
    return study


@dataclasses.dataclass
class _Training:
    trial: optuna.Trial
    process: subprocess.Popen
    num_reported: int  # Evaluations that the study knows.
    is_pruned: bool = False


def run_trials(study, space, goal, num_trials, jobs, start, read):
    """Runs trials until there are num_trials in the study, those first that an earlier sweep was stopped amid.

    Whatever ends this ends the trainings, each after a checkpoint.

    Args:
      study: optuna.Study.
      space: {name: optuna.distributions.BaseDistribution}.
      goal: Goal; a trial's value is that of its best evaluation.
      num_trials: int.
      jobs: int, how many trainings to run at once.
      start: function of an optuna.Trial that returns the subprocess.Popen of its training.
      read: function of an optuna.Trial that returns the list of what it has been evaluated to so far, floats.

    Yields:
      The optuna.trial.FrozenTrial of each that has ended: complete, pruned or failed.

    Raises:
      RunError: somebody else has stopped a training.
    """
    waiting = _stopped_trials(study, space)
    num_new = num_trials - len(study.trials)
    running = []
    try:
        while True:
            while len(running) < jobs and (waiting or num_new > 0):
                if waiting:
                    trial = waiting.pop(0)
                else:
                    trial, num_new = study.ask(space), num_new - 1
                known = study.trials[trial.number].intermediate_values
                running.append(_Training(trial, start(trial), len(known)))
            if not running:
                return
            time.sleep(_POLL_SECONDS)
            for training in list(running):
                has_ended = training.process.poll() is not None  # Before reading, so that nothing is written after.
                values = read(training.trial)
                _follow(training, values)
                if has_ended:
                    running.remove(training)
                    yield _tell(study, training, values, goal)
    finally:
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
    new = values[training.num_reported:]
    for value in new:  # By their number: steps would not do, as a space may change the batch size.
        training.num_reported += 1
        training.trial.report(value, training.num_reported)
    if new and training.process.poll() is None and training.trial.should_prune():
        training.is_pruned = True
        training.process.terminate()


def _tell(study, training, values, goal):
    code = training.process.returncode
    best = goal.best(values)
    if training.is_pruned:
        return study.tell(training.trial, state=TrialState.PRUNED)
    if code in _STOPPED:
        raise RunError(f'trial {training.trial.number} was stopped: the same command goes on')
    if code or best is None:
        return study.tell(training.trial, state=TrialState.FAIL)
    return study.tell(training.trial, best)
