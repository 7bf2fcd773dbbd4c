"""The trainings of a sweep's trials: the trainer in processes of its own."""

import dataclasses
import os
import subprocess
import sys
import typing

import tensorflow.compat.v1 as tf

from common import run_dir
from common.errors import RunError, UsageError
from common.files import read_json
from common.goal import Goal
from common.schedules import to_json
from hparams import build
from hparams.space import decode


@dataclasses.dataclass(frozen=True)
class Trainings:
    """Starts and reads them.

    Each has the output_dir trial-NUMBER in the sweep's, and there its hyper-parameters and its log. script is the trainer's
    path, flags are a list of str for all of them, params the HParams that a trial's values take the places of; split and
    goal say which metric counts; lock is a file descriptor that every process keeps open.
    """

    script: str
    flags: typing.Sequence[str]
    params: typing.Mapping
    output_dir: str
    split: str
    goal: Goal
    lock: int

    def directory(self, trial):
        """Returns the output_dir of an optuna.Trial."""
        return os.path.join(self.output_dir, f'trial-{trial.number}')

    def check(self):
        """Makes a dry run with the hyper-parameters that the trials begin with; the data is ready then.

        Raises:
          UsageError: the flags are wrong.
          RunError: a training fails.
        """
        build.save(self.params, run_dir.hparams_path(self.output_dir))
        process = self._start(self.output_dir, '--schedule=dry_run')
        try:
            code = process.wait()
        finally:
            process.kill()
        if code:
            kind = UsageError if code == 2 else RunError
            raise kind(f'a dry run failed: {self._last_line(self.output_dir)}')

    def start(self, trial):
        """Starts the training of an optuna.Trial and returns its subprocess.Popen."""
        directory = self.directory(trial)
        chosen = {name: decode(name, value, self.params) for name, value in trial.params.items()}
        os.makedirs(directory, exist_ok=True)
        tf.logging.info('%s: %s', directory, ', '.join(f'{name}={to_json(value)}' for name, value in sorted(chosen.items())))
        build.save(build.override(self.params, '--space', chosen), run_dir.hparams_path(directory))
        return self._start(directory, f'--output_dir={directory}')

    def read(self, trial):
        """Returns what the training of an optuna.Trial has been evaluated to so far, list of float."""
        return run_dir.read_metric(self.directory(trial), self.split, self.goal.metric)

    def error(self, trial):
        """Returns why the training of an optuna.Trial failed, with the path of its log."""
        directory = self.directory(trial)
        return f'{self._last_line(directory)} (more in {_log_path(directory)})'

    def save_hparams(self, trial, path):
        """Writes the hyper-parameters of an optuna.Trial as a set."""
        build.save(read_json(run_dir.hparams_path(self.directory(trial))), path)

    def _start(self, directory, *flags):
        command = [sys.executable, self.script, *self.flags, f'--hparams_set={run_dir.hparams_path(directory)}', *flags]
        with open(_log_path(directory), 'ab') as log:
            # In a session of its own Ctrl-C does not reach it: the sweep stops it, once, so that it saves a checkpoint.
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                                    pass_fds=[self.lock], start_new_session=True)

    def _last_line(self, directory):
        with open(_log_path(directory), encoding='utf-8', errors='replace') as log:
            lines = log.read().strip().splitlines()
        return lines[-1] if lines else 'it said nothing'


def _log_path(directory):
    return os.path.join(directory, 'log.txt')
