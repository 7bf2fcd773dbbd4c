"""The training of a run, again: from one of its checkpoints, with its own flags and hyper-parameters, in another directory."""

from collections.abc import Iterator
import contextlib
import os
import tempfile
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import flags, request
from estimator_trainer.common.console import quiet
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.options.values import MAX_STEPS
from estimator_trainer.common.replay import run_copy
from estimator_trainer.common.replay.recorder import Recorded, record
from estimator_trainer.common.runs import saved_dataset, saved_flags
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import run_dir

_PS = 'ps'
_NONE = request.Objects()


class Rerun:
    """A training that goes on from a checkpoint of a run, whose own directory is only read.

    A run of several tasks goes on in one process, with a tower for each task: it has the same examples in each part of a
    batch, but may round sums otherwise.

    Attributes:
      directory: where it trains; deleted in the end.
      step: the step that it has reached, of which `directory` has the checkpoint.
      recorded: the loss of each step so far, and the batches that were asked for.
    """

    def __init__(self, output_dir: str, directory: str, step: int, stop: StopOnSignal, values: Any, objects: request.Objects):
        self.directory, self.step, self.recorded = directory, step, Recorded()
        self._output_dir, self._stop, self._values, self._objects = output_dir, stop, values, objects

    def train(self, end: int, first_batch: int | None = None) -> bool:
        """Trains up to a step, and saves its checkpoint; returns whether loss and variables stayed finite.

        Args:
          first_batch: the first step whose batch is kept; None for none.

        Raises:
          UsageError, RunError: the data has changed or is gone, or as for a training that resumes.
        """
        for step in (*(step for step in run_copy.changes(self._output_dir) if self.step < step < end), end):
            if step == self.step:
                continue
            with self.opened() as experiment:
                _check_data(experiment, self._output_dir)
                if not record(experiment, step, first_batch, self.recorded):
                    return False
            self.step = step
            run_copy.save_hparams(self._output_dir, self.directory, step)
        return True

    def checkpoint(self) -> str:
        """Returns the path of the checkpoint of the step reached, without suffix."""
        return os.path.join(self.directory, f'model.ckpt-{self.step}')

    @contextlib.contextmanager
    def opened(self) -> Iterator[Experiment]:
        """Yields the Experiment that goes on from the step reached."""
        FLAGS = flags.from_values({**self._values, 'output_dir': self.directory})
        with quiet(), request.opened(FLAGS, self._objects, self._stop) as experiment:
            yield experiment


@contextlib.contextmanager
def rerun(
    output_dir: str,
    before: int,
    stop: StopOnSignal,
    data_dir: str | None = None,
    objects: request.Objects = _NONE,
    checkpoint_path: str | None = None,
) -> Iterator[Rerun]:
    """Yields the Rerun of a run from its newest intact checkpoint before a step.

    Args:
      data_dir: where its data is now, if it was moved.
      objects: the model and dataset of a run that a Python program has made of objects.
      checkpoint_path: another checkpoint to go on from, without suffix.

    Raises:
      UsageError: there is no such checkpoint, or the run has no record of its flags.
      CheckpointGone: the given checkpoint was deleted meanwhile.
    """
    values = {**_values(output_dir), 'data_dir': data_dir}
    _check_data_dir(output_dir, data_dir)
    with contextlib.ExitStack() as cleanup:
        while True:
            directory = cleanup.enter_context(tempfile.TemporaryDirectory())
            path = checkpoint_path or run_copy.checkpoint_before(output_dir, before)
            try:
                step = run_copy.copy(output_dir, path, directory)
                break
            except run_copy.CheckpointGone:  # A training that runs there has deleted it.
                if checkpoint_path or path == run_copy.checkpoint_before(output_dir, before):
                    raise
        yield Rerun(output_dir, directory, step, stop, values, objects)


@contextlib.contextmanager
def rerun_from_start(
    output_dir: str, stop: StopOnSignal, data_dir: str | None = None, objects: request.Objects = _NONE
) -> Iterator[Rerun]:
    """Yields the Rerun of a run from its initialization, or its warm start; arguments and errors as for `rerun`."""
    kept = saved_flags.load(output_dir)
    values = {**_values(output_dir), 'data_dir': data_dir}
    if kept.get('num_tasks', 1) == 1:  # Otherwise they would be chosen again.
        values |= {name: value for name, value in kept.get(saved_flags.PARALLELISM, {}).items() if value}
    _check_data_dir(output_dir, data_dir)
    with tempfile.TemporaryDirectory() as directory:
        run_copy.copy_records(output_dir, directory, 0)
        yield Rerun(output_dir, directory, 0, stop, values, objects)


def _values(output_dir):
    """Returns the flags of a rerun that are not the run's own."""
    kept = saved_flags.load(output_dir)
    if not kept or not tf.io.gfile.exists(run_dir.hparams_path(output_dir)):
        raise UsageError(
            f'--output_dir={output_dir}: has no record of its flags, as it is no run, or one of an older version: steps of '
            'runs that begin now can be replayed'
        )
    tasks = kept.get('num_tasks', 1)
    towers = kept.get(saved_flags.PARALLELISM, {}).get('num_towers') or kept.get('num_towers') or 1
    if _PS in (kept.get(saved_flags.LOCAL_CLUSTER) or ''):
        raise UsageError(f'--output_dir={output_dir}: was trained with parameter servers, which keep no order of the updates')
    return {
        'schedule': 'train',
        'steps_per_loop': 1,  # With the same bits.
        'save_checkpoints_steps': MAX_STEPS,
        'save_summary_steps': MAX_STEPS,
        'keep_checkpoint_every': 0,
        'loggers': [],
        'num_towers': tasks * towers if tasks > 1 else None,
    }


def _check_data_dir(output_dir, data_dir):
    """Raises RunError if the data of a run is gone: it would be prepared again, in another directory."""
    saved = saved_dataset.load(output_dir)
    if not data_dir and saved and saved.sha256 and saved.data_dir and not tf.io.gfile.isdir(saved.data_dir):
        raise RunError(f'{saved.data_dir}: the data of this run is gone: restore it, or name where it is now by --data_dir')


def _check_data(experiment, output_dir):
    """Raises RunError if the training data is not that of the run."""
    saved = saved_dataset.load(output_dir)
    now = saved_dataset.facts(experiment.source)['the checksum of the training data']
    if saved and saved.sha256 and saved.sha256 != now:
        raise RunError(
            f'{experiment.source.data_dir}: the training data differs from that of the run in {output_dir}: restore it, or '
            'name another directory by --data_dir'
        )
