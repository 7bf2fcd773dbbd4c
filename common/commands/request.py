"""From flags to a run: modules and hyper-parameters, those of the run in the output_dir if it resumes."""

from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import functools
import itertools
import os
from typing import Any

from absl import flags
import tensorflow.compat.v1 as tf

from estimator_trainer.common import processes
from estimator_trainer.common.cluster import local, local_tasks, membership, tf_config
from estimator_trainer.common.cluster.task import Restart
from estimator_trainer.common.cluster.tf_config import ClusterConfig
from estimator_trainer.common.cluster.training_task import ALONE, TrainingTask
from estimator_trainer.common.commands import saved_run
from estimator_trainer.common.commands.flags import arguments, has_output_dir, output_dir, to_options, without_effect
from estimator_trainer.common.commands.saved_run import SavedRun
from estimator_trainer.common.errors import UsageError, check_all
from estimator_trainer.common.files import check_scheme
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.paths import FOLDS, absolute
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.plugins import loader, logger_modules
from estimator_trainer.common.plugins.module_check import check_module, made_of, params_of
from estimator_trainer.common.records import manifest
from estimator_trainer.common.runs import runner, saved_flags, start_over
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.plan import Plan
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import run_dir, run_files
from estimator_trainer.common.training import augmentation
from estimator_trainer.common.training.model_fn import check_hparams
from estimator_trainer.hparams import build, overrides
from estimator_trainer.hparams.text import parse


@dataclasses.dataclass(frozen=True)
class Objects:
    """Objects that a Python program passes in place of text.

    model and dataset are objects with the functions of a module, or None if their flags name modules; hparams are
    hyper-parameters with values of their types; on_metrics see `common.commands.api.train`.
    """

    model: Any = None
    dataset: Any = None
    hparams: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    on_metrics: Callable[[dict[str, Any]], None] | None = None


def load(FLAGS: flags.FlagValues, objects: Objects = Objects(), run: SavedRun | None = None) -> tuple[Any, Any, build.HParams]:
    """Returns the model and dataset modules that the flags name, or the objects, and their hyper-parameters.

    Args:
      run: the run to resume, which has the hyper-parameters that are not given.

    Raises:
      UsageError: there is no such module, it lacks a function, or a hyper-parameter is wrong.
    """
    model = _module('model', FLAGS.model, objects.model)
    dataset = _module('dataset', FLAGS.dataset, objects.dataset)
    # Checked late, as the modules may register file systems.
    check_all(functools.partial(check_scheme, name, FLAGS[name].value or '') for name in names_with(Trait.PATH))
    params = _given(FLAGS, objects, model, dataset, run)
    params, overridden = build.add_overrides(params, FLAGS.override_hparams)
    overridable = getattr(model, 'OVERRIDABLE_HPARAMS', ())
    lacks = getattr(dataset, 'LACKS', ())
    check_all(
        [
            lambda: overrides.check_names(overridden, overridable),
            lambda: check_hparams(params),
            lambda: augmentation.check_lacking(params, lacks, FLAGS.record_margins),
        ]
    )
    return model, dataset, params


def _given(FLAGS, objects, model, dataset, run):
    """Returns the hyper-parameters before --override_hparams."""
    return build.make_hparams(
        FLAGS.model,
        params_of(model),
        FLAGS.dataset,
        params_of(dataset),
        FLAGS.hparams_set,
        FLAGS.hparams,
        objects.hparams,
        run and run.hparams,
        train_steps=FLAGS.train_steps,
        num_epochs=FLAGS.num_epochs,
        seed=FLAGS.seed,
        exclude=FLAGS.exclude,
    )


def _module(kind, name, given):
    if given is None:
        return loader.load(kind, name)
    check_module(kind, name, given)
    return given


def run(
    FLAGS: flags.FlagValues,
    stop: StopOnSignal,
    cluster: ClusterConfig | None = None,
    objects: Objects = Objects(),
    local_cluster: str = '',
) -> dict[str, Any]:
    """Runs the schedule that the flags select and returns the result; see `common.runs.runner.run`.

    Args:
      local_cluster: what has started this task, see `local.end_with_launcher`.
    """
    return runner.run(prepare(FLAGS, objects, stop, local_cluster), cluster)


def opened(
    FLAGS: flags.FlagValues, objects: Objects, stop: StopOnSignal, task: TrainingTask = ALONE, directory: str = ''
) -> contextlib.AbstractContextManager[Experiment]:
    """Returns the context manager of the Experiment that the flags select; see `common.runs.runner.opened`.

    Args:
      directory: where it trains, if not in the output_dir, from which it takes what is not given.
    """
    plan = prepare(FLAGS, objects, stop)
    return runner.opened(dataclasses.replace(plan, task=task, output_dir=directory or plan.output_dir))


