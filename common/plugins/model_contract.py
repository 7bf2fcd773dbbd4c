"""Checks of the results of a model module's functions, as specified in docs/modules.md."""

from collections.abc import Mapping
import types
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, describe, show
from estimator_trainer.common.plugins import class_weights
from estimator_trainer.common.plugins.contract import DENSE, check_dict, check_pair, not_a_tensor_error
from estimator_trainer.common.plugins.traceback_filter import in_a_line, user_traceback
from estimator_trainer.hparams.build import HParams

LOSS_PREFIX = 'loss/'  # Of the metrics of named losses.
RESERVED = ('loss', 'global_step', 'split', 'mode')  # In metrics.csv.


def call_model(
    model: types.ModuleType, features: Mapping[str, Any], labels: Mapping[str, Any] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns the predictions and the losses of a model module, {name: loss}; the losses are None if there are no labels.

    An unnamed loss has the name ''. The losses are multiplied by the label `weight`, float [batch], if there is one, and by the
    class_weights of the label `label`; of a mask, the model gets these as the label `pixel_weight`. The mean of the losses is
    over the number of examples, regardless of weights.

    Raises:
      UsageError: they are not a dict of tensors [batch, ...], and a float32 tensor [batch] or a dict of such.
    """
    source = f'--model={params.model}: model()'
    if labels is not None:
        labels = class_weights.with_pixel_weights(labels, params)
    try:
        returned = model.model(features, labels, mode, params)
    except (AttributeError, TypeError) as error:
        if labels is None and _reads_labels(error):
            raise UsageError(
                f'{source}: labels are None in prediction, which it does not expect: {in_a_line(error)}: '
                'return (predictions, None) before'
            ) from None
        raise
    predictions, loss = check_pair(source, '(predictions, loss)', returned)
    check_dict(source, 'predictions', predictions)
    if not predictions:
        raise UsageError(f'{source} must return predictions, not an empty dict')
    for name, value in predictions.items():
        if not isinstance(value, DENSE):
            raise not_a_tensor_error(source, 'prediction', name, value)
    losses = None if labels is None else _check_losses(source, loss)
    batch = tf.TensorShape([None]) if losses is None else next(iter(losses.values())).shape
    for name, value in predictions.items():
        if not value.shape[:1].is_compatible_with(batch):
            size = batch.num_elements()
            raise UsageError(
                f'{source}: the prediction {name} must be of shape [batch, ...], '
                f'{f"with a batch of {size}, " if size else ""}not {value.shape}'
            )
    if losses is None or labels is None:
        return dict(predictions), None
    class_weights.check_used(labels, losses.values(), params)
    return dict(predictions), {name: _weighted(loss, labels, params) for name, loss in losses.items()}


def _reads_labels(error):
    """Whether an exception of a model is probably that its labels are None: a line that led to it mentions them."""
    lines = [line for line in user_traceback(error).splitlines() if line.startswith('    ')]
    return 'NoneType' in str(error) and any('label' in line for line in lines)


def _weighted(loss, labels, params):
    if 'weight' in labels:
        if labels['weight'].shape.rank != 1:
            raise UsageError(
                f'--dataset={params.dataset}: the label weight must be of shape [batch], not {labels["weight"].shape}: '
                'it is the weight of the example in the loss'
            )
        loss *= tf.cast(labels['weight'], loss.dtype)
    weight = class_weights.of_examples(labels, params)
    return loss * weight if isinstance(weight, tf.Tensor) or weight != 1 else loss


def _check_losses(source, losses):
    """Returns the losses by name, once each is float32 of shape [batch]."""
    if isinstance(losses, Mapping):
        check_dict(source, 'losses', losses)
        if not losses:
            raise UsageError(f'{source} must return a loss, not an empty dict')
    else:
        losses = {'': losses}
    for name, loss in losses.items():
        if not isinstance(loss, tf.Tensor) or loss.shape.rank != 1 or loss.dtype != tf.float32:
            is_cast = isinstance(loss, tf.Tensor) and loss.shape.rank == 1 and loss.dtype.is_floating
            raise UsageError(
                f'{source} must return a loss{name and f" {name}"} of shape [batch] and type float32, one for each example, '
                f'not {describe(loss)}{": tf.cast(loss, tf.float32)" if is_cast else ""}'
            )
    (first, size), *others = ((name, loss.shape) for name, loss in losses.items())
    for name, shape in others:
        if not shape.is_compatible_with(size):
            raise UsageError(f'{source}: the losses must be of the same batch, but {first} is of {size}, and {name} of {shape}')
    return dict(losses)


def call_eval_metrics(
    model: types.ModuleType,
    features: Mapping[str, Any],
    labels: Mapping[str, Any],
    predictions: Mapping[str, tf.Tensor],
    params: HParams,
) -> dict[str, tuple[tf.Tensor, tf.Tensor | tf.Operation]]:
    """Returns the metrics of a model module, {name: (value, update_op)}; an empty dict if it defines none.

    Raises:
      UsageError: they are not of this form, or a name is reserved.
    """
    if not getattr(model, 'eval_metrics', None):
        return {}
    source = f'--model={params.model}: eval_metrics()'
    created = []

    def create(next_creator, **kwargs):
        created.append(next_creator(**kwargs))
        return created[-1]

    with tf.variable_creator_scope(create):
        metrics = model.eval_metrics(features, labels, predictions, params)
    known = {variable.name for variable in (*tf.global_variables(), *tf.local_variables())}
    for variable in created:
        if variable.name not in known:
            raise UsageError(
                f'{source} makes the variable {variable.op.name}, which nothing initializes, as tf.keras.metrics do: '
                'use tf.metrics'
            )
    check_dict(source, 'metrics', metrics)
    for name, metric in metrics.items():
        if not (
            isinstance(metric, tuple)
            and len(metric) == 2
            and isinstance(metric[0], DENSE)
            and isinstance(metric[1], (*DENSE, tf.Operation))
        ):
            raise UsageError(
                f'{source} must return pairs (value, update_op) of tensors, as tf.metrics makes them: {name} is {show(metric)}'
            )
        if name in RESERVED or name.startswith(LOSS_PREFIX):
            raise UsageError(f'{source} must not name a metric {name}: the framework uses that name')
    return dict(metrics)


def make_optimizer(model: types.ModuleType, rate: tf.Tensor, params: HParams) -> tf.train.Optimizer:
    """Returns the result of a model module's `optimizer`.

    Raises:
      UsageError: the result is not a tf.train.Optimizer.
    """
    optimizer = model.optimizer(rate, params)
    if not isinstance(optimizer, tf.train.Optimizer):
        raise UsageError(
            f'--model={params.model}: optimizer() must return a tf.train.Optimizer (tf is tensorflow.compat.v1), not '
            f'{show(optimizer)}'
        )
    return optimizer


def learning_rate(model: types.ModuleType, step: tf.Tensor, total_steps: int, params: HParams) -> tf.Tensor:
    """Returns the result of a model module's `learning_rate`, as a float32 scalar.

    Args:
      step: float32 scalar, 0 for the first step.
      total_steps: the step at which training ends.

    Raises:
      UsageError: the result is not a number.
    """
    rate = model.learning_rate(step, total_steps, params)
    if isinstance(rate, DENSE) and rate.shape.rank == 0 and (rate.dtype.is_floating or rate.dtype.is_integer):
        return tf.cast(rate, tf.float32)
    if isinstance(rate, (int, float, np.number)) and not isinstance(rate, bool):
        return tf.constant(rate, tf.float32)
    raise UsageError(f'--model={params.model}: learning_rate() must return a number or a scalar tensor, not {show(rate)}')


def make_hooks(model: types.ModuleType, mode: str, params: HParams) -> list[tf.train.SessionRunHook]:
    """Returns the session hooks of a model module, if any.

    Raises:
      UsageError: they are not a list of tf.train.SessionRunHook.
    """
    if not getattr(model, 'hooks', None):
        return []
    hooks = model.hooks(mode, params)
    if not isinstance(hooks, (list, tuple)) or not all(isinstance(hook, tf.train.SessionRunHook) for hook in hooks):
        raise UsageError(
            f'--model={params.model}: hooks() must return a list of tf.train.SessionRunHook (tf is tensorflow.compat.v1), not '
            f'{show(hooks)}'
        )
    return list(hooks)
