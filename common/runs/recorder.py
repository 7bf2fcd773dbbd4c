"""Writes provenance.jsonl while a run trains."""

from collections.abc import Iterator
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
from estimator_trainer.hparams.text import parse


@contextlib.contextmanager
def recording(experiment: Experiment) -> Iterator[list[tf.train.CheckpointSaverListener]]:
    """Adds a line for the start of a training; within the block, the listeners add one for each checkpoint."""
    if not experiment.task.is_chief or experiment.schedule.is_dry_run:
        yield []
        return
    with concurrent.futures.ThreadPoolExecutor(1) as threads:  # In the end, also after an error, it adds the last line.
        recorder = _Recorder(experiment, threads)
        recorder.add_start()
        yield [recorder]
        recorder.wait()


def input_digest(output_dir: str, step: int) -> str | None:
    """Returns the digest of the state of an `input_fn` at a step; None if none is saved.

    It is of the files: another training may have the same state with other elements that wait in buffers.
    """
    directory = os.path.join(output_dir, exact_program.FOLDER)
    names = [name for name in names_in(directory) if name.startswith(f'{step}.input.')]
    found = {name: sha256_of(os.path.join(directory, name)) for name in names}
    return provenance.digest_of(found) if found else None


class _Recorder(tf.train.CheckpointSaverListener):
    """Adds a line for each checkpoint, whose digest a thread computes meanwhile."""

    def __init__(self, experiment: Experiment, threads: concurrent.futures.Executor):
        self._output_dir, self._experiment, self._threads = experiment.estimator.model_dir, experiment, threads
        self._pending: concurrent.futures.Future[None] | None = None

    def add_start(self):
        """Adds the line of the start; before, that of a checkpoint after whose saving the process was killed."""
        output_dir, options = self._output_dir, self._experiment.options
        record, latest = provenance.known(output_dir), self._experiment.estimator.latest_checkpoint()
        made: dict[str, Any] = {'made_by': made_by.of(self._experiment)}
        if not latest:
            if options.warm_start_from:
                made['warm_start'] = {'from': options.warm_start_from, 'sha256': made_by.warm_start_of(options.warm_start_from)}
            if record.checkpoints:
                made['overwrites'] = True
            self._made_by = provenance.append(output_dir, {'kind': provenance.START, 'step': 0, **made})['digest']
            self._step = None
            return
        self._step, tensors = checkpoints.global_step(latest), provenance.tensors_digest(latest)
        known = record.checkpoints.get(self._step)
        if record.starts and not known:
            self._add(self._step, tensors, record.starts[-1]['digest'], completed=True)
        elif known and known['tensors'] != tensors:
            tf.logging.warning('%s: is not the checkpoint that %s records.', latest, provenance.path_of(output_dir))
        if (last := max(record.checkpoints, default=0)) > self._step:
            made['back_from'] = last
        made |= {'overridden': sorted(parse(options.override_hparams))} if options.override_hparams else {}
        entry = {'kind': provenance.RESUME, 'step': self._step, 'tensors': tensors, **made}
        self._made_by = provenance.append(output_dir, entry)['digest']

    def before_save(self, session, global_step_value):
        self.wait()  # The Saver may delete the checkpoint before.

    def after_save(self, session, global_step_value):
        self.wait()
        step = int(global_step_value)
        if step != self._step:  # Else it was there when the session started.
            self._step, self._pending = step, self._threads.submit(self._digest_and_add, step)

    def _digest_and_add(self, step):
        path = os.path.join(self._output_dir, f'model.ckpt-{step}')
        self._add(step, provenance.tensors_digest(path), self._made_by)

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
