"""The model_fn of an Estimator, from a model module, towers and an optimizer."""

from collections.abc import Callable, Sequence
import contextlib
import functools
import re
import types
from typing import Any

import tensorflow.compat.v1 as tf

from common.cluster.training_task import ALONE, TrainingTask
from common.errors import UsageError
from common.monitoring.model_summary import describe
from common.monitoring.profiler import Profiler
from common.monitoring.progress_bar import ProgressBar
from common.monitoring.summaries import Length, TrainingSummaries, measure_wait
from common.options.table import Options
from common.options.values import parse_steps
from common.plugins import dataset_contract, model_contract
from common.training import augmentation, graphs, learning_rate, moving_average, optimizer, saving
from common.training.keras_layers import collect_keras_layers
from common.training.memory_check import check_fits
from common.training.multi_step import MultiStepHook
from common.training.parallel import make_parallel
from common.training.reproducibility import warn_of_random_ops
from common.training.warm_start import warm_start
from hparams.build import HParams

ModeKeys = tf.estimator.ModeKeys


def check_hparams(params: HParams) -> None:
    """Raises UsageError if the hyper-parameters of the learning rate, the optimizer or the augmentation are invalid."""
    learning_rate.check(params)
    optimizer.check(params)
    augmentation.check(params)


class _Inputs(dict):
    kind = ''

    def __missing__(self, key):
        raise UsageError(f'--model and --dataset do not match: missing {self.kind} {key}; the dataset has: {", ".join(self)}')


class Features(_Inputs):
    """Features. Accessing a missing one reports that the model and the dataset do not match."""

    kind = 'feature'


class Labels(_Inputs):
    """Labels. Accessing a missing one reports that the model and the dataset do not match."""

    kind = 'label'


def make_model_fn(
    model: types.ModuleType,
    devices: Sequence[str],
    options: Options,
    total_steps: int,
    num_examples: int = 0,
    checkpoint_periods: Sequence[int] = (1000,),
    task: TrainingTask = ALONE,
    stop=None,
    on_metrics: Callable[[dict[str, Any]], None] | None = None,
) -> Callable[..., tf.estimator.EstimatorSpec]:
    """Makes the model_fn of an Estimator for a model module, for all three modes.

    Args:
      model: module with `model(features, labels, mode, params)` and, optionally, further functions; see docs/modules.md.
      devices: one per tower; empty for no towers. Prediction does not use towers, so that an exported model loads on any
        machine.
      options: the flags; num_gpus and num_towers are ignored.
      total_steps: the global step at which training ends; learning rate schedules need it.
      num_examples: of an epoch; 0 if the data is infinite.
      checkpoint_periods: checkpoints are saved at the multiples of each.
      task: this process's. The chief's hooks are the only ones that write.
      stop: common.runs.stop.StopOnSignal, or None.
      on_metrics: see TrainingSummaries.

    Returns:
      Function (features, labels, mode, params, config).
    """

    def train_spec(features, predictions, example_loss, metrics, params, config):
        loss = tf.reduce_mean(example_loss) + tf.losses.get_regularization_loss()
        with task.local():
            waited, count_wait = measure_wait(features)
        means = task.means(loss)
        train_op = _train_op(model, loss, metrics, count_wait, total_steps, options, params, means)
        loss = means.loss
        with task.local():
            mean_loss, count_loss = tf.metrics.mean(loss)
        train_op = tf.group(train_op, count_loss)
        profiled = parse_steps(options.profile_steps) if options.profile_steps else ()
        visible = [total_steps, *profiled]
        step_hook = task.step_hook(stop) or MultiStepHook(
            train_op, options.steps_per_loop, options.save_summary_steps, checkpoint_periods, visible
        )
        hooks: list[tf.train.SessionRunHook] = [saving.StepCheck(loss)]
        if task.is_chief:
            length = Length(params, num_examples, total_steps)
            every = options.save_summary_steps
            hooks += [
                TrainingSummaries(loss, mean_loss, metrics, waited, every, length, config.model_dir, step_hook, on_metrics),
                saving.CheckpointSaver(config.model_dir, checkpoint_periods),
                ProgressBar(loss, length),
                *([Profiler(profiled, config.model_dir)] if profiled else []),
            ]
        hooks += model_contract.make_hooks(model, ModeKeys.TRAIN, params)
        hooks = task.hooks(hooks, step_hook, means, stop, checkpoint_periods, total_steps, options.steps_per_loop)
        scaffold = task.scaffold(config.keep_checkpoint_max)
        # A worker of an asynchronous training is none of the Estimator's chiefs, whose own hooks are the only ones to run.
        of_chief, of_worker = (hooks, ()) if config.is_chief else ((), hooks)
        return tf.estimator.EstimatorSpec(
            ModeKeys.TRAIN,
            predictions,
            loss,
            train_op,
            scaffold=scaffold,
            training_chief_hooks=of_chief,
            training_hooks=of_worker,
        )

    def model_fn(features, labels, mode, params, config):
        features = Features((name, value) for name, value in features.items() if name != dataset_contract.EXAMPLE_ID)
        labels = None if labels is None else Labels(labels)
        if mode == ModeKeys.PREDICT:
            with tf.name_scope('model'), collect_keras_layers(is_training=False):
                predictions, _ = model_contract.call_model(model, features, None, mode, params)
            outputs = {'predict': tf.estimator.export.PredictOutput(predictions)}
            return tf.estimator.EstimatorSpec(
                mode, predictions, export_outputs=outputs, scaffold=moving_average.restoring_scaffold(params)
            )

        if devices:
            dataset_contract.check_divisible(features, labels, params)

        networks: list[Any] = []

        def tower(features, labels):
            with collect_keras_layers(is_training=mode == ModeKeys.TRAIN) as called:
                if mode == ModeKeys.TRAIN:
                    features, labels = augmentation.augment(features, labels, params)
                predictions, losses = model_contract.call_model(model, features, labels, mode, params)
                if mode == ModeKeys.TRAIN and losses:
                    augmentation.check_used(labels, losses.values(), params)
            networks.extend(called)
            return predictions, losses

        # The scope keeps the model's ops from taking the names of the summaries below, which are shown in TensorBoard.
        with tf.name_scope('model'):
            predictions, losses = make_parallel(tower, devices, features=features, labels=labels)
            example_loss = tf.add_n([*losses.values()])
        with tf.name_scope('metrics'), task.local() if mode == ModeKeys.TRAIN else contextlib.nullcontext():
            metrics = model_contract.call_eval_metrics(model, features, labels, predictions, params)
            metrics |= {f'{model_contract.LOSS_PREFIX}{name}': tf.metrics.mean(loss) for name, loss in losses.items() if name}
        if mode == ModeKeys.EVAL:
            return _eval_spec(predictions, example_loss, metrics, model_contract.make_hooks(model, mode, params), params)
        for line in describe(features, labels, tf.trainable_variables()):
            tf.logging.info(line)
        if options.warm_start_from:
            variables = [v for v in tf.global_variables() if v is not tf.train.get_global_step()]
            warm_start(options.warm_start_from, variables, options.warm_start_names, options.warm_start_exclude, networks)
        spec = train_spec(features, predictions, example_loss, metrics, params, config)
        warn_of_random_ops(spec.train_op)
        check_fits(
            [spec.train_op, *tf.get_collection(tf.GraphKeys.SUMMARIES), *(update for _, update in metrics.values())],
            params.batch_size // (max(len(devices), 1) * (1 if task.has_whole_batches else task.count)),
        )
        return spec

    return model_fn


