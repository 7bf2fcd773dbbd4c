"""One run of a schedule in its output_dir."""

import contextlib
import random
import tempfile
import types
from typing import Any

import numpy as np

from common.data.source import DataSource
from common.monitoring import projector
from common.runs import saved_dataset
from common.runs.diagnosis import diagnose_errors
from common.runs.experiment import make_experiment
from common.runs.options import Options
from common.runs.schedules import SCHEDULES, reads_data
from common.runs.stop import StopOnSignal
from common.storage import checkpoints, run_dir
from common.training.numerics import name_the_op
from common.training.session_config import make_run_config
from hparams import build


def run(model: types.ModuleType, source: DataSource, output_dir: str, options: Options, stop: StopOnSignal) -> dict[str, Any]:
    """Runs the schedule of the options, saves its result in results.json, and returns it.

    Args:
      model: a model module, see README.md.
      source: the dataset; its module's `prepare` is called here.
      output_dir: the run's directory; a dry run uses a temporary one instead.
      options: what to run, and how.
      stop: already entered.

    Raises:
      UsageError: the options, hyper-parameters, modules or the directory are invalid or incompatible.
      RunError: files are missing or corrupt, memory or disk space is insufficient, or the training fails.
    """
    params, schedule, saved = source.params, SCHEDULES[options.schedule], None
    with contextlib.ExitStack() as cleanup:
        if schedule.is_dry_run:
            output_dir = cleanup.enter_context(tempfile.TemporaryDirectory())
        config = make_run_config(output_dir, params.seed, options.training)  # May fail, so before the directory is created.
        free = () if schedule.trains else ('eval_batch_size', *getattr(model, 'INFERENCE_HPARAMS', ()))
        is_resumed = checkpoints.has_checkpoint(output_dir)
        if is_resumed:
            saved = saved_dataset.load(output_dir)
            if saved or not source.has_metadata():
                known = build.add_metadata(params, saved.metadata) if saved else params
                build.compare(known, run_dir.hparams_path(output_dir), free)
        if schedule.trains:
            cleanup.enter_context(_locked_and_recovered(output_dir))
        elif schedule.needs_checkpoint:
            checkpoints.require_checkpoint(output_dir)

        random.seed(params.seed)
        np.random.seed(params.seed)
        if saved and saved.specs and not reads_data(options):
            source = saved_dataset.without_data(source, saved)
        else:
            source = saved_dataset.prepare(source, saved, schedule.trains)
        if is_resumed and not saved:
            build.compare(source.params, run_dir.hparams_path(output_dir), free)
        if schedule.trains:
            build.save(source.params, run_dir.hparams_path(output_dir))
        experiment = make_experiment(model, source, config, options, stop)
        with name_the_op(), diagnose_errors(experiment):
            result = schedule.run(experiment)
            if experiment.evaluators:
                projector.show(experiment.evaluators[0])
        run_dir.save_results(output_dir, result)
    return result


@contextlib.contextmanager
def _locked_and_recovered(output_dir):
    """Locks a directory for a training of this process, and recovers it if an earlier one was killed."""
    run_dir.check_empty(output_dir)
    run_dir.ensure_writable(output_dir)
    with run_dir.lock(output_dir):
        checkpoints.recover(output_dir)
        yield
