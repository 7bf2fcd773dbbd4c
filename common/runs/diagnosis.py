"""Diagnosis of TensorFlow errors caused by data or lack of memory, in one line that names the cause."""

from collections.abc import Iterator
import contextlib
import re

import tensorflow.compat.v1 as tf

from estimator_trainer.common import files
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference import labeled_files
from estimator_trainer.common.pipeline.bad_records import ERRORS, check_records, is_of_record
from estimator_trainer.common.plugins.traceback_filter import original
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.common.storage.checkpoints import has_checkpoint
from estimator_trainer.common.storage.metrics_file import read_rows
from estimator_trainer.common.storage.metrics_table import is_of_training
from estimator_trainer.common.storage.status import State
from estimator_trainer.common.training.loss_watch import NotFinite
from estimator_trainer.common.training.saving import NOT_FINITE_HINT

ModeKeys = tf.estimator.ModeKeys


def find_cause(error: Exception) -> UsageError | RunError | None:
    """Returns the one-line error for an exception: itself, the one wrapped by AutoGraph, or one that names its file."""
    found = original(error)
    if isinstance(found, (UsageError, RunError)):
        return found
    explanation = isinstance(found, (tf.errors.OpError, OSError, RuntimeError, IndexError)) and files.explain(found)
    return RunError(f'{explanation}: fix this, then rerun the command') if explanation else None


@contextlib.contextmanager
def diagnose_errors(experiment: Experiment) -> Iterator[None]:
    """Within the block, replaces a TensorFlow exception with a RunError if its cause is found."""
    try:
        yield
    except (*ERRORS, MemoryError) as error:
        found = _diagnose(experiment, error)
        if not found:
            raise
        raise found from found.__cause__


def _diagnose(experiment, error):
    try:
        check_records(experiment.source, list(_splits(experiment)), error)
        if experiment.schedule.evaluates and experiment.options.input and is_of_record(error):
            if found := labeled_files.find_bad(experiment.source, experiment.options.input):
                return found
    except RunError as found:
        return found
    if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)) and not files.explain(error):
        return _out_of_memory(experiment)
    if histogram := re.search(r'(?i:(?:nan|infinity) in (?:summary )?histogram) for: (weights/)?(\S+)', str(error)):
        step = _next_summary(experiment) - bool(histogram[1])  # Weights are those before the step.
        return NotFinite(f'{histogram[2]} is not finite by step {step}: {NOT_FINITE_HINT}', step)
    return None


def _out_of_memory(experiment):
    params, is_training = experiment.params, experiment.schedule.trains and experiment.status.state is not State.EVALUATING
    name, flag, place = 'batch_size' if is_training else 'eval_batch_size', 'hparams', ''
    if is_training and has_checkpoint(experiment.output_dir):
        fixed_by = params.group_by_length or params.swa_start and not params.swa_every
        can_change = experiment.task.can_change_batch_size and not fixed_by
        flag, place = ('override_hparams', '') if can_change else ('hparams', ', in another --output_dir')
    size = params[name]
    cure = f'one, such as --{flag}={name}={size // 2}{place}' if size > 1 else 'model'
    return RunError(f'out of memory with {name}={size}: use a smaller {cure}')


def _next_summary(experiment):
    """Returns the step whose summaries come next, at the latest."""
    output_dir = experiment.output_dir
    logged = [int(row['global_step']) for row in read_rows(output_dir) if is_of_training(row)]
    saved = checkpoints.steps(output_dir)
    return max(max(logged, default=0) + experiment.options.save_summary_steps, max(saved, default=0) + 1)


def _splits(experiment):
    """Yields (mode, name) of the splits read by a run."""
    schedule, options = experiment.schedule, experiment.options
    if experiment.source.has_input_fn():  # Its records are unknown.
        return
    if schedule.trains:
        yield ModeKeys.TRAIN, experiment.params.train_split
    if schedule.evaluates and not options.input:
        for split in options.eval_splits:
            yield ModeKeys.EVAL, split
    if schedule.predicts and not options.input:
        yield ModeKeys.PREDICT, options.predict_split