def _unfrozen(variables, freeze):
    if not freeze:
        return variables
    frozen = [variable for variable in variables if re.search(freeze, variable.op.name)]
    if not frozen or len(frozen) == len(variables):
        raise UsageError(
            f'--freeze={freeze}: matches {"all" if frozen else "none"} of the variables: '
            f'{", ".join(variable.op.name for variable in variables)}'
        )
    tf.logging.info('Frozen: %s', ', '.join(variable.op.name for variable in frozen))
    return [variable for variable in variables if variable not in frozen]


def _eval_spec(predictions, example_loss, metrics, hooks, params):
    # The Estimator averages the loss over batches, which gives a smaller last batch the weight of a full one. Given a loss
    # per example, it averages over examples; only a tensor of unknown rank passes its check for a scalar.
    loss = tf.placeholder_with_default(example_loss + tf.losses.get_regularization_loss(), shape=None)
    return tf.estimator.EstimatorSpec(
        ModeKeys.EVAL,
        predictions,
        loss,
        eval_metric_ops=metrics,
        scaffold=moving_average.restoring_scaffold(params),
        evaluation_hooks=hooks,
    )


def _weight_reads(tensors):
    """Returns the ops that read weights for `tensors`. They must run before the step updates the weights."""
    handles = {variable.handle.op for variable in tf.trainable_variables() if hasattr(variable, 'handle')}
    reads = [
        op
        for op in graphs.ancestors(tensors)
        if op.type == 'ReadVariableOp' and op.inputs[0].op in handles and not op.control_inputs
    ]
    return sorted(reads, key=lambda op: op.name)


def _train_op(model, loss, metrics, count_wait, total_steps, options, params, average):
    """Returns the op that runs a training step."""
    step = tf.train.get_or_create_global_step()
    make_optimizer = (
        functools.partial(model_contract.make_optimizer, model) if getattr(model, 'optimizer', None) else optimizer.by_name
    )
    schedule = (
        functools.partial(model_contract.learning_rate, model)
        if getattr(model, 'learning_rate', None)
        else learning_rate.by_name
    )
    if schedule is not learning_rate.by_name and make_optimizer is optimizer.by_name and params.optimizer == 'ftrl':
        raise UsageError(f'--model={params.model}: optimizer=ftrl needs a constant learning rate, without learning_rate()')
    with tf.name_scope('schedule'):
        rate = learning_rate.learning_rate(step, total_steps, params, schedule)
    tf.summary.scalar('learning_rate', rate)
    for variable in tf.trainable_variables():
        tf.summary.histogram(f'weights/{variable.op.name}', variable)
    reads = _weight_reads([*tf.get_collection(tf.GraphKeys.SUMMARIES), *(update for _, update in metrics.values())])
    with tf.control_dependencies([*tf.get_collection(tf.GraphKeys.UPDATE_OPS), count_wait, *reads]):
        trained = _unfrozen(tf.trainable_variables(), options.freeze)
        is_scaled = options.precision == 'float16'
        return optimizer.minimize(loss, trained, rate, step, params, is_scaled, average, make_optimizer)
