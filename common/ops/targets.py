"""The ends of a model: predictions, losses and metrics of its targets, one or several, and of labels that apply or not."""

from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range, listed
from estimator_trainer.common.ops.classification import (
    classification_loss,
    classification_metrics,
    classifier_outputs,
)
from estimator_trainer.common.targets import (
    CLASSIFICATION,
    WINDOW_SCALE,
    Target,
    are_several,
    is_forecast,
    is_multilabel,
    targets_of,
)
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.text import nearest

Tensors = Mapping[str, tf.Tensor]
Outputs = tuple[dict[str, tf.Tensor], tf.Tensor | dict[str, tf.Tensor] | None]
_SHOWN = 20


def target_outputs(
    features: Tensors, labels: Tensors | None, net: tf.Tensor, params: HParams, embedding: tf.Tensor | None = None, **dense: Any
) -> Outputs:
    """Returns the result of a `model`: predictions and losses of a linear layer for each target of the dataset.

    Of a class: 'class', int64 [batch], and 'probabilities', float32 [batch, num_classes]; the loss is the cross-entropy. Of a
    number: 'value', float32 [batch]; the loss is the squared error in standard deviations of the training data. With several
    targets, these names and those of the labels end with the key of the target, as class_KEY.

    Of labels that apply or not, together: 'probabilities', float32 [batch, labels], from sigmoids, and 'predicted', int64
    [batch, labels], 1 from 0.5 on; the loss is the mean of the labels' cross-entropies.

    Of a forecast: 'value', float32 [batch, horizon]; the loss is the mean squared error, in standard deviations of the window.

    Args:
      features, labels: those of `model`. A label is 'label', int [batch] or float [batch], or int [batch, labels], 0 or 1.
      net: float32 [batch, units], what the linear layers take.
      params: hyper-parameters: loss_weights multiply the losses, in the order of the targets.
      embedding: float32 [batch, units], the last hidden layer, by default `net`; a prediction if there are labels, of one
        target of classes, or of labels that apply or not.
      **dense: arguments of the linear layers.

    Returns:
      (predictions, loss), the latter float32 [batch], or {key: loss} of several targets; None without labels.
    """
    embedding = net if embedding is None else embedding
    if is_forecast(params.metadata):
        return _forecast_outputs(features, labels, tf.layers.dense(net, params.metadata['horizon'], **dense))
    if is_multilabel(params.metadata):
        return _label_outputs(labels, tf.layers.dense(net, len(params.metadata['targets']), **dense), embedding, params)
    predictions: dict[str, tf.Tensor] = {}
    losses: dict[str, tf.Tensor] = {}
    targets = _targets(params)
    for target, weight in zip(targets, loss_weights(params)):
        if target.task == CLASSIFICATION and not target.key:
            check_range(params, 'num_classes', 1)
        units = target.num_classes if target.task == CLASSIFICATION else 1
        logits = tf.layers.dense(net, units, name=f'head_{target.key}' if target.key else None, **dense)
        found, loss = _head(target, features, labels, logits, embedding)
        predictions |= {name if name == 'embedding' else target.named(name): value for name, value in found.items()}
        losses[target.key] = loss * weight if weight != 1 and loss is not None else loss
    if labels is None:
        return predictions, None
    return predictions, losses if are_several(params.metadata) else losses['']


def _head(target, features, labels, logits, embedding):
    """Returns predictions, by the names of a single target, and the loss of one."""
    own = labels if labels is None else _labels_of(target, labels)
    if target.task == CLASSIFICATION and not target.key:
        return classifier_outputs(features, own, logits, embedding, target.class_names or None)
    if target.task == CLASSIFICATION:
        predictions = {'class': tf.argmax(logits, 1), 'probabilities': tf.nn.softmax(logits)}
        return predictions, None if own is None else classification_loss(own, logits)
    output = tf.squeeze(logits, 1)
    predictions = {'value': output * target.std + target.mean}
    if own is None:
        return predictions, None
    return predictions, tf.square(output - (tf.cast(own['label'], tf.float32) - target.mean) / target.std)


