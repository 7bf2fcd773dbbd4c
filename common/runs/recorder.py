"""Writes provenance.jsonl while a run trains."""

from collections.abc import Callable, Iterator
import concurrent.futures
import contextlib
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import names_in, sha256_of
from estimator_trainer.common.runs import made_by
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import checkpoints, provenance
from estimator_trainer.common.training import exact_program


@contextlib.contextmanager
def recording(
    experiment: Experiment,
) -> Iterator[tuple[list[Callable[[], None]], list[tf.train.CheckpointSaverListener]]]:
    """Adds a line for the start of a run; within the block, the listeners add one for each checkpoint.

    Yields:
      What a run that resumes is to call once its session stands, in place of the line for the start; the listeners.
    """
    if not experiment.task.is_chief or experiment.schedule.is_dry_run:
        yield [], []
        return
    with concurrent.futures.ThreadPoolExecutor(1) as threads:  # In the end, also after an error, it adds the last line.
        recorder = _Recorder(experiment, threads)
        if not recorder.latest:
            recorder.add_start()
        yield [recorder.add_resume] if recorder.latest else [], [recorder]
        recorder.wait()


def input_digest(output_dir: str, step: int) -> str | None:
    """Returns the digest of the state of an `input_fn` at a step; None if none is saved.

    It is of the files: another run may have the same state with other elements that wait in buffers.
    """
    directory = os.path.join(output_dir, exact_program.FOLDER)
    names = [name for name in names_in(directory) if name.startswith(f'{step}.input.')]
    found = {name: sha256_of(os.path.join(directory, name)) for name in names}
    return provenance.digest_of(found) if found else None


class _Recorder(tf.train.CheckpointSaverListener):
    """Adds a line for each checkpoint, whose digest a thread computes meanwhile.

    Attributes:
      latest: the path of the checkpoint from which the training goes on; None if it begins.
    """

    def __init__(self, experiment: Experiment, threads: concurrent.futures.Executor):
        self._output_dir, self._experiment, self._threads = experiment.estimator.model_dir, experiment, threads
        self._pending: concurrent.futures.Future[None] | None = None
        self.latest = experiment.estimator.latest_checkpoint()
        self._step = checkpoints.global_step(self.latest) if self.latest else -1

    def add_start(self) -> None:
        """Adds the line of a run that begins."""
        options, made = self._experiment.options, self._made()
        if options.warm_start_from:
            made['warm_start'] = {'from': options.warm_start_from, 'sha256': made_by.warm_start_of(options.warm_start_from)}
        if provenance.known(self._output_dir).checkpoints:
            made['overwrites'] = True
        self._append(provenance.START, 0, made)

    def add_resume(self) -> None:
        """Adds the line of a run that goes on; before, that of a checkpoint after whose saving the process was killed."""
        output_dir, options, made = self._output_dir, self._experiment.options, self._made()
        step, tensors = self._step, provenance.tensors_digest(self.latest)
        record = provenance.known(output_dir)
        known = record.checkpoints.get(step)
        if record.starts and not known:
            self._add(step, tensors, record.starts[-1]['digest'], completed=True)
        elif known and known['tensors'] != tensors:
            tf.logging.warning('%s: is not the checkpoint that %s records.', self.latest, provenance.path_of(output_dir))
        if (last := max(record.checkpoints, default=0)) > step:
            made['back_from'] = last
        made |= {'overridden': sorted(self._experiment.overridden)} if options.override_hparams else {}
        self._append(provenance.RESUME, step, {'tensors': tensors, **made})

    def _made(self) -> dict[str, Any]:
        return {'made_by': made_by.of(self._experiment)}

    def _append(self, kind, step, facts):
        self._made_by = provenance.append(self._output_dir, {'kind': kind, 'step': step, **facts})['digest']

    def before_save(self, session, global_step_value):
        self.wait()  # The Saver may delete the checkpoint before.

    def after_save(self, session, global_step_value):
        self.wait()
        step = int(global_step_value)
        if step != self._step:  # Else it was there when the session started.
            self._step, self._pending = step, self._threads.submit(self._digest_and_add, step)

    def _digest_and_add(self, step):
        self._add(step, provenance.tensors_digest(checkpoints.path_of(self._output_dir, step)), self._made_by)

    def _add(self, step, tensors, start, **facts):
        if state := input_digest(self._output_dir, step):
            facts['input'] = state
        entry = {'kind': provenance.CHECKPOINT, 'step': step, 'tensors': tensors, 'made_by': start, **facts}
        provenance.append(self._output_dir, entry)

    def wait(self):
        """Waits for the line of the last checkpoint."""
        pending, self._pending = self._pending, None
        if pending:
            pending.result()
