"""From flags to a run: the modules, the hyper-parameters, what the run in an output_dir was given."""

from collections.abc import Callable, Mapping
import contextlib
import dataclasses
from typing import Any

from absl import flags
import tensorflow.compat.v1 as tf

from common.cluster.tf_config import ClusterConfig
from common.data import manifest
from common.data.source import DataSource
from common.file_systems import check_scheme
from common.options.entry import Trait
from common.options.schedule import SCHEDULES
from common.options.table import names_with
from common.plugins import loader
from common.runs import runner, saved_run
from common.runs.experiment import Experiment
from common.runs.flags import to_options
from common.stop import StopOnSignal
from common.training.model_fn import check_hparams
from hparams import build, overrides


@dataclasses.dataclass(frozen=True)
class Objects:
    """What a Python program gives in place of text.

    model and dataset are objects with the functions of a module, or None if their flags name modules; hparams are
    hyper-parameters with values of their types; on_metrics see `common.runs.api.train`.
    """

    model: Any = None
    dataset: Any = None
    hparams: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    on_metrics: Callable[[dict[str, Any]], None] | None = None


def load(FLAGS: flags.FlagValues, objects: Objects = Objects()) -> tuple[Any, Any, build.HParams]:
    """Returns the model and dataset modules that the flags name, or the objects, and their hyper-parameters.

    Raises:
      UsageError: there is no such module, it lacks a function, or a hyper-parameter is wrong.
    """
    model = _module('model', FLAGS.model, objects.model)
    dataset = _module('dataset', FLAGS.dataset, objects.dataset)
    for name in names_with(Trait.PATH):  # Only now, as the modules may register file systems.
        check_scheme(name, FLAGS[name].value or '')
    params = build.make_hparams(
        FLAGS.model,
        model.get_params(),
        FLAGS.dataset,
        dataset.get_params(),
        FLAGS.hparams_set,
        FLAGS.hparams,
        objects.hparams,
        train_steps=FLAGS.train_steps,
        num_epochs=FLAGS.num_epochs,
        seed=FLAGS.seed,
    )
    params, overridden = build.add_overrides(params, FLAGS.override_hparams)
    overrides.check_names(overridden, getattr(model, 'OVERRIDABLE_HPARAMS', ()))
    check_hparams(params)
    return model, dataset, params


def _module(kind, name, given):
    if given is None:
        return loader.load(kind, name)
    loader.check_module(kind, name, given)
    return given


def output_dir(FLAGS: flags.FlagValues) -> str:
    """Returns the output_dir that the flags select."""
    return FLAGS.output_dir or f'output/{FLAGS.dataset}/{FLAGS.model}'


def run(
    FLAGS: flags.FlagValues, stop: StopOnSignal, cluster: ClusterConfig | None = None, objects: Objects = Objects()
) -> dict[str, Any]:
    """Runs the schedule that the flags select and returns the result; see `common.runs.runner.run`."""
    model, source = _prepare(FLAGS, objects)
    return runner.run(model, source, output_dir(FLAGS), to_options(FLAGS), stop, cluster, objects.on_metrics)


def opened(FLAGS: flags.FlagValues, objects: Objects, stop: StopOnSignal) -> contextlib.AbstractContextManager[Experiment]:
    """Returns the context manager of the Experiment that the flags select; see `common.runs.runner.opened`."""
    model, source = _prepare(FLAGS, objects)
    return runner.opened(model, source, output_dir(FLAGS), to_options(FLAGS), stop)


def _prepare(FLAGS, objects):
    """Returns the model module and the DataSource."""
    if not SCHEDULES[FLAGS.schedule].trains:
        _take_from_run(FLAGS)
    if FLAGS.verify_data:
        manifest.clear_cache()
    model, dataset, params = load(FLAGS, objects)
    return model, DataSource(dataset, FLAGS.data_dir, params)


def _take_from_run(FLAGS):
    """Sets the flags that are not given to what the training in the output_dir was given."""
    found = saved_run.settings(output_dir(FLAGS))
    if any(FLAGS[name].present and FLAGS[name].value != found.get(name) for name in ('model', 'dataset')):
        return  # The comparison with the saved hyper-parameters says what differs.
    taken = [name for name in found if not FLAGS[name].present]
    for name in taken:
        FLAGS[name].value = found[name]
    if taken:
        tf.logging.info('From the run: %s.', ', '.join(f'--{name}={found[name]}' for name in taken))
