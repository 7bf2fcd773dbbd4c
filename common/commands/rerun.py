"""The training of a run, again: from one of its checkpoints, with its own flags and hyper-parameters, in another directory."""

from collections.abc import Callable, Iterator
import contextlib
import json
import math
import os
from typing import Any

from absl import flags as absl_flags
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import ALONE, Rehearsal
from estimator_trainer.common.commands import cluster_rerun, flags, request
from estimator_trainer.common.console import errors_only
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import write_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.options.values import MAX_STEPS
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.plugins.own_train import OwnTrain
from estimator_trainer.common.replay import run_copy, shares, workplace
from estimator_trainer.common.replay.inspection import Inspected, inspecting
from estimator_trainer.common.replay.recorded import Recorded
from estimator_trainer.common.replay.recorder import record
from estimator_trainer.common.runs import made_by, saved_dataset, saved_flags
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import checkpoints, provenance, run_dir

_NONE = request.Objects()
_PERIODS = ('save_checkpoints_steps', 'eval_every_steps', 'keep_checkpoint_every')
Look = Callable[[DataSource, Iterator[tuple[int, Inspected]]], None]
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
    """A run that goes on from a checkpoint of another, whose directory is only read.

    What several tasks have trained is trained by as many on this machine.

    Attributes:
      directory: where it trains; deleted in the end.
      step: the step that it has reached, of which `directory` has the checkpoint.
      losses: {step: NumPy scalar}, of the steps so far, if they are recorded.
      differences: what the rerun is made by and the run was not, in words.
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
        records: bool,
    ):
        self.directory, self.step = directory, step
        self.losses: dict[int, Any] = {}
        self.differences: list[str] = []
        self.is_recorded = True
        self._recorded, self._records = Recorded(os.path.join(directory, 'recorded'), self.losses), records
        self._stop, self._data_dir, self._objects = stop, data_dir, objects
        self._output_dir, self._record, self._kept = output_dir, provenance.known(output_dir), saved_flags.load(output_dir)

    def train(self, end: int, first: int | None = None, look: Look | None = None) -> bool:
        """Trains up to a step, and saves its checkpoint; returns whether loss and variables stayed finite.

        Args:
          first: the first step to look at.
          look: called with the data of the run, prepared, and an iterator of (step, Inspected), for each part of the steps from
            `first` on with the same hyper-parameters, flags and tasks.

        Raises:
          UsageError, RunError: the data has changed or is gone, or as for a run that resumes.
        """
        ends = [*run_copy.changes(self._output_dir, self._record), end]
        while self.step < end:
            step = min(step for step in ends if step > self.step)
            if self._tasks > 1:
                is_finite = self._train_together(step, first, look)
            else:
                step = first - 1 if first and self.step < first - 1 < step else step
                is_finite = self._train_alone(step, look if first and self.step >= first - 1 else None)
            if not is_finite:
                return False
            self.step = step
        return True

    def _train_alone(self, step, look):
        with self._checked() as experiment:
            is_finite = record(experiment, step, self._recorded if self._records else None, self.step + 1 if look else None)
            if look:
                with contextlib.closing(self._inspected(experiment)) as steps:
                    look(experiment.source, steps)
        return is_finite

    def _inspected(self, experiment):
        steps = [step for step in self.losses if step > self.step]
        with inspecting(experiment, self.checkpoint()) as inspection:
            for step in steps:
                yield step, inspection.step(self._recorded.take_batch(step, 0))

    def _train_together(self, step, first, look):
        with self._checked():
            pass  # A mistake is found before any process starts.
        if self._objects.model or self._objects.dataset:
            raise UsageError(
                f'{self._output_dir}: was trained by {self._tasks} processes, which need the names of its modules in place of '
                'objects: use the command line'
            )
        arguments = flags.arguments(self._flags(), but_for=Trait.LAUNCHER)
        first = None if first is None or first > step else max(first, self.step + 1)
        recorded = self._recorded if self._records else None
        given = arguments, self.directory, self._tasks, step, self._stop
        is_finite = cluster_rerun.train(*given, recorded, first)
        if first and max(self.losses) >= first:
            with contextlib.ExitStack() as cleanup:
                experiments = [cleanup.enter_context(self.opened(task)) for task in range(self._tasks)]
                steps = cleanup.enter_context(contextlib.closing(self._inspected_together(experiments, first)))
                look(experiments[0].source, steps)
        return is_finite

    def _inspected_together(self, experiments, first):
        with contextlib.ExitStack() as cleanup:
            path = tf.train.latest_checkpoint(self.directory)
            inspections = [cleanup.enter_context(inspecting(one, path, shares.ShareInspection)) for one in experiments]
            source = experiments[0].source
            batch_size = None if source.has_input_fn() else source.params.batch_size
            for step in [step for step in self.losses if step >= first]:
                yield step, shares.look(inspections, self._recorded, step, batch_size)

    @contextlib.contextmanager
    def _checked(self):
        """Yields the Experiment of `opened` after comparing what it is made by with the run."""
        with self.opened() as experiment:
            if isinstance(experiment.estimator, OwnTrain):
                experiment.estimator.refuse()
            saved_dataset.check_same(experiment.source, self._output_dir)
            then = self._then
            self.is_recorded &= bool(then)
            if then:
                found = made_by.differences(then, json.loads(provenance.canonical(made_by.of(experiment))))
                self.differences += [text for text in found if text not in self.differences]
            yield experiment

    def checkpoint(self) -> str:
        """Returns the path of the checkpoint of the step reached, without suffix."""
        return checkpoints.path_of(self.directory, self.step)

    @property
    def _then(self):
        """What the run was made by at the step reached; None if unknown."""
        return provenance.made_by(self._record, self.step)

    @property
    def _tasks(self):
        """The number of processes that trained the next step."""
        return (self._then or {'tasks': self._kept.get('num_tasks', 1)})['tasks']

    @contextlib.contextmanager
    def opened(self, task: int = 0) -> Iterator[Experiment]:
        """Yields the Experiment that goes on from the step reached; of several tasks, that of one, whose steps run alone."""
        count, directory = self._tasks, self.directory
        FLAGS = self._flags()
        if task:  # As a worker of a cluster, it has no checkpoint of its own.
            directory = os.path.join(directory, f'task-{task}')
            FLAGS.warm_start_from = ''
        part = Rehearsal(count, count, task) if count > 1 else ALONE
        with errors_only(), request.opened(FLAGS, self._objects, self._stop, part, directory) as experiment:
            yield experiment  # The run has told the rest.

    def _flags(self):
        """Returns the flags that go on from the step reached, after writing the records by which they do."""
        then = self._then
        run_copy.save_hparams(self._output_dir, self.directory, self.step, then)
        values = _values(self._kept, then)
        write_json(run_dir.flags_path(self.directory), {**self._kept, **values, 'num_tasks': self._tasks})
        values |= {'steps_per_loop': 1 if self._records else 0, 'data_dir': self._data_dir, 'output_dir': self.directory}
        return flags.from_values({**values, **_FIXED, **self._periods()})  # Loops of steps compute the same bits.

    def _periods(self):
        """Returns the flags of the steps at which the tasks of a cluster share the gradients that they accumulate."""
        if self._tasks == 1:
            return {}
        flags_then = (self._then or {}).get('flags', self._kept)
        return {'keep_checkpoint_max': 2, **{name: flags_then.get(name) for name in _PERIODS}}


@contextlib.contextmanager
def rerun(
    output_dir: str,
    before: int | None,
    last: int,
    stop: StopOnSignal,
    data_dir: str | None = None,
    objects: request.Objects = _NONE,
    checkpoint_path: str | None = None,
    records: bool = False,
) -> Iterator[Rerun]:
    """Yields the Rerun of a run from its newest intact checkpoint before a step.

    Args:
      before: the step; None to train from the initialization, or the warm start.
      last: the last step to train.
      data_dir: where its data is now, if it was moved.
      objects: the model and dataset of a run that a Python program has made of objects.
      checkpoint_path: another checkpoint to go on from, without suffix.
      records: whether to record the loss of each step, and the batches that are asked for; without, it is faster.

    Raises:
      UsageError: there is no such checkpoint, or the run has no record of its flags.
      CheckpointGone: the given checkpoint was deleted meanwhile.
    """
    _check(output_dir, last, data_dir)
    with contextlib.ExitStack() as cleanup:
        while True:
            directory, step = cleanup.enter_context(workplace.temporary(output_dir)), 0
            if before is None:
                break
            path = checkpoint_path or run_copy.checkpoint_before(output_dir, before)
            try:
                step = run_copy.copy(output_dir, path, directory)
                break
            except run_copy.CheckpointGone:  # A process that trains there has deleted it.
                if checkpoint_path or path == run_copy.checkpoint_before(output_dir, before):
                    raise
        yield Rerun(output_dir, directory, step, stop, data_dir, objects, records)


def last_ordered(output_dir: str) -> float:
    """Returns the last step of a run before updates without an order, those by parameter servers; infinity if it had none."""
    since = saved_flags.asynchronous_since(saved_flags.load(output_dir))
    return math.inf if since is None else since


def _check(output_dir, last, data_dir):
    """Raises UsageError if a run cannot be trained again, RunError if its data is gone: it would be prepared elsewhere."""
    kept = saved_flags.load(output_dir)
    if not kept or not tf.io.gfile.exists(run_dir.hparams_path(output_dir)):
        raise UsageError(
            f'--output_dir={output_dir}: lacks flags.json or hparams.json: it is no run, or an older version made it: only '
            'steps of runs that began with this version can be computed again'
        )
    since = saved_flags.asynchronous_since(kept)
    if since is not None and last > since:
        raise UsageError(
            f'--output_dir={output_dir}: after step {since} it was trained with parameter servers, which keep no order of '
            'the updates'
        )
    if kept.get('precision') == 'float16' and not tf.config.list_physical_devices('GPU'):
        raise UsageError(
            f'--output_dir={output_dir}: was trained with --precision=float16, which needs a GPU: train its steps again where '
            'there is one'
        )
    saved = saved_dataset.load(output_dir)
    if not data_dir and saved and saved.sha256 and saved.data_dir and not tf.io.gfile.isdir(saved.data_dir):
        raise RunError(f'{saved.data_dir}: the data of this run is gone: restore it, or name where it is now by --data_dir')


def _values(kept, then):
    """Returns the flags that change a result, as they were at a step.

    Args:
      kept: the content of flags.json.
      then: what the run was made by; None if unknown.
    """
    flags_then = then['flags'] if then else {**kept, **kept.get(saved_flags.PARALLELISM, {})}
    return {
        name: flags_then[name]
        for name in (*names_with(Trait.CHANGES_RESULT), *made_by.THREADS, 'num_towers')
        if name in flags_then
    }
