"""An output_dir: JSON files about the run, metrics.csv, its lock; the Estimator adds checkpoints and events."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import datetime
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import locks, paths
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import check_no_pipes, dumps, write, write_json
from estimator_trainer.common.storage import status
from estimator_trainer.common.storage.best_checkpoint import best_dir, best_record
from estimator_trainer.common.storage.checkpoints import has_checkpoint
from estimator_trainer.common.storage.metrics_file import read_rows
from estimator_trainer.common.storage.metrics_table import is_of_training, metrics_path


def read_status(output_dir: str) -> dict[str, Any]:
    """Returns the content of status.json; {} if there is none, or it is broken."""
    try:
        with tf.io.gfile.GFile(status.status_path(output_dir), 'rb') as file:
            return status.parse(file.read().decode())
    except (tf.errors.OpError, ValueError):
        return {}


def _in(name: str) -> Callable[[str], str]:
    """Returns a function from an output_dir to the path of what has this name in it."""
    return lambda directory: os.path.join(directory, name)


hparams_path = _in('hparams.json')
dataset_path = _in('dataset.json')
flags_path = _in('flags.json')
results_path = _in('results.json')
report_path = _in('report.html')
summary_path = _in('data_summary.txt')  # About the training data.
tasks_path = _in('tasks.jsonl')  # Of an elastic cluster: a JSON object in each line, see `add_tasks`.
rollback_path = _in('rollback.json')  # Of a roll-back: in the output_dir until it has ended, then in its folder.
abandoned_dir = _in('abandoned')  # What roll-backs left behind: a folder for each, named by its number.
loggers_dir = _in('loggers')  # What a run knows of its tracked runs; see common/monitoring/tracker.py.
_lock_path = _in('trainer.lock')


def ensure_writable(output_dir: str) -> None:
    """Creates the directory of a run.

    Raises:
      UsageError: the directory cannot be created or written, or a file in it is a pipe or a device.
    """
    check_no_pipes(output_dir)
    probe = os.path.join(output_dir, '.writable')
    try:
        tf.io.gfile.makedirs(output_dir)
        with tf.io.gfile.GFile(probe, 'w') as file:
            file.write('.')  # Fails if the disk is full; creating an empty file may not.
        with contextlib.suppress(tf.errors.NotFoundError):  # Another process may do the same.
            tf.io.gfile.remove(probe)
    except tf.errors.OpError as error:
        reason = paths.unreachable(output_dir) or error.message
        raise UsageError(f'--output_dir={output_dir}: cannot be written: {reason}') from None


def holder(output_dir: str) -> str:
    """Returns the process that locked the directory last; '' if it is unknown or the directory is remote."""
    try:
        with open(_lock_path(output_dir), encoding='utf-8', errors='replace') as file:
            return file.read()
    except OSError:
        return ''


@contextlib.contextmanager
def lock(output_dir: str) -> Iterator[None]:
    """Locks a local directory against other runs until the block or the process ends.

    Raises:
      RunError: another run holds the lock; or the block fails after the directory was deleted or moved.
    """
    if paths.is_remote(output_dir):
        yield
        return
    with locks.lock(
        _lock_path(output_dir),
        lambda holder: (
            f'--output_dir={output_dir}: {holder or "another trainer"} is training there: wait for it, or choose another'
        ),
    ):
        identity = paths.identify(output_dir)
        try:
            yield
        except Exception:
            paths.check_identity(output_dir, identity)
            raise


def check_empty(output_dir: str) -> None:
    """Raises RunError if the directory has results of a run but no checkpoint, so their origin is unknown."""
    if has_checkpoint(output_dir):
        return
    found = {
        best_dir(output_dir): tf.io.gfile.exists(best_record(output_dir)),
        metrics_path(output_dir): _has_evaluations(output_dir),
    }
    for path, is_left in found.items():
        if is_left:
            raise RunError(
                f'{path} belongs to a run with no checkpoints: start over with --overwrite, or choose another --output_dir'
            )


def _has_evaluations(output_dir):
    try:
        return not all(map(is_of_training, read_rows(output_dir)))
    except RunError:  # The file is corrupt, so unknown.
        return True


def save_results(output_dir: str, results: Mapping[str, Any]) -> None:
    """Writes results.json."""
    write_json(results_path(output_dir), results)


def add_tasks(output_dir: str, step: int, tasks: Sequence[str]) -> None:
    """Adds a line to tasks.jsonl: the tasks that train from a step on. A step was run by those of the last line before it."""
    path = tasks_path(output_dir)
    before = ''
    if tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path, 'rb') as file:
            before = file.read().decode(errors='replace')
    time = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')
    write(path, f'{before}{dumps({"time": time, "from_step": step, "tasks": [*tasks]})}\n')
