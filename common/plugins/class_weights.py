"""The weights of the classes in the loss of training."""

from collections.abc import Iterable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.graphs import ancestors
from estimator_trainer.common.targets import IGNORED, are_several, is_segmentation, is_tagging
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.text import nearest

BALANCED = 'balanced'
CLASS_COUNTS = 'class_counts'  # Of the metadata: the number of training examples of each class, in their order.
FEATURE = 'class_weight'  # Of canned Estimators, by `weight_column`.
PIXEL_WEIGHT = 'pixel_weight'  # A label, for the models of masks.
_SHOWN_CLASSES = 20


def are_given(params: HParams) -> bool:
    """Whether classes have different weights."""
    weights = params.class_weights
    return weights == BALANCED or isinstance(weights, Mapping) or len(weights) > 1


def of_examples(labels: Mapping[str, tf.Tensor], params: HParams) -> tf.Tensor | float:
    """Returns the weight of each example's class, float32 [batch], or one number for all.

    Raises:
      UsageError: there are no classes, or the weights do not fit them.
    """
    weights = in_order(params)
    if len(weights) <= 1:
        return weights[0] if weights else 1.0
    if not any(weights):
        raise UsageError('class_weights are all 0: nothing would be learned')
    if PIXEL_WEIGHT in labels:
        return 1.0
    label = labels.get('label')
    if label is None or not label.dtype.is_integer or label.shape.rank != 1:
        raise no_classes_error('class_weights', params)
    _check_count(weights, params)
    return tf.gather(tf.constant(weights, tf.float32), label)


def with_pixel_weights(labels: Mapping[str, tf.Tensor], params: HParams) -> Mapping[str, tf.Tensor]:
    """Returns the labels of a model with the weights of the pixels of a mask, float32 of its shape, if classes have any."""
    label = labels.get('label')
    is_mask = isinstance(label, tf.Tensor) and label.dtype.is_integer and label.shape.rank == 3
    if not is_mask or not are_given(params):
        return labels
    weights = [*in_order(params)]
    _check_count(weights, params)
    by_number = tf.constant(weights + [0.0] * (IGNORED + 1 - len(weights)), tf.float32)
    return type(labels)({**labels, PIXEL_WEIGHT: tf.gather(by_number, label)})  # type: ignore[call-arg]


def check_used(labels: Mapping[str, tf.Tensor], losses: Iterable[tf.Tensor], params: HParams) -> None:
    """Raises UsageError if a model's losses do not depend on the weights of pixels."""
    if PIXEL_WEIGHT in labels and labels[PIXEL_WEIGHT].op not in ancestors(losses):
        raise UsageError(
            f'class_weights: --model={params.model} does not use the label {PIXEL_WEIGHT}, as '
            'estimator_trainer.common.ops.segmentation.pixel_loss does'
        )


def _check_count(weights, params):
    if len(weights) != (params.get('num_classes') or len(weights)):
        raise UsageError(f'class_weights has {len(weights)} weights for {params.num_classes} classes')


def in_order(params: HParams) -> Sequence[float]:
    """Returns the weights in the order of the classes, those that are not named 1.

    With n examples, balanced ones are n / (classes * examples of the class), as in scikit-learn.

    Raises:
      UsageError: a class is unknown or cannot be balanced.
    """
    weights, names = params.class_weights, params.metadata.get('class_names', ())
    if weights == BALANCED:
        return _balanced(params, names)
    if not isinstance(weights, Mapping):
        return weights
    if not names:
        raise UsageError(f'class_weights: --dataset={params.dataset} has no names of classes: give a list in their order')
    for name in weights:
        if name not in names:
            shown = listed(names, _SHOWN_CLASSES)
            raise UsageError(f'class_weights: there is no class {name}{nearest(name, names)}; the classes are: {shown}')
    return [float(weights.get(name, 1)) for name in names]


def _balanced(params, names):
    counts = params.metadata.get(CLASS_COUNTS)
    if not counts:
        raise UsageError(f'class_weights={BALANCED}: --dataset={params.dataset} has no {CLASS_COUNTS}: give a list of weights')
    if 0 in counts:
        number = counts.index(0)
        raise UsageError(
            f'class_weights={BALANCED}: the split {params.train_split} has no example of the class '
            f'{names[number] if names else number}: add some, or give a list of weights'
        )
    return [sum(counts) / (len(counts) * count) for count in counts]


def no_classes_error(name: str, params: HParams) -> UsageError:
    """Returns the error for a dataset whose labels are not classes, for which a hyper-parameter has no meaning."""
    if is_segmentation(params.metadata):
        return UsageError(f'{name} is for one class of each example, not for masks: omit it')
    if are_several(params.metadata):
        return UsageError(f'{name} is for a single target of classes, but --dataset={params.dataset} has several: omit it')
    if is_tagging(params.metadata):
        return UsageError(f'{name} is for a class of each example, but --dataset={params.dataset} has tags of tokens: omit it')
    if params.get('task') == 'regression':
        return UsageError(f'{name} is for classes, but the target of --dataset={params.dataset} is a number: omit it')
    return UsageError(f'{name}: --dataset={params.dataset} has no classes: no label named label, int [batch]')
