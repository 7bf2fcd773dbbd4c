"""Checks what the functions of a model module return, as README.md specifies it."""

from collections.abc import Mapping
import types
from typing import Any

import tensorflow.compat.v1 as tf

from common.errors import UsageError, check_range
from common.plugins.contract import DENSE, check_dict, check_pair, not_a_tensor_error
from common.values import describe, show
from hparams.build import HParams

_RESERVED = ('loss', 'global_step', 'split')


def call_model(
    model: types.ModuleType,
    features: Mapping[str, Any],
    labels: Mapping[str, Any] | None,
    mode: str,
    params: HParams,
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns the predictions and the loss of a model module; the loss is None if there are no labels.

    The losses are multiplied by the label `weight`, float [batch], if there is one, and by the class_weights of the label
    `label`. The mean of the losses is over the number of examples, whatever their weights.

    Raises:
      UsageError: they are not a dict of tensors [batch, ...] and a float32 tensor [batch].
    """
    source = f'--model={params.model}: model()'
    predictions, loss = check_pair(source, '(predictions, loss)', model.model(features, labels, mode, params))
    check_dict(source, 'predictions', predictions)
    if not predictions:
        raise UsageError(f'{source} must return predictions, not an empty dict')
    for name, value in predictions.items():
        if not isinstance(value, DENSE):
            raise not_a_tensor_error(source, 'prediction', name, value)
    batch = tf.TensorShape([None]) if labels is None else _check_loss(source, loss)
    for name, value in predictions.items():
        if not value.shape[:1].is_compatible_with(batch):
            size = batch.num_elements()
            raise UsageError(
                f'{source}: the prediction {name} must be of shape [batch, ...], '
                f'{f"with a batch of {size}, " if size else ""}not {value.shape}'
            )
    return dict(predictions), None if labels is None else _weighted(loss, labels, params)


def _weighted(loss, labels, params):
    if 'weight' in labels:
        if labels['weight'].shape.rank != 1:
            raise UsageError(
                f'--dataset={params.dataset}: the label weight must be of shape [batch], not {labels["weight"].shape}: '
                'it is the weight of the example in the loss'
            )
        loss *= tf.cast(labels['weight'], loss.dtype)
    check_range(params, 'class_weights', 0)
    if len(params.class_weights) == 1:
        return loss * params.class_weights[0] if params.class_weights[0] != 1 else loss
    if params.class_weights:
        if not any(params.class_weights):
            raise UsageError('class_weights are all 0: nothing would be learned')
        if 'label' not in labels or not labels['label'].dtype.is_integer or labels['label'].shape.rank != 1:
            raise UsageError(f'class_weights: --dataset={params.dataset} has no classes: no label named label, int [batch]')
        if len(params.class_weights) != params.get('num_classes', len(params.class_weights)):
            raise UsageError(f'class_weights has {len(params.class_weights)} weights for {params.num_classes} classes')
        loss *= tf.gather(tf.constant(params.class_weights, loss.dtype), labels['label'])
    return loss


def _check_loss(source, loss):
    """Checks that a loss is float32 of shape [batch], and returns its static shape."""
    if not isinstance(loss, tf.Tensor) or loss.shape.rank != 1 or loss.dtype != tf.float32:
        is_cast = isinstance(loss, tf.Tensor) and loss.shape.rank == 1 and loss.dtype.is_floating
        raise UsageError(
            f'{source} must return a loss of shape [batch] and type float32, one for each example, not '
            f'{describe(loss)}{": tf.cast(loss, tf.float32)" if is_cast else ""}'
        )
    return loss.shape


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
    if not hasattr(model, 'eval_metrics'):
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
        if name in _RESERVED:
            raise UsageError(f'{source} must not name a metric {name}: the framework uses that name')
    return dict(metrics)
