"""The model_fn of an Estimator, built from a model module, towers and an optimizer."""

from collections.abc import Callable, Sequence
import contextlib
import dataclasses
import types
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import ALONE, TrainingTask
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.keras.layers import collect_keras_layers
from estimator_trainer.common.memory_check import check_fits
from estimator_trainer.common.monitoring.model_summary import describe
from estimator_trainer.common.monitoring.profiler import Profiler
from estimator_trainer.common.monitoring.progress_bar import ProgressBar
from estimator_trainer.common.monitoring.summaries import Length, TrainingSummaries, measure_wait
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.options.values import parse_steps
from estimator_trainer.common.plugins import dataset_contract, model_contract
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.training import augmentation, learning_rate, moving_average, optimizer, saving
from estimator_trainer.common.training.multi_step import MultiStepHook
from estimator_trainer.common.training.parallel import make_parallel
from estimator_trainer.common.training.reproducibility import warn_of_random_ops
from estimator_trainer.common.training.step import make_train_op
from estimator_trainer.common.training.warm_start import warm_start
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS
from estimator_trainer.hparams.text import parse

ModeKeys = tf.estimator.ModeKeys


def check_hparams(params: HParams) -> None:
    """Raises UsageError if the hyper-parameters of the learning rate or the optimizer are invalid."""
    learning_rate.check(params)
    optimizer.check(params)


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


@dataclasses.dataclass(frozen=True, eq=False)
class ModelFn:
    """The model_fn of an Estimator for a model module, for all three modes.

    Attributes:
      model: module with `model(features, labels, mode, params)` and, optionally, further functions; see docs/modules.md.
      devices: one per tower; empty without towers. Prediction does not use towers, so that exported models load on any machine.
      options: the flags; num_gpus and num_towers are ignored.
      total_steps: the global step at which training ends; learning rate schedules need it.
      num_examples: of an epoch; 0 if the data is infinite.
      checkpoint_periods: checkpoints are saved at multiples of each.
      task: this process's. Only the chief's hooks write.
      on_metrics: see TrainingSummaries.
    """

    model: types.ModuleType
    devices: Sequence[str]
    options: Options
    total_steps: int
    num_examples: int = 0
    checkpoint_periods: Sequence[int] = (1000,)
    task: TrainingTask = ALONE
    stop: StopOnSignal = dataclasses.field(default_factory=StopOnSignal)
    on_metrics: Callable[[dict[str, Any]], None] | None = None

    def __call__(self, features, labels, mode, params, config) -> tf.estimator.EstimatorSpec:
        """Builds the EstimatorSpec for tf.estimator.Estimator."""
        features = Features((name, value) for name, value in features.items() if name != dataset_contract.EXAMPLE_ID)
        labels = None if labels is None else Labels(labels)
        if mode == ModeKeys.PREDICT:
            return _predict_spec(self.model, features, params)
        if self.devices:
            dataset_contract.check_divisible(features, labels, params)
        predictions, losses, example_loss, networks = _build(self.model, self.devices, features, labels, mode, params)
        with tf.name_scope('metrics'), self.task.local() if mode == ModeKeys.TRAIN else contextlib.nullcontext():
            metrics = model_contract.call_eval_metrics(self.model, features, labels, predictions, params)
            metrics |= {f'{model_contract.LOSS_PREFIX}{name}': tf.metrics.mean(loss) for name, loss in losses.items() if name}
        if mode == ModeKeys.EVAL:
            hooks = model_contract.make_hooks(self.model, mode, params)
            return _eval_spec(predictions, example_loss, metrics, hooks, params)
        for line in describe(features, labels, tf.trainable_variables()):
            tf.logging.info(line)
        if self.options.warm_start_from:
            variables = [v for v in tf.global_variables() if v is not tf.train.get_global_step()]
            options = self.options
            warm_start(options.warm_start_from, variables, options.warm_start_names, options.warm_start_exclude, networks)
        return self._train_spec(features, predictions, example_loss, losses, metrics, params, config)

    def _train_spec(self, features, predictions, example_loss, losses, metrics, params, config):
        loss = tf.reduce_mean(example_loss) + tf.losses.get_regularization_loss()
        with self.task.local():
            waited, count_wait = measure_wait(features)
        means = self.task.means(loss)
        train_op = make_train_op(self.model, loss, losses, metrics, count_wait, self.total_steps, self.options, params, means)
        with self.task.local():
            mean_loss, count_loss = tf.metrics.mean(means.loss)
        train_op = tf.group(train_op, count_loss)
        hooks = self._hooks(train_op, means, mean_loss, metrics, waited, params, config.model_dir)
        # For the Estimator, an asynchronous worker is not a chief, and only the chief's own hooks run.
        of_chief, of_worker = (hooks, ()) if config.is_chief else ((), hooks)
        spec = tf.estimator.EstimatorSpec(
            ModeKeys.TRAIN,
            predictions,
            means.loss,
            train_op,
            scaffold=self.task.scaffold(config.keep_checkpoint_max),
            training_chief_hooks=of_chief,
            training_hooks=of_worker,
        )
        warn_of_random_ops(train_op)
        check_fits(
            [train_op, *tf.get_collection(tf.GraphKeys.SUMMARIES), *(update for _, update in metrics.values())],
            params.batch_size // (max(len(self.devices), 1) * self.task.batch_parts),
        )
        return spec

    def _hooks(self, train_op, means, mean_loss, metrics, waited, params, output_dir):
        """Returns the training hooks, in the order in which they see a step."""
        options, periods = self.options, self.checkpoint_periods
        profiled = parse_steps(options.profile_steps) if options.profile_steps else ()
        step_hook = self.task.step_hook(self.stop) or MultiStepHook(
            train_op, options.steps_per_loop, options.save_summary_steps, periods, [self.total_steps, *profiled]
        )
        hooks: list[tf.train.SessionRunHook] = [saving.StepCheck(means.loss)]
        if self.task.is_chief:
            length, every = Length(params, self.num_examples, self.total_steps), options.save_summary_steps
            hooks += [
                TrainingSummaries(
                    means.loss, mean_loss, metrics, waited, every, length, output_dir, step_hook, self.on_metrics
                ),
                saving.CheckpointSaver(
                    output_dir, periods, may_drop_variables=_overrides_model(options), may_drop_slots=bool(options.freeze)
                ),
                ProgressBar(means.loss, length),
                *([Profiler(profiled, output_dir)] if profiled else []),
            ]
        hooks += model_contract.make_hooks(self.model, ModeKeys.TRAIN, params)
        return self.task.hooks(hooks, step_hook, means, self.stop, periods, self.total_steps, options.steps_per_loop)