def prepare(FLAGS: flags.FlagValues, objects: Objects, stop: StopOnSignal, local_cluster: str = '') -> Plan:
    """Returns the Plan of what the flags select, and tells the user what it takes from the run or ignores."""
    directory = output_dir(FLAGS)
    if has_output_dir(FLAGS) and os.path.exists(os.path.join(directory, FOLDS)):
        raise UsageError(f'--output_dir={directory} has folds: choose another')
    saved = saved_run.take(FLAGS, directory)
    for line in without_effect(FLAGS, {*parse(FLAGS.hparams), *objects.hparams}):
        tf.logging.warning('%s.', line)
    if FLAGS.verify_data:
        manifest.clear_cache()
    logger_modules.check_modules(FLAGS.loggers)
    model, dataset, params = load(FLAGS, objects, saved)
    name = FLAGS.hparams_set if saved else build.find_set(FLAGS.model, FLAGS.dataset, FLAGS.hparams_set)
    given = build.origins(params, name, FLAGS.hparams, objects.hparams, FLAGS.override_hparams)
    if saved:
        saved_run.warn_of_code(saved, params, given)
    kept = {name: FLAGS[name].value for name in names_with(Trait.KEPT)}
    kept |= {saved_flags.DATA_DIR: absolute(FLAGS.data_dir), saved_flags.LOCAL_CLUSTER: local_cluster}
    if SCHEDULES[FLAGS.schedule].trains:
        _tell_of_sets(FLAGS, model, dataset)
        with contextlib.suppress(UsageError):  # The default set may be wrong where another, or a run, takes its place.
            defaults = build.make_hparams(FLAGS.model, params_of(model), FLAGS.dataset, params_of(dataset))
            kept[saved_flags.REPLACED] = saved_run.replaced(params, defaults)
            if saved and saved.has_begun:
                now, changed = build.add_overrides(_given(FLAGS, objects, model, dataset, None), FLAGS.override_hparams)
                saved_run.warn_of_defaults(saved, directory, params, now, changed, saved_run.is_alone(FLAGS))
    source = DataSource(dataset, FLAGS.data_dir, params, given=given)
    return Plan(model, source, directory, to_options(FLAGS), stop, objects.on_metrics, kept)


def _tell_of_sets(FLAGS, model, dataset):
    """Logs that the set of a model or dataset does not apply to a module that is made of it."""
    if build.find_set(FLAGS.model, FLAGS.dataset, FLAGS.hparams_set):
        return
    pairs = itertools.product(made_of('model', FLAGS.model, model), made_of('dataset', FLAGS.dataset, dataset))
    for of_model, of_dataset in pairs:
        if name := build.find_set(of_model, of_dataset, ''):
            used_by = f'--model={of_model} and --dataset={of_dataset}'
            tf.logging.info('The set of %s is not used: --hparams_set=%s gives its values.', used_by, name)


def launch(FLAGS: flags.FlagValues, stop: StopOnSignal) -> dict[str, Any]:
    """Runs the schedule that the flags of trainer.py select, in a cluster if there is one, and returns the result."""
    processes.prepare_restart(['--nooverwrite'], os.environ)  # The run has begun then.
    local_cluster = local.end_with_launcher(os.environ)
    cluster = None if FLAGS.local_cluster else tf_config.read(os.environ)
    if not cluster:
        saved_run.take_local_cluster(FLAGS, output_dir(FLAGS))
    if FLAGS.local_cluster:
        return _run_local_cluster(FLAGS, stop)
    if FLAGS.min_tasks:
        membership.check_config(FLAGS.min_tasks, cluster)
    try:
        return run(FLAGS, stop, cluster, local_cluster=local_cluster)
    except Restart as error:
        stop.exit_if_received()
        processes.restart_process(error, error.environ)
        raise


def _run_local_cluster(FLAGS, stop):
    tf_config.refuse(os.environ, '--local_cluster')
    directory = output_dir(FLAGS)
    load(FLAGS, run=saved_run.take(FLAGS, directory))  # Finds most mistakes before any task starts.
    run_dir.ensure_writable(directory)
    command, counts = [processes.SCRIPT, *arguments(FLAGS, but_for=Trait.LAUNCHER)], local_tasks.parse(FLAGS.local_cluster)
    if FLAGS.overwrite:
        with start_over.locked(directory, to_options(FLAGS)):
            if run_files.is_run(directory):
                local.rehearse(command, counts, stop)
            start_over.delete(directory)
    return local.run(command, counts, directory, FLAGS.restarts, stop, FLAGS.min_tasks)
