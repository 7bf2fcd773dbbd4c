"""The Estimators of a run, of every kind of model module."""

from collections.abc import Sequence
import functools
import types

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import TrainingTask
from estimator_trainer.common.console import quiet
from estimator_trainer.common.errors import UsageError, first_line
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.plugins import estimator_contract
from estimator_trainer.common.plugins.module_check import makes_step
from estimator_trainer.common.plugins.own_train import OwnTrain, has_own_train
from estimator_trainer.common.storage.checkpoints import has_checkpoint
from estimator_trainer.common.training.estimator_fn import EstimatorFn
from estimator_trainer.common.training.model_fn import ModelFn
from estimator_trainer.common.training.numerics import check_numerics
from estimator_trainer.common.training.reproducibility import seeded
from estimator_trainer.common.training.training import Training


def make_estimators(
    model: types.ModuleType, source: DataSource, devices: Sequence[str], training: Training, config: tf.estimator.RunConfig
) -> tuple[tf.estimator.Estimator, tf.estimator.Estimator]:
    """Returns the Estimators for training and evaluation: only the former uses parameter servers.

    Args:
      model: a model module.
      devices: of the towers.

    Raises:
      UsageError: an option does not go with a module that makes its own training step.
    """
    _check_options(model, source, training.options, training.task)
    make = _own_estimator if makes_step(model) else _estimator
    with quiet():  # The Estimator logs its entire configuration.
        trained = make(model, source, devices, training, config)
        return trained, make(model, source, devices, training, config.replace(device_fn=None)) if config.device_fn else trained


def _estimator(model, source, devices, training, config):
    model_fn = ModelFn(model, devices, training, source.names_read)
    checked = check_numerics(model_fn) if training.options.debug_numerics else model_fn
    return tf.estimator.Estimator(checked, config=config, params=source.recorded)


def _own_estimator(model, source, devices, training, config):
    made = estimator_contract.make_estimator(model, config, source.recorded)
    _check_warm_start(f'--model={source.params.model}: estimator()', made)
    is_own = has_own_train(made)
    if is_own:
        _check_own_train(source.params.model, devices, training)

    def make(model_fn):
        arguments = source.module, training, source.recorded, source.names_read, devices, is_own
        return EstimatorFn(model_fn, *arguments)

    def wrap(model_fn):
        return check_numerics(make(model_fn)) if training.options.debug_numerics else make(model_fn)

    if is_own:
        seed = functools.partial(seeded, source.params.seed)
        batch = None if source.has_input_fn() else functools.partial(make(made.model_fn).program_batch, is_training=True)
        return OwnTrain(made, f'--model={source.params.model}: estimator()', make, seed, batch)
    return estimator_contract.wrap_model_fn(made, wrap)


def _check_own_train(model, devices, training):
    """Raises UsageError if something needs to know the graphs of a `train` of the Estimator's own, or when it saves."""
    options = training.options
    given = {
        'a cluster': not training.task.decides_alone,
        '--num_towers and --num_gpus': bool(devices),
        f'--steps_per_loop={options.steps_per_loop}': (options.steps_per_loop or 1) > 1,
        '--keep_checkpoint_max=1': options.keep_checkpoint_max == 1,
        f'--from_step={options.from_step}': options.from_step is not None,
        f'--warm_start_from={options.warm_start_from}': bool(options.warm_start_from),
        '--overwrite': options.overwrite,
        '--debug_numerics': options.debug_numerics,
    }
    for name, is_given in given.items():
        if is_given:
            raise UsageError(f'--model={model}: estimator() has a train() of its own, which excludes {name}')


def _check_warm_start(source: str, estimator: tf.estimator.Estimator) -> None:
    """Raises UsageError if the checkpoint of an Estimator's warm_start_from is missing; a run that resumes needs none."""
    if not estimator._warm_start_settings:
        return
    if has_checkpoint(estimator.model_dir):
        estimator._warm_start_settings = None
        return
    path = estimator._warm_start_settings.ckpt_to_initialize_from
    try:
        tf.train.load_checkpoint(path)
    except (ValueError, tf.errors.OpError) as error:
        raise UsageError(f'{source}: warm_start_from={path}: is no checkpoint: {first_line(error)}') from None


def _check_options(model: types.ModuleType, source: DataSource, options: Options, task: TrainingTask) -> None:
    """Raises UsageError if an option requires that the framework makes the batches or the training step."""
    if source.has_input_fn() and (options.overfit_batches or task.batch_parts > 1 and not makes_step(model)):
        name = '--overfit_batches' if options.overfit_batches else 'a cluster without parameter servers'
        raise UsageError(
            f'--dataset={source.params.dataset} makes its own batches, which excludes {name}: omit it, or define read() and '
            'parse() in place of input_fn()'
        )
    _check_margins(model, source, options, task)
    if not makes_step(model):
        return
    given = {
        f'--freeze={options.freeze}': bool(options.freeze),
        'embeddings': bool(source.vectors),
        '--precision=float16': options.precision == 'float16',
    }
    for name, is_given in given.items():
        if is_given:
            raise UsageError(
                f'--model={source.params.model} makes its own training step, which excludes {name}: omit it, or define model() '
                'in place of model_fn() or estimator()'
            )


def _check_margins(model, source, options, task):
    """Raises UsageError if the framework cannot record margins, or would not know whose they are."""
    reasons = {
        f'--dataset={source.params.dataset}, which makes its own batches': source.has_input_fn(),
        f'--model={source.params.model}, which makes its own training step': makes_step(model),
        'parameter servers, with which the order of the examples depends on time': not task.shares_steps,
    }
    for reason, is_given in reasons.items():
        if options.record_margins and is_given:
            raise UsageError(f'--record_margins excludes {reason}: omit it')
