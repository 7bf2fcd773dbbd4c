"""The runs of folds below one output_dir, each in a process of its own; several run in parallel. Resumes those that are left.

folds.json has what the runs must share, and the flags with which they began.
"""

from collections import deque
from collections.abc import Mapping, Sequence
import dataclasses
import json
import os
import time
import types
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import processes
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import dumps, read_json, write_json
from estimator_trainer.common.paths import FOLDS as FOLDS_FILE
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import run_dir
from estimator_trainer.common.storage.status import State
from estimator_trainer.common.sweep import shared_data
from estimator_trainer.common.sweep.starts import Process, Start, stop_all
from estimator_trainer.hparams import build, comparison
from estimator_trainer.hparams.defaults import DEFAULTS

_POLL_SECONDS = 0.02
COUNT, SETUP, FLAGS, HPARAMS = 'folds', 'setup', 'flags', 'hparams'  # Keys of folds.json.
DATA = 'data'  # A further one, which files of older versions lack.
_CURES = 'choose another --output_dir', 'give --overwrite'  # Of other data.


def path_of(output_dir: str) -> str:
    """Returns the path of folds.json."""
    return os.path.join(output_dir, FOLDS_FILE)


def directories(output_dir: str, count: int) -> list[str]:
    """Returns the output_dirs of the runs."""
    return [os.path.join(output_dir, f'fold_{number}') for number in range(1, count + 1)]


def load(output_dir: str) -> dict[str, Any]:
    """Returns the content of folds.json; {} if there is none.

    Raises:
      UsageError: it is corrupt.
    """
    path = path_of(output_dir)
    if not os.path.exists(path):  # They are on this machine only.
        return {}
    try:
        found = read_json(path)
        if type(found.get(COUNT)) is not int or not all(isinstance(found.get(key), dict) for key in (SETUP, FLAGS, HPARAMS)):
            raise ValueError(f'{path}: lacks {COUNT}, {SETUP}, {FLAGS} or {HPARAMS}')
    except ValueError as error:
        raise UsageError(f'{error}: restore it, or choose another --output_dir') from None
    return found


def refuse_run(output_dir: str) -> None:
    """Raises UsageError if the directory is that of a run."""
    if os.path.exists(run_dir.hparams_path(output_dir)):
        raise UsageError(f'--output_dir={output_dir} is the output_dir of a run: choose another')


def save(
    output_dir: str,
    count: int,
    setup: Mapping[str, Any],
    flags: Mapping[str, Any],
    hparams: Mapping[str, Any],
    data: Mapping[str, str] = types.MappingProxyType({}),
) -> None:
    """Writes folds.json, unless it is there with the same setup.

    Args:
      setup: what the runs must share, as JSON.
      flags: those of the command line, {name: value}.
      hparams: those of a Python program, as JSON.
      data: {split or path: checksum} of the data, as far as it is known, which the runs must share, too.

    Raises:
      UsageError: the directory has folds of another number, setup, or an unknown one, or of other data.
    """
    if saved := check_count(output_dir, count):
        now = json.loads(dumps(setup))  # Without tuples, like the saved one.
        added = {name: value for name, value in json.loads(dumps(dict(DEFAULTS))).items() if name in now}
        if found := comparison.differences({**added, **saved[SETUP]}, now):
            raise UsageError(f'{path_of(output_dir)}: {found}: use the same values, or choose another --output_dir')
        known = saved.get(DATA, {})
        shared_data.check(path_of(output_dir), known, data, _CURES)
        if data.keys() - known.keys():
            write_json(path_of(output_dir), {**saved, DATA: {**known, **data}})
    else:
        for path in directories(output_dir, count):
            if os.path.exists(run_dir.hparams_path(path)):
                raise UsageError(
                    f'{path} is a run of unknown folds, as there is no {path_of(output_dir)}: restore that, choose another '
                    '--output_dir, or give --overwrite'
                )
        write_json(path_of(output_dir), {COUNT: count, SETUP: setup, FLAGS: flags, HPARAMS: hparams, DATA: dict(data)})


def check_unchanged(output_dir: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raises RunError if the data changed while folds trained, which folds.json says from then on."""
    if mixed := shared_data.mixed(old, new):
        saved = load(output_dir)
        write_json(path_of(output_dir), {**saved, DATA: {**saved[DATA], **mixed}})
        raise shared_data.error_of_mixed(path_of(output_dir), mixed, _CURES)


def check_count(output_dir: str, count: int) -> dict[str, Any]:
    """Returns the content of folds.json, or {}; raises UsageError if it is of another number of folds."""
    saved = load(output_dir)
    if saved and saved[COUNT] != count:
        raise UsageError(f'--folds={count}: {output_dir} has {saved[COUNT]} folds: give that, or choose another --output_dir')
    return saved


def is_finished(directory: str) -> bool:
    """Whether the run of a fold has ended as it should."""
    return run_dir.read_status(directory).get('state') == State.FINISHED


@dataclasses.dataclass(frozen=True)
class FoldRunner:
    """Starts the runs of folds. flags are passed to all; params are the hyper-parameters, without the fold."""

    start_trainer: Start
    flags: Sequence[str]
    params: build.HParams
    output_dir: str
    count: int

    def train(self, jobs: int, stop: StopOnSignal) -> None:
        """Trains the folds that have not finished. On any exit, stops all runs, each after saving a checkpoint.

        Args:
          jobs: number of runs in parallel.
          stop: its signal ends the process.

        Raises:
          UsageError: a run's flags are wrong.
          RunError: a run fails.
        """
        waiting = deque(path for path in directories(self.output_dir, self.count) if not is_finished(path))
        done = self.count - len(waiting)
        if done:
            tf.logging.info('%d of %d folds have finished before.', done, self.count)
        running: dict[str, Process] = {}
        log_ends: dict[str, int] = {}
        with stop.defer_signals():
            try:
                while waiting or running:
                    while waiting and len(running) < jobs:
                        path = waiting.popleft()
                        log_ends[path] = processes.log_end(_log_path(path))
                        running[path] = self._start(path)
                    time.sleep(_POLL_SECONDS)
                    stop.exit_if_received()
                    for path in [path for path, process in running.items() if process.poll() is not None]:
                        _check(path, running.pop(path).returncode, log_ends[path])
                        done += 1
                        tf.logging.info('%s has finished: %d of %d.', path, done, self.count)
            finally:
                stop_all(running.values())

    def _start(self, directory):
        tf.logging.info('%s: starts; its log is log.txt there.', directory)
        os.makedirs(directory, exist_ok=True)
        path, number = run_dir.hparams_path(directory), int(directory.rpartition('_')[2])
        if not os.path.exists(path):
            build.save(build.HParams({**self.params, 'folds': self.count, 'fold': number}), path)
        flags = [*self.flags, f'--hparams_set={path}', f'--output_dir={directory}']
        return self.start_trainer(flags, _log_path(directory))


def _log_path(directory):
    return os.path.join(directory, 'log.txt')


def _check(directory, code, log_start):
    """Raises an error unless a run has ended as it should."""
    if processes.was_stopped(code):
        raise RunError(f'{directory} was interrupted: rerun the command to resume')
    if code:
        raise processes.error_of(code)(f'{directory} failed: {processes.explain(_log_path(directory), code, log_start)}')
    if not is_finished(directory):  # As by os._exit(0) of a library.
        raise RunError(f'{directory}: its process ended before its training, with exit code 0')
