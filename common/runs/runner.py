"""The run of a schedule in its output_dir."""

from collections.abc import Iterator
import contextlib
import dataclasses
import tempfile
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.tf_config import EVALUATOR, PS, ClusterConfig
from estimator_trainer.common.files import write
from estimator_trainer.common.inference import duplicates
from estimator_trainer.common.monitoring import projector
from estimator_trainer.common.monitoring.summaries import close_writers
from estimator_trainer.common.pipeline.labels import with_class_counts
from estimator_trainer.common.pipeline.word_coverage import with_word_vectors
from estimator_trainer.common.runs import (
    cluster_task,
    decision,
    parallelism,
    rollback,
    saved_dataset,
    saved_flags,
    saved_hparams,
    start_over,
    tracking,
)
from estimator_trainer.common.runs.diagnosis import diagnose_errors
from estimator_trainer.common.runs.experiment import Experiment, make_experiment
from estimator_trainer.common.runs.plan import Plan
from estimator_trainer.common.runs.recording import recorded
from estimator_trainer.common.runs.schedules import RUN
from estimator_trainer.common.storage import checkpoints, margins_file, run_dir
from estimator_trainer.common.training.loss_watch import offering_replay
from estimator_trainer.common.training.numerics import name_the_op
from estimator_trainer.common.training.reproducibility import seeded
from estimator_trainer.common.training.session_config import make_run_config
from estimator_trainer.hparams import build, overrides

_COMPARED = 20_000  # Examples of each split, in a description of the data.


def run(plan: Plan, cluster: ClusterConfig | None = None) -> Any:
    """Runs the schedule of a plan, and returns its result; a summary of the data is text.

    Saves the result in results.json, unless the schedule only looks back. A dry run uses a temporary directory.

    In a cluster, chief and workers train together, parameter servers, if any, hold the variables, and an evaluator evaluates
    the checkpoints; the chief runs other schedules alone. Workers and parameter servers do not use the output_dir.

    Args:
      cluster: this process's place in a cluster.

    Raises:
      UsageError: the options, hyper-parameters, modules or the directory are invalid or incompatible.
      RunError: files are missing or corrupt, memory or disk space is insufficient, or training fails.
    """
    gathered = None
    if cluster and cluster_task.is_elastic(plan.options, cluster):
        gathered = cluster_task.gather(cluster, plan.params, plan.options, plan.output_dir)
        if not gathered:
            return {}
        cluster = gathered.formation.config
    if cluster and plan.schedule.trains and not plan.schedule.is_dry_run:
        plan = dataclasses.replace(plan, options=cluster_task.options_of_task(plan, cluster))
    elif cluster and cluster_task.is_idle(plan, cluster):
        tf.logging.info('--schedule=%s: the chief runs it alone.', plan.options.schedule)
        return {}
    if cluster and cluster.job == PS:
        return cluster_task.serve(cluster, plan.options, plan.stop)
    if plan.options.schedule == 'describe':
        return _describe(plan.source)
    has_evaluator = cluster is not None and bool(cluster.addresses.get(EVALUATOR))  # Which saves the result of a run.
    saves_result = not plan.schedule.looks_back and not (has_evaluator and plan.schedule.trains)
    with cluster_task.task_of(plan, cluster, gathered) as task:
        return _run(dataclasses.replace(plan, task=task), saves_result)


def _run(plan, saves_result):
    with contextlib.ExitStack() as cleanup:
        offered: contextlib.AbstractContextManager = offering_replay(plan.output_dir)
        if not plan.task.is_chief:  # The chief has the weights.
            plan = plan.with_options(warm_start_from='', from_step=None)
        if plan.schedule.is_dry_run or not plan.task.is_chief:
            offered, directory = contextlib.nullcontext(), cleanup.enter_context(tempfile.TemporaryDirectory())
            plan = dataclasses.replace(plan.with_options(output_dir=plan.output_dir), output_dir=directory)
        if plan.schedule.follows and plan.options.from_step is not None:
            rollback.wait(plan.output_dir, plan.options)
        experiment = cleanup.enter_context(opened(plan))
        with offered, name_the_op(), diagnose_errors(experiment):
            result = RUN[plan.options.schedule](experiment)
            if experiment.evaluators and not plan.options.input:
                projector.show(experiment.evaluators[0])
        plan.task.leave()
        if result and saves_result:  # A server has none.
            run_dir.save_results(plan.output_dir, result)
    return result


def _describe(source):
    source.prepare()
    text = source.summary().rstrip() or f'--dataset={source.params.dataset}: has no summary() of its data'
    source = dataclasses.replace(source, params=build.add_metadata(source.params, source.metadata()))
    found = duplicates.find(source, _COMPARED)
    return '\n'.join([text, *(f'{line}.' for line in (found.warnings() if found else ()))])


@contextlib.contextmanager
def opened(plan: Plan) -> Iterator[Experiment]:
    """Yields the Experiment of a run after checking its output_dir, which is locked within the block if the run trains.

    Raises:
      UsageError, RunError: as of `run`.
    """
    # May fail, so before there is a directory.
    config = make_run_config(plan.output_dir, plan.params.seed, plan.options, plan.task)
    with (_training if plan.schedule.trains else _using)(plan, config) as experiment:
        if plan.schedule.trains or plan.schedule.follows:
            experiment.status.tracker = tracking.tracker_of(experiment)
        yield experiment


