"""The run of a schedule in its output_dir."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import dataclasses
import functools
import tempfile
import types
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.tf_config import EVALUATOR, PS, ClusterConfig
from estimator_trainer.common.cluster.training_task import ALONE, TrainingTask
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import dumps
from estimator_trainer.common.inference import duplicates
from estimator_trainer.common.monitoring import projector
from estimator_trainer.common.monitoring.summaries import close_writers
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.labels import with_class_counts
from estimator_trainer.common.pipeline.word_coverage import with_word_vectors
from estimator_trainer.common.runs import (
    cluster_task,
    decision,
    parallelism,
    rollback,
    saved_dataset,
    saved_flags,
    start_over,
    tracking,
)
from estimator_trainer.common.runs.diagnosis import diagnose_errors
from estimator_trainer.common.runs.experiment import Experiment, make_experiment
from estimator_trainer.common.runs.recording import recorded
from estimator_trainer.common.runs.schedules import RUN
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import checkpoints, margins_file, run_dir
from estimator_trainer.common.training.loss_watch import offering_replay
from estimator_trainer.common.training.numerics import name_the_op
from estimator_trainer.common.training.reproducibility import seeded
from estimator_trainer.common.training.session_config import make_run_config
from estimator_trainer.hparams import build, comparison, overrides
from estimator_trainer.hparams.text import parse

_COMPARED = 20_000  # Examples of each split, in a description of the data.


def run(
    model: types.ModuleType,
    source: DataSource,
    output_dir: str,
    options: Options,
    stop: StopOnSignal,
    cluster: ClusterConfig | None = None,
    on_metrics: Callable[[dict[str, Any]], None] | None = None,
    kept: Mapping[str, Any] = types.MappingProxyType({}),
) -> Any:
    """Runs the schedule of the options, and returns its result; a summary of the data is text.

    Saves the result in results.json, unless the schedule only looks back.

    In a cluster, chief and workers train together, parameter servers, if any, hold the variables, and an evaluator evaluates
    the checkpoints; the chief runs other schedules alone. Workers and parameter servers do not use the output_dir.

    Args:
      model: a model module, see docs/modules.md.
      source: the dataset; `run` calls its module's `prepare`.
      output_dir: the run's directory; a dry run uses a temporary one instead.
      options: what to run, and how.
      stop: already entered.
      cluster: this process's place in a cluster.
      on_metrics: see `common.commands.api.train`.
      kept: what flags.json keeps of a training: the flags as given, also where the cluster changes them.

    Raises:
      UsageError: the options, hyper-parameters, modules or the directory are invalid or incompatible.
      RunError: files are missing or corrupt, memory or disk space is insufficient, or training fails.
    """
    params, schedule = source.params, SCHEDULES[options.schedule]
    gathered = None
    if cluster and cluster_task.is_elastic(options, cluster):
        gathered = cluster_task.gather(cluster, params, options, output_dir)
        if not gathered:
            return {}
        cluster = gathered.formation.config
    is_worker = cluster is not None and cluster.is_worker
    if cluster and schedule.trains and not schedule.is_dry_run:
        options = cluster_task.options_of_task(model, options, params, cluster)
        schedule = SCHEDULES[options.schedule]
    elif cluster and (is_worker or cluster.job == PS or cluster.job == EVALUATOR and options.schedule != 'continuous_eval'):
        tf.logging.info('--schedule=%s: the chief runs it alone.', options.schedule)
        return {}
    if cluster and cluster.job == PS:
        return cluster_task.serve(cluster, options, stop)
    if options.schedule == 'describe':
        return _describe(source)
    with contextlib.ExitStack() as cleanup:
        task: TrainingTask = ALONE
        if cluster and schedule.trains and not schedule.is_dry_run and (gathered or len(cluster.members) > 1):
            task = cleanup.enter_context(cluster_task.joined(cluster, params, options, gathered))
            if is_worker:  # The chief has the weights.
                options = dataclasses.replace(options, warm_start_from='', from_step=None)
        if cluster and schedule.is_dry_run:
            task = cluster_task.rehearsal(model, options, params, cluster)
        offered: contextlib.AbstractContextManager = offering_replay(output_dir)
        if schedule.is_dry_run or is_worker:
            offered = contextlib.nullcontext()
            options = dataclasses.replace(options, output_dir=output_dir)
            output_dir = cleanup.enter_context(tempfile.TemporaryDirectory())
        if schedule.follows and options.from_step is not None:
            rollback.wait(output_dir, options)
        experiment = cleanup.enter_context(opened(model, source, output_dir, options, stop, task, on_metrics, kept))
        with offered, name_the_op(), diagnose_errors(experiment):
            result = RUN[options.schedule](experiment)
            if experiment.evaluators and not options.input:
                projector.show(experiment.evaluators[0])
        task.leave()
        if not (cluster and cluster.addresses.get(EVALUATOR) and schedule.trains):  # Otherwise the evaluator writes them.
            if result and not schedule.looks_back:  # A server has none.
                run_dir.save_results(output_dir, result)
    return result


def _describe(source):
    source.prepare()
    text = source.summary().rstrip() or f'--dataset={source.params.dataset}: has no summary() of its data'
    source = dataclasses.replace(source, params=build.add_metadata(source.params, source.metadata()))
    found = duplicates.find(source, _COMPARED)
    return '\n'.join([text, *(f'{line}.' for line in (found.warnings() if found else ()))])


@contextlib.contextmanager
def opened(
    model: Any,
    source: DataSource,
    output_dir: str,
    options: Options,
    stop: StopOnSignal,
    task: TrainingTask = ALONE,
    on_metrics: Callable[[dict[str, Any]], None] | None = None,
    kept: Mapping[str, Any] = types.MappingProxyType({}),
) -> Iterator[Experiment]:
    """Yields the Experiment of a run after checking its output_dir, which is locked within the block if the run trains.

    Args and errors as for `run`; task is this process's.
    """
    params, schedule = source.params, SCHEDULES[options.schedule]
    changed = tuple(parse(options.override_hparams, '--override_hparams'))
    is_resumed = checkpoints.has_checkpoint(output_dir) and not options.overwrite
    free = (
        changed
        if schedule.trains
        else (*changed, 'eval_batch_size', 'decision_threshold', *getattr(model, 'INFERENCE_HPARAMS', ()))
    )
    advise = functools.partial(overrides.advise, getattr(model, 'OVERRIDABLE_HPARAMS', ())) if schedule.trains else None
    compare = functools.partial(
        comparison.compare, path=run_dir.hparams_path(output_dir), free=free, advise=advise, given=source.given
    )
    with contextlib.ExitStack() as cleanup:
        # Both may fail, so they precede creating the directory.
        config = make_run_config(output_dir, params.seed, options, task)
        back_to = rollback.target(output_dir, options) if schedule.trains else None
        saved = _saved(source, output_dir, compare, back_to) if is_resumed else None
        status = None
        if schedule.trains:
            cleanup.enter_context(start_over.locked(output_dir, options))
            is_recorded = task.is_chief and not schedule.is_dry_run
            if is_recorded and not options.overwrite and not checkpoints.has_checkpoint(output_dir):
                # By which the directory alone restarts it, even if it is killed while the data is prepared.
                saved_flags.save(output_dir, kept, task.full_count)
                overrides.save(source.params, [], run_dir.hparams_path(output_dir))
            status = cleanup.enter_context(recorded(output_dir if is_recorded else '', is_resumed, stop))
            back_to = rollback.target(output_dir, options)  # Another process may have trained there meanwhile.
            rollback.say_if_done(output_dir, options)
        elif schedule.needs_checkpoint:
            checkpoints.require_checkpoint(output_dir)
        cleanup.enter_context(seeded(params.seed))
        source = _with_data(source, saved, options)
        if not schedule.trains:
            if is_resumed and not saved:
                compare(source.params)
            status = cleanup.enter_context(recorded('', False, stop)) if schedule.follows else None
            experiment = make_experiment(model, source, config, options, stop, task, on_metrics, status)
            experiment.status.tracker = tracking.tracker_of(experiment) if schedule.follows else None
            yield experiment
            return
        if is_resumed:
            decision.check(source.params)
        else:
            decision.check_start(model, source.params)
        source = with_word_vectors(with_class_counts(source))
        text = source.summary() if task.is_chief else ''
        if text:
            tf.logging.info('%s', text)
        history, step = ([], 0) if options.overwrite else _history(source.params, output_dir, changed, compare, back_to)
        source = dataclasses.replace(source, params=_with_history(source.params, history, task))
        experiment = make_experiment(model, source, config, options, stop, task, on_metrics, status)
        if back_to is not None:
            rollback.check_length(options, back_to, experiment.train_steps)
        _begin(experiment, options, back_to, text, kept, history, step)
        cleanup.callback(close_writers, output_dir)
        experiment.status.tracker = tracking.tracker_of(experiment)
        yield experiment


def _begin(experiment, options, back_to, text, kept, history, step):
    """Writes what a training begins with, once nothing is left to check; arguments as in `opened` and `_history`."""
    output_dir = experiment.estimator.model_dir
    if options.overwrite and experiment.task.is_chief:
        with seeded(experiment.source.params.seed), name_the_op(), diagnose_errors(experiment):
            start_over.build_graphs(experiment)
        start_over.delete(output_dir)
    if back_to is not None:
        rollback.roll_back(output_dir, back_to, options)
    if not options.record_margins and margins_file.exists(output_dir):
        margins_file.restart(output_dir, experiment.source.params.examples_at(step))  # Those of other steps will follow.
    if text:
        run_dir.save_summary(output_dir, text)
    kept = {**kept, saved_flags.PARALLELISM: parallelism.of(experiment.options)}
    kept[saved_flags.ASYNCHRONOUS] = experiment.task.batch_parts < experiment.task.count
    if not step or step < experiment.train_steps:
        (saved_flags.update if step else saved_flags.save)(output_dir, kept, experiment.task.full_count)
        overrides.save(experiment.source.params, history, run_dir.hparams_path(output_dir))


def _saved(source, output_dir, compare, back_to):
    """Returns the SavedDataset of a run, or None; checks that its hyper-parameters are the same."""
    saved = saved_dataset.load(output_dir)
    if saved or not source.has_metadata():  # Otherwise the data must be prepared first.
        params = build.add_metadata(source.params, saved.metadata) if saved else source.params
        compare(params, before=back_to)
    return saved


def _with_data(source, saved, options):
    """Returns the DataSource with its data prepared, or with the saved metadata if the run reads no split."""
    if saved and saved.specs and not _reads_data(options):
        return saved_dataset.without_data(source, saved)
    tf.logging.info('Checking the data: %s.', source.data_dir)
    return saved_dataset.prepare(source, saved, SCHEDULES[options.schedule].trains)


def _reads_data(options):
    """Whether a run reads splits of its dataset."""
    schedule = SCHEDULES[options.schedule]
    is_of_split = (schedule.evaluates or schedule.predicts) and not options.input
    return schedule.trains or schedule.looks_back or is_of_split or options.quantize == 'int8'


def _history(params, output_dir, names, compare, back_to):
    """Returns the history of a run's hyper-parameters, including changes on resuming, and the step of the change.

    Args:
      back_to: the step to which the run goes back, without the changes since, or None.
    """
    path, history, step = run_dir.hparams_path(output_dir), [], 0
    if checkpoints.has_checkpoint(output_dir):
        saved = compare(params, before=back_to)
        latest = checkpoints.global_step(tf.train.latest_checkpoint(output_dir))
        history, step = overrides.read_history(path), latest if back_to is None else back_to
        history = [entry for entry in history if back_to is None or entry['global_step'] < back_to]
        history = overrides.add_entry(history, saved, params, names, step)
        for entry in history:
            for name, (old, new) in entry['hparams'].items():
                tf.logging.info('From step %d on: %s is %s; it was %s.', entry['global_step'], name, dumps(new), dumps(old))
    return history, step


def _with_history(params, history, task):
    """Returns hyper-parameters with the step at which batch_size changed."""
    batch_start = overrides.batch_start(history)
    if batch_start != (0, 0) and (not task.can_change_batch_size or params.group_by_length):
        raise UsageError(
            f'--override_hparams: batch_size changed at step {batch_start[0]}, after which this run cannot continue '
            f'{"with group_by_length" if task.can_change_batch_size else "in a cluster"}: start over in another --output_dir'
        )
    return params.with_batch_start(batch_start)
