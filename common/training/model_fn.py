"""The model_fn of an Estimator, built from a model module, towers and an optimizer."""

from collections.abc import Collection, Sequence
import contextlib
import dataclasses
import functools
import math
import types
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import folds
from estimator_trainer.common.errors import UsageError, check_all
from estimator_trainer.common.keras.layers import collect_keras_layers
from estimator_trainer.common.monitoring.model_summary import describe
from estimator_trainer.common.monitoring.summaries import measure_wait
from estimator_trainer.common.ops.mixed_precision import training_in
from estimator_trainer.common.ops.scores import scores
from estimator_trainer.common.ops.words import starting_from
from estimator_trainer.common.plugins import dataset_contract, model_contract
from estimator_trainer.common.plugins.estimator_contract import named
from estimator_trainer.common.training import (
    augmentation,
    filter_gradients,
    learning_rate,
    moving_average,
    observed,
    optimizer,
    stochastic_average,
)
from estimator_trainer.common.training.class_names import with_class_name
from estimator_trainer.common.training.margins import Margins
from estimator_trainer.common.training.parallel import make_parallel
from estimator_trainer.common.training.recalibration import NUM_BATCHES, Recalibration
from estimator_trainer.common.training.step import make_train_op
from estimator_trainer.common.training.training import Step, Training
from estimator_trainer.common.training.warm_start import warm_start
from estimator_trainer.hparams.build import HParams

ModeKeys = tf.estimator.ModeKeys


def check_hparams(params: HParams) -> None:
    """Raises UsageError if the hyper-parameters of the learning rate, the optimizer, the average or the folds are invalid."""
    of_folds = functools.partial(folds.check, params.folds, params.fold)
    of_training = [functools.partial(part.check, params) for part in (learning_rate, optimizer, stochastic_average)]
    check_all([*of_training, of_folds])


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
      training: how it is trained.
      names_read: the hyper-parameters that the dataset's `input_fn` and this function have read, if given a ReadHParams.
    """

    model: types.ModuleType
    devices: Sequence[str]
    training: Training
    names_read: Collection[str] = ()

    def __call__(self, features, labels, mode, params, config) -> tf.estimator.EstimatorSpec:
        """Builds the EstimatorSpec for tf.estimator.Estimator."""
        given = named(features, 'features')
        features = Features((name, value) for name, value in given.items() if name != dataset_contract.EXAMPLE_ID)
        if mode == ModeKeys.PREDICT:
            return _predict_spec(self.model, features, params)
        labels = Labels(named(labels, 'label'))
        if self.devices:
            dataset_contract.check_divisible(features, labels, params)
        if mode == ModeKeys.TRAIN:
            augmentation.warn_of_unchanged(features, labels, params)
            _warn_of_rest(self.training.total_steps, params)
        vectors = self.training.vectors if mode == ModeKeys.TRAIN else None
        precision = self.training.options.precision
        with starting_from(vectors, self.training.given), filter_gradients.faster(precision), training_in(precision):
            built = build_networks(self.model, self.devices, features, labels, mode, params)
        predictions, losses, example_loss, networks, moved = built
        labels = Labels({**labels, **moved})
        with tf.name_scope('metrics'), self.training.task.local() if mode == ModeKeys.TRAIN else contextlib.nullcontext():
            metrics = model_contract.call_eval_metrics(self.model, features, labels, predictions, params)
            metrics |= {f'{model_contract.LOSS_PREFIX}{name}': tf.metrics.mean(loss) for name, loss in losses.items() if name}
        if mode == ModeKeys.EVAL:
            hooks = model_contract.make_hooks(self.model, mode, params)
            metrics = scores(labels, predictions) | metrics
            return _eval_spec(predictions, example_loss, metrics, hooks, params)
        for line in describe(features, labels, tf.trainable_variables()):
            tf.logging.info(line)
        warm_start(self.training.options, networks)
        margins = None
        if self.training.options.record_margins:
            margins = Margins(
                labels, predictions, params, config.model_dir, self.training.checkpoint_periods, self.training.task
            )
        return self._train_spec(features, predictions, example_loss, losses, metrics, params, config, margins)

    def _train_spec(self, features, predictions, example_loss, losses, metrics, params, config, margins):
        training, options = self.training, self.training.options
        tf.add_to_collection(observed.EXAMPLE_LOSS, example_loss)
        loss = tf.reduce_mean(example_loss) + tf.losses.get_regularization_loss()
        with training.task.local():
            waited, count_wait = measure_wait(features)
            count_wait = tf.group(count_wait, margins.op) if margins else count_wait
        means = training.task.means(loss, params)
        train_op = make_train_op(self.model, loss, losses, metrics, count_wait, training.total_steps, options, params, means)
        before_saving = None
        if params.swa_start:
            epoch_steps = math.ceil(training.num_examples / params.batch_size)
            train_op = self._averaged(train_op, epoch_steps, params)
            before_saving = self._recalibration(epoch_steps, params, config.tf_random_seed)
        hooks = model_contract.make_hooks(self.model, ModeKeys.TRAIN, params)
        training.check_effects(self.model, params, self.names_read, config.model_dir)
        step = Step(features, predictions, means, train_op, metrics, waited, hooks, max(len(self.devices), 1))
        return training.make_spec(step._replace(before_saving=before_saving, margins=margins), params, config)

    def _averaged(self, train_op, epoch_steps, params):
        """Returns the op of a training step that also averages the weights, see `stochastic_average`."""
        training = self.training
        stochastic_average.check_steps(params, epoch_steps, training.total_steps, not training.task.shares_steps)
        every = params.swa_every or epoch_steps
        return stochastic_average.with_averages(train_op, tf.train.get_global_step(), every, params)

    def _recalibration(self, epoch_steps, params, seed):
        """Returns what recomputes batch norm's statistics for averaged weights; None without batch norm."""
        training = self.training
        if not stochastic_average.statistics():
            return None
        if training.has_input_fn:
            raise UsageError(
                f'swa_start: --dataset={params.dataset} makes its own batches, over which the statistics of batch norm cannot '
                'be recomputed: use ema_decay, or another normalization'
            )

        def build():
            iterator = tf.data.make_initializable_iterator(training.plain_input_fn())
            features, labels = iterator.get_next()
            given = {name: value for name, value in features.items() if name != dataset_contract.EXAMPLE_ID}
            build_networks(self.model, (), Features(given), Labels(labels), ModeKeys.TRAIN, params)
            return iterator.initializer

        num_batches = min(epoch_steps or NUM_BATCHES, NUM_BATCHES)
        return Recalibration(build, params.swa_start, num_batches, seed)


