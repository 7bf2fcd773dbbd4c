"""Starts a run of a trial, or of a fold, in a process of its own."""

from collections.abc import Callable, Collection, Sequence
import functools
import subprocess

import tensorflow.compat.v1 as tf

from estimator_trainer.common import processes
from estimator_trainer.common.sweep import forks

Process = subprocess.Popen | forks.Fork
Start = Callable[[Sequence[str], str], Process]  # Of a trainer, from its flags and the path of its log.


def starter(command: Sequence[str], locks: Sequence[int], server: forks.Server | None) -> Start:
    """Returns the function that starts a trainer: in a fork of the server, or else in a new process, seconds later.

    Where there are GPUs, libraries may have state that a fork breaks.

    Args:
      command: the trainer's, which the server serves, if any.
      locks: file descriptors that every process keeps open.
      server: of forks; None if this system has none.
    """
    if server and not tf.config.list_physical_devices('GPU'):
        return functools.partial(server.start, pass_fds=locks)
    return lambda flags, path: processes.start(
        [processes.SCRIPT, *command, *flags], path, stdout=subprocess.DEVNULL, pass_fds=locks
    )


def stop_all(running: Collection[Process]) -> None:
    """Stops runs, each after saving a checkpoint."""
    if running:
        tf.logging.info('Stopping %d runs after saving a checkpoint; rerun the command to resume.', len(running))
    for process in running:
        process.terminate()
    for process in running:
        process.wait()
