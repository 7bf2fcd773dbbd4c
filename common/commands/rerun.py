"""The training of a run, again: from one of its checkpoints, with its own flags and hyper-parameters, in another directory."""

from collections.abc import Callable, Iterator
import contextlib
import json
import os
import tempfile

from absl import flags as absl_flags
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import flags, request
from estimator_trainer.common.console import errors_only
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import write_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.options.values import MAX_STEPS
from estimator_trainer.common.replay import run_copy
from estimator_trainer.common.replay.recorder import Recorded, record
from estimator_trainer.common.runs import made_by, saved_dataset, saved_flags
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import provenance, run_dir
from estimator_trainer.common.storage.restore import ModelChanged

_NONE = request.Objects()
_FIXED = {
    'schedule': 'train',
    'save_checkpoints_steps': MAX_STEPS,
    'save_summary_steps': MAX_STEPS,
    'keep_checkpoint_every': 0,
    'keep_checkpoint_max': 0,
    'loggers': [],
}


def warn_of_ignored(FLAGS: absl_flags.FlagValues) -> None:
    """Warns of given flags that a run is not trained again with, as it has its own."""
    names = ['model', 'dataset', 'hparams', 'hparams_set', 'override_hparams', *names_with(Trait.OF_TRAINING), *made_by.THREADS]
    names += names_with(Trait.CHANGES_RESULT)
    if given := [f'--{name}' for name in dict.fromkeys(names) if FLAGS[name].present]:
        tf.logging.warning('--schedule=%s takes from the run, in place of what is given: %s.', FLAGS.schedule, ', '.join(given))


class Rerun:
    """A training that goes on from a checkpoint of a run, whose own directory is only read.

    A run of several tasks goes on in one process, with a tower for each task: it may round sums otherwise, and as a task has
    every n-th example of a batch, but a tower those in sequence, batch norm has other means.

    Attributes:
      directory: where it trains; deleted in the end.
      step: the step that it has reached, of which `directory` has the checkpoint.
      differences: what this training is made by and the run was not, in words.
      is_recorded: whether it is known what the run was made by.
    """

    def __init__(
        self,
        output_dir: str,
        directory: str,
        step: int,
        stop: StopOnSignal,
        data_dir: str | None,
        objects: request.Objects,
        recorded: Recorded | None,
    ):
        self.directory, self.step, self._recorded = directory, step, recorded
        self.differences: list[str] = []
        self.is_recorded = True
        self._output_dir, self._stop, self._data_dir, self._objects = output_dir, stop, data_dir, objects
        self._record = provenance.known(output_dir)

    def train(self, end: int, look: Callable[[Experiment, str], None] | None = None) -> bool:
        """Trains up to a step, and saves its checkpoint; returns whether loss and variables stayed finite.

        Args:
          look: if given, batches are recorded; called with the Experiment and the checkpoint from which it has trained, for
            each part of the way with the same hyper-parameters and flags.

        Raises:
          UsageError, RunError: the data has changed or is gone, or as for a training that resumes.
        """
        for step in (*run_copy.changes(self._output_dir, self._record), end):
            if not self.step < step <= end:
                continue
            with self.opened() as experiment:
                saved_dataset.check_same(experiment.source, self._output_dir)
                self._compare(experiment)
                is_finite = self._train(experiment, step, bool(look))
                if look:
                    look(experiment, self.checkpoint())
            if not is_finite:
                return False
            self.step = step
        return True

    def _train(self, experiment, step, keeps_batches):
        try:
            return record(experiment, step, keeps_batches, self._recorded)
        except ModelChanged as error:
            name = experiment.source.params.model
            raise RunError(f'--model={name} has changed since this run ({error.changes}): restore its code') from None

    def _compare(self, experiment):
        then = provenance.made_by(self._record, self.step)
        self.is_recorded &= bool(then)
        if then:
            found = made_by.differences(then, json.loads(provenance.canonical(made_by.of(experiment))))
            self.differences += [text for text in found if text not in self.differences]

    def checkpoint(self) -> str:
        """Returns the path of the checkpoint of the step reached, without suffix."""
        return os.path.join(self.directory, f'model.ckpt-{self.step}')

    @contextlib.contextmanager
    def opened(self) -> Iterator[Experiment]:
        """Yields the Experiment that goes on from the step reached."""
        then = provenance.made_by(self._record, self.step)
        run_copy.save_hparams(self._output_dir, self.directory, self.step, then)
        kept = saved_flags.load(self._output_dir)
        values = _values(kept, then)
        write_json(run_dir.flags_path(self.directory), {**kept, **values, 'num_tasks': 1})
        values |= {'steps_per_loop': 1 if self._recorded else 0, 'data_dir': self._data_dir, 'output_dir': self.directory}
        FLAGS = flags.from_values({**values, **_FIXED})  # Loops of steps compute the same bits.
        with errors_only(), request.opened(FLAGS, self._objects, self._stop) as experiment:  # The run has told the rest.
            yield experiment