def _forecast_outputs(features, labels, output):
    mean, scale = tf.split(features[WINDOW_SCALE], 2, axis=1)
    # TensorFlow computes sums and products after a layer in bfloat16, too, which has three digits, but for a squeeze between.
    output = tf.squeeze(output[:, None], 1)
    predictions = {'value': output * scale + mean}
    if labels is None:
        return predictions, None
    return predictions, tf.reduce_mean(tf.square(output - (labels['label'] - mean) / scale), 1)


def _label_outputs(labels, logits, embedding, params):
    probabilities = tf.nn.sigmoid(logits)
    predictions = {'probabilities': probabilities, 'predicted': tf.cast(probabilities >= 0.5, tf.int64)}
    weights = loss_weights(params)
    if labels is None:
        return predictions, None
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels['label'], tf.float32), logits=logits)
    loss = tf.reduce_mean(losses * tf.constant(weights) if {*weights} != {1} else losses, 1)
    return {**predictions, 'embedding': embedding}, loss


def _targets(params):
    """Returns the targets of the metadata; the hyper-parameters say what a single one is."""
    found = targets_of(params.metadata)
    if are_several(params.metadata):
        return found
    return [found[0]._replace(task=params.get('task') or CLASSIFICATION, num_classes=params.get('num_classes', 0))]


def _labels_of(target: Target, labels: Tensors) -> Tensors:
    """Returns the labels of a target, and those that all targets share, under the names that a single target's have."""
    if not target.key:
        return labels
    return {'label': labels[target.named('label')], **({'weight': labels['weight']} if 'weight' in labels else {})}


def loss_weights(params: HParams) -> list[float]:
    """Returns the weight of each target's loss, from loss_weights: a number for all, one for each, or {name: number}.

    Raises:
      UsageError: there are not as many as targets, or a name is none of theirs, or all are 0.
    """
    given, names = params.get('loss_weights', [1.0]), [target.name for target in targets_of(params.metadata)]
    if isinstance(given, Mapping):
        if not are_several(params.metadata):
            raise UsageError(f'loss_weights is for several targets, but --dataset={params.dataset} has one: omit it')
        for name in given:
            if name not in names:
                known = listed(names, _SHOWN)
                raise UsageError(f'loss_weights: there is no target {name}{nearest(name, names)}; the targets are: {known}')
        found = [float(given.get(name, 1)) for name in names]
    else:
        found = [float(weight) for weight in (given if len(given) != 1 else [given[0]] * len(names))]
    if len(found) != len(names):
        count = f'{len(found)} weight{"" if len(found) == 1 else "s"}'
        targets = f'{len(names)} targets, {listed(names, _SHOWN)}' if are_several(params.metadata) else 'one target'
        raise UsageError(f'loss_weights has {count}, but --dataset={params.dataset} has {targets}')
    if not any(found):
        raise UsageError('loss_weights are all 0: nothing would be learned')
    return found


def target_metrics(labels: Tensors, predictions: Tensors, params: HParams) -> dict[str, tuple]:
    """Returns the metrics of predictions of `target_outputs`: those of a model's `eval_metrics`.

    Of classes, those of `classification_metrics`; of numbers, mean_absolute_error and rmse; with several targets, their names
    end with the key of the target, as accuracy_KEY. Of labels that apply or not: accuracy, the share of right ones of all.
    """
    if is_forecast(params.metadata):
        return _number_metrics(labels['label'], predictions['value'])
    if is_multilabel(params.metadata):
        weight = labels.get('weight')
        weights = weight if weight is None else weight[:, None] * tf.ones_like(predictions['probabilities'])
        return {'accuracy': tf.metrics.accuracy(labels['label'], predictions['predicted'], weights)}
    found: dict[str, tuple] = {}
    for target in _targets(params):
        own = _labels_of(target, labels)
        if target.task == CLASSIFICATION:
            predicted = {name: predictions[target.named(name)] for name in ('class', 'probabilities')}
            metrics = classification_metrics(own, predicted, target.num_classes, target.class_names or None)
        else:
            metrics = _number_metrics(own['label'], predictions[target.named('value')], own.get('weight'))
        found |= {target.named(name): metric for name, metric in metrics.items()}
    return found


def _number_metrics(labels, values, weights=None):
    labels = tf.cast(labels, tf.float32)
    return {
        'mean_absolute_error': tf.metrics.mean_absolute_error(labels, values, weights),
        'rmse': tf.metrics.root_mean_squared_error(labels, values, weights),
    }
