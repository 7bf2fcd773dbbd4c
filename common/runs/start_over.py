"""--overwrite: a run starts over in the output_dir of an earlier run."""

from collections.abc import Iterator
import contextlib

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.evaluated_input import aside
from estimator_trainer.common.monitoring.summaries import close_writers
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.paths import real
from estimator_trainer.common.runs import rollback
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import checkpoints, run_dir, run_files
from estimator_trainer.common.training.start_weights import check_source


@contextlib.contextmanager
def locked(output_dir: str, options: Options) -> Iterator[None]:
    """Locks the directory for this process's run; recovers it if an earlier run was killed, unless that is to be overwritten.

    Raises:
      UsageError, RunError: the directory cannot be used, another run trains there, or it has leftovers of an unknown run.
    """
    is_overwritten = options.overwrite and run_files.is_run(output_dir)
    if is_overwritten:
        _check_source(output_dir, options.warm_start_from)
    else:
        run_dir.check_empty(output_dir)
    run_dir.ensure_writable(output_dir)
    with run_dir.lock(output_dir):
        if not is_overwritten:
            rollback.finish(output_dir)
            checkpoints.recover(output_dir)
        yield


def build_graphs(experiment: Experiment) -> None:
    """Builds the graphs of a run that takes the place of another: their errors come before the deletion."""
    if not run_files.is_run(experiment.output_dir):
        return
    estimator = experiment.rehearse()
    with aside(experiment.train_input_fn, estimator.config.tf_random_seed) as (_, batch):  # The training says the rest.
        estimator.model_fn(batch.features, batch.labels, tf.estimator.ModeKeys.TRAIN, estimator.config)
    for evaluator in experiment.evaluators:
        evaluator.metric_names()  # It keeps its graph.


def delete(output_dir: str) -> None:
    """Deletes the run in a locked directory, if there is one."""
    if run_files.is_run(output_dir):
        tf.logging.warning('--overwrite: deleting the run in %s.', output_dir)
        close_writers(output_dir)
        run_files.delete(output_dir)
        checkpoints.recover(output_dir)


def _check_source(output_dir, warm_start_from):
    """Raises UsageError if there are no weights to start from, or the run's deletion would delete them."""
    if not warm_start_from:
        return
    check_source(warm_start_from)
    if f'{real(warm_start_from)}/'.startswith(f'{real(output_dir)}/'):
        raise UsageError(
            f'--warm_start_from={warm_start_from}: is in the directory that --overwrite deletes: choose another --output_dir'
        )