@contextlib.contextmanager
def _using(plan, config):
    """Yields the Experiment of a schedule that does not train."""
    is_begun = checkpoints.has_checkpoint(plan.output_dir)
    saved = _saved(plan) if is_begun else None
    if plan.schedule.needs_checkpoint:
        checkpoints.require_checkpoint(plan.output_dir)
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(seeded(plan.params.seed))
        plan = dataclasses.replace(plan, source=_with_data(plan, saved))
        if is_begun and not saved:
            saved_hparams.compare(plan, plan.params)
        if is_begun and (plan.schedule.follows or plan.schedule.looks_back):
            plan = dataclasses.replace(plan, source=saved_hparams.with_batch_start(plan))
        status = cleanup.enter_context(recorded('', False, plan.stop)) if plan.schedule.follows else None
        yield make_experiment(plan, config, status)


@contextlib.contextmanager
def _training(plan, config):
    """Yields the Experiment of a schedule that trains, once nothing is left to check but the graph of a run that resumes."""
    output_dir, options = plan.output_dir, plan.options
    is_resumed, back_to = checkpoints.has_checkpoint(output_dir) and not options.overwrite, rollback.target(output_dir, options)
    saved = _saved(plan, back_to) if is_resumed else None
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(start_over.locked(output_dir, options))
        is_recorded = plan.task.is_chief and not plan.schedule.is_dry_run
        if is_recorded and not options.overwrite and not checkpoints.has_checkpoint(output_dir):
            # By which the directory alone restarts it, even if it is killed while the data is prepared.
            _record(plan, plan.kept, [], 0)
        status = cleanup.enter_context(recorded(output_dir if is_recorded else '', is_resumed, plan.stop))
        back_to = rollback.target(output_dir, options)  # Another process may have trained there meanwhile.
        rollback.say_if_done(output_dir, options)
        cleanup.enter_context(seeded(plan.params.seed))
        plan = dataclasses.replace(plan, source=_with_data(plan, saved))
        if is_resumed:
            decision.check(plan.params)
        else:
            decision.check_start(plan.model, plan.params)
        source = with_word_vectors(with_class_counts(plan.source))
        text = source.summary() if plan.task.is_chief else ''
        for line in text.splitlines():
            tf.logging.info('%s', line)
        params, history, step = saved_hparams.with_history(plan, source.params, back_to)
        plan = dataclasses.replace(plan, source=dataclasses.replace(source, params=params))
        experiment = make_experiment(plan, config, status)
        if back_to is not None:
            rollback.check_length(options, back_to, experiment.train_steps)
        cleanup.callback(close_writers, output_dir)
        yield _begun(plan, experiment, back_to, text, history, step)


def _begun(plan, experiment, back_to, text, history, step):
    """Writes what a run begins with, and returns the experiment, which records the rest; arguments as in `_training`."""
    output_dir, options = plan.output_dir, plan.options  # As given: those of the experiment have what was chosen.
    if options.overwrite and plan.task.is_chief:
        with seeded(plan.params.seed), name_the_op(), diagnose_errors(experiment):
            start_over.build_graphs(experiment)
        start_over.delete(output_dir)
    if back_to is not None:
        rollback.roll_back(output_dir, back_to, options)
    kept = {**plan.kept, saved_flags.PARALLELISM: parallelism.of(experiment.options)}
    kept[saved_flags.ASYNCHRONOUS] = not plan.task.shares_steps

    def record():
        if not options.record_margins and margins_file.exists(output_dir):
            margins_file.restart(output_dir, plan.params.examples_at(step))  # Those of other steps will follow.
        if text:
            write(run_dir.summary_path(output_dir), text)
        _record(plan, kept, history, step)

    if checkpoints.has_checkpoint(output_dir):
        return dataclasses.replace(experiment, record=record)
    record()
    return experiment


def _record(plan, kept, history, step):
    """Writes flags.json and hparams.json."""
    saved_flags.save(plan.output_dir, kept, plan.task.full_count, step)
    overrides.save(plan.params, history, run_dir.hparams_path(plan.output_dir))


def _saved(plan, back_to=None):
    """Returns the SavedDataset of a run, or None; checks that its hyper-parameters are the same."""
    saved = saved_dataset.load(plan.output_dir)
    if saved or not plan.source.has_metadata():  # Otherwise the data must be prepared first.
        saved_hparams.compare(plan, build.add_metadata(plan.params, saved.metadata) if saved else plan.params, back_to)
    return saved


def _with_data(plan, saved):
    """Returns the DataSource with its data prepared, or with the saved metadata if the run reads no split."""
    if saved and saved.specs and not _reads_data(plan):
        return saved_dataset.without_data(plan.source, saved)
    tf.logging.info('Checking the data: %s.', plan.source.data_dir)
    source = saved_dataset.prepare(plan.source, saved, plan.schedule.trains)
    if saved and not plan.schedule.trains and (splits := _splits(plan)):
        saved_dataset.warn_of_changes(source, saved, splits)
    return source


def _reads_data(plan):
    """Whether a run reads splits of its dataset."""
    schedule = plan.schedule
    return schedule.trains or schedule.looks_back or bool(_splits(plan)) or plan.options.quantize == 'int8'


def _splits(plan):
    """Returns the splits that a schedule evaluates or predicts."""
    schedule, options = plan.schedule, plan.options
    if options.input:
        return []
    return [*(options.eval_splits if schedule.evaluates else ()), *([options.predict_split] if schedule.predicts else ())]