def _overrides_model(options):
    """Whether hyper-parameters of the model's or the dataset's own are changed on resuming."""
    return any(name not in DEFAULTS for name in parse(options.override_hparams, '--override_hparams'))


def _build(model, devices, features, labels, mode, params):
    """Calls the model, once per tower; returns its predictions, {name: loss}, their sum, and its Keras networks."""
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

    # The scope keeps the model's ops from taking the names of the summaries, shown in TensorBoard.
    with tf.name_scope('model'):
        predictions, losses = make_parallel(tower, devices, features=features, labels=labels)
        return predictions, losses, tf.add_n([*losses.values()]), networks


def _predict_spec(model, features, params):
    with tf.name_scope('model'), collect_keras_layers(is_training=False):
        predictions, _ = model_contract.call_model(model, features, None, ModeKeys.PREDICT, params)
    return tf.estimator.EstimatorSpec(
        ModeKeys.PREDICT,
        predictions,
        export_outputs={'predict': tf.estimator.export.PredictOutput(_with_name(predictions, params))},
        scaffold=moving_average.restoring_scaffold(params),
    )


def _with_name(predictions, params):
    """Adds the name of the class, 'class_name', to the outputs of an exported model, if it is known."""
    names, number = params.metadata.get('class_names'), predictions.get('class')
    if not names or number is None or number.shape.rank != 1 or not number.dtype.is_integer or 'class_name' in predictions:
        return predictions
    is_known = (number >= 0) & (number < len(names))
    known = tf.gather(tf.constant(names), tf.where(is_known, number, tf.zeros_like(number)))
    return {**predictions, 'class_name': tf.where(is_known, known, tf.fill(tf.shape(number), ''))}


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