def _warn_of_rest(total_steps, params):
    """Warns of steps at the end whose gradients are accumulated in vain."""
    count = params.gradient_accumulation_steps
    if total_steps > 1 and (rest := total_steps % count):
        tf.logging.warning(
            'gradient_accumulation_steps=%d: of %d steps, the last %d change no weights: their gradients wait for %d more.',
            *(count, total_steps, rest, count - rest),
        )


def build_networks(
    model: types.ModuleType, devices: Sequence[str], features: Features, labels: Labels, mode: str, params: HParams
) -> tuple[Any, dict[str, tf.Tensor], tf.Tensor, list[Any], dict[str, tf.Tensor]]:
    """Calls the model, once per tower; returns its predictions, {name: loss}, their sum, its Keras networks, and moved labels.

    The latter are labels that augmentation has changed with the features, such as masks: those of the predictions.
    """
    networks: list[Any] = []

    def tower(features, labels):
        given = labels
        with collect_keras_layers(is_training=mode == ModeKeys.TRAIN) as called:
            if mode == ModeKeys.TRAIN:
                features, labels = augmentation.augment(features, labels, params)
                tf.add_to_collection(observed.FEATURES, dict(features))
            predictions, losses = model_contract.call_model(model, features, labels, mode, params)
            if mode == ModeKeys.TRAIN and losses:
                augmentation.check_used(labels, losses.values(), params)
        networks.extend(called)
        return predictions, losses, {name: labels[name] for name in given if labels[name] is not given[name]}

    # The scope keeps the model's ops from taking the names of the summaries, shown in TensorBoard.
    with tf.name_scope('model'):
        predictions, losses, moved = make_parallel(tower, devices, features=features, labels=labels)
        return predictions, losses, tf.add_n([*losses.values()]), networks, moved


def _predict_spec(model, features, params):
    with tf.name_scope('model'), collect_keras_layers(is_training=False):
        predictions, _ = model_contract.call_model(model, features, None, ModeKeys.PREDICT, params)
    return tf.estimator.EstimatorSpec(
        ModeKeys.PREDICT,
        predictions,
        export_outputs={'predict': tf.estimator.export.PredictOutput(with_class_name(predictions, params))},
        scaffold=moving_average.restoring_scaffold(params),
    )


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
