"""The trainings of a sweep's trials: the trainer in processes of its own."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
import typing

import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.files import read_json, to_json
from common.storage import run_dir
from common.storage.metrics import Objective, read_metric
from common.sweep.space import decode
from hparams import build

_POLL_SECONDS = 0.1
# What the trainer says, or Python: 'trainer.py: ...', 'ValueError: ...', 'a.b.ResourceExhaustedError: ...'.
_MISTAKE = re.compile(r'trainer\.py: .*|[\w.]*(Error|Exception)\b.*')


@dataclasses.dataclass(frozen=True)
class TrialRunner:
    """Starts and reads them.

    Each has the output_dir trial-NUMBER in the sweep's, and there its hyper-parameters and its log. script is the trainer's
    path, flags are a list of str for all of them, params the HParams that a trial's values take the places of; split and
    objective say which metric counts; lock is a file descriptor that every process keeps open.
    """

    script: str
    flags: typing.Sequence[str]
    params: typing.Mapping
    output_dir: str
    split: str
    objective: Objective
    lock: int

    def directory(self, trial):
        """Returns the output_dir of an optuna.Trial."""
        return os.path.join(self.output_dir, f'trial-{trial.number}')

    def check(self, stop):
        """Makes a dry run with the hyper-parameters that the trials begin with; the data is ready then.

        Raises:
          UsageError: the flags are wrong.
          RunError: a training fails.
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
            raise error(f'a dry run failed: {_explain(log, process.returncode)}')

    def start(self, trial):
        """Starts the training of an optuna.Trial, or goes on with it, and returns its subprocess.Popen.

        Raises:
          RunError: there is one with other hyper-parameters.
        """
        directory = self.directory(trial)
        tf.logging.info('%s: %s', directory, ', '.join(f'{name}={to_json(value)}' for name, value in trial.params.items()))
        os.makedirs(directory, exist_ok=True)
        hparams = run_dir.hparams_path(directory)
        self._check_same(trial, hparams)
        self.save_hparams(trial, hparams)
        return self._start(hparams, os.path.join(directory, 'log.txt'), f'--output_dir={directory}')

    def read(self, trial):
        """Returns what the training of an optuna.Trial has been evaluated to so far, list of float."""
        return read_metric(self.directory(trial), self.split, self.objective.metric)

    def explain(self, trial, code):
        """Returns why the training of an optuna.Trial failed with an exit code, with the path of its log."""
        return _explain(os.path.join(self.directory(trial), 'log.txt'), code)

    def save_hparams(self, trial, path):
        """Writes the hyper-parameters of an optuna.Trial as a set."""
        build.save(self._hparams(trial), path)

    def _hparams(self, trial):
        chosen = {name: decode(name, value, self.params) for name, value in trial.params.items()}
        return build.HParams(build.override(self.params, '--space', chosen))

    def _check_same(self, trial, path):
        """The trainer cannot: it is given this file."""
        if not os.path.exists(path):
            return
        try:
            found = build.differences(build.HParams(build.renamed(read_json(path))), self._hparams(trial))
        except ValueError as error:
            found = str(error)
        if found:
            raise RunError(
                f'{os.path.dirname(path)} belongs to another sweep ({found}): delete it, or choose another --output_dir'
            )

    def _start(self, hparams, log_path, *flags):
        with open(log_path, 'ab') as log:
            # In a session of its own Ctrl-C does not reach it: the sweep stops it, once, so that it saves a checkpoint.
            return subprocess.Popen(
                [sys.executable, self.script, *self.flags, f'--hparams_set={hparams}', *flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[self.lock],
                start_new_session=True,
            )


def _explain(log_path, code):
    with open(log_path, encoding='utf-8', errors='replace') as log:
        mistakes = [line for line in log.read().splitlines() if _MISTAKE.match(line)]
    if code < 0:
        cause = f'was killed by {signal.Signals(-code).name}'
    else:
        cause = mistakes[-1] if mistakes else f'exit code {code}'
    return f'{cause} (log: {log_path})'