@contextlib.contextmanager
def rerun(
    output_dir: str,
    before: int,
    stop: StopOnSignal,
    data_dir: str | None = None,
    objects: request.Objects = _NONE,
    checkpoint_path: str | None = None,
    recorded: Recorded | None = None,
) -> Iterator[Rerun]:
    """Yields the Rerun of a run from its newest intact checkpoint before a step.

    Args:
      data_dir: where its data is now, if it was moved.
      objects: the model and dataset of a run that a Python program has made of objects.
      checkpoint_path: another checkpoint to go on from, without suffix.
      recorded: to which the loss of each step is added, and the batches that are asked for; None is faster.

    Raises:
      UsageError: there is no such checkpoint, or the run has no record of its flags.
      CheckpointGone: the given checkpoint was deleted meanwhile.
    """
    _check(output_dir)
    check_data_dir(output_dir, data_dir)
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
        yield Rerun(output_dir, directory, step, stop, data_dir, objects, recorded)


@contextlib.contextmanager
def rerun_from_start(
    output_dir: str, stop: StopOnSignal, data_dir: str | None = None, objects: request.Objects = _NONE
) -> Iterator[Rerun]:
    """Yields the Rerun of a run from its initialization, or its warm start, without a record; otherwise as `rerun`."""
    _check(output_dir)
    check_data_dir(output_dir, data_dir)
    with tempfile.TemporaryDirectory() as directory:
        yield Rerun(output_dir, directory, 0, stop, data_dir, objects, None)


def _check(output_dir):
    """Raises UsageError if a run cannot be trained again."""
    kept = saved_flags.load(output_dir)
    if not kept or not tf.io.gfile.exists(run_dir.hparams_path(output_dir)):
        raise UsageError(
            f'--output_dir={output_dir}: has no record of its flags, as it is no run, or one of an older version: steps of '
            'runs that begin now can be replayed'
        )
    if saved_flags.has_parameter_servers(kept):
        raise UsageError(f'--output_dir={output_dir}: was trained with parameter servers, which keep no order of the updates')
    if kept.get('precision') == 'float16' and not tf.config.list_physical_devices('GPU'):
        raise UsageError(
            f'--output_dir={output_dir}: was trained with --precision=float16, which needs a GPU: train its steps again where '
            'there is one'
        )


def _values(kept, then):
    """Returns the flags that change a result, as they were at a step; a tower takes the place of each task.

    Args:
      kept: the content of flags.json.
      then: what the run was made by; None if unknown.
    """
    flags_then = then['flags'] if then else {**kept, **kept.get(saved_flags.PARALLELISM, {})}
    tasks = then['tasks'] if then else kept.get('num_tasks', 1)
    towers = max(flags_then.get('num_towers') or 1, 1)
    return {
        **{name: flags_then[name] for name in (*names_with(Trait.CHANGES_RESULT), *made_by.THREADS) if name in flags_then},
        'num_towers': tasks * towers if tasks > 1 else flags_then.get('num_towers', 0),
    }


def check_data_dir(output_dir: str, data_dir: str | None) -> None:
    """Raises RunError if the data of a run is gone: it would be prepared again, in another directory."""
    saved = saved_dataset.load(output_dir)
    if not data_dir and saved and saved.sha256 and saved.data_dir and not tf.io.gfile.isdir(saved.data_dir):
        raise RunError(f'{saved.data_dir}: the data of this run is gone: restore it, or name where it is now by --data_dir')
