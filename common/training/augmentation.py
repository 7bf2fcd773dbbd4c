"""Augmentation of training batches according to the hyper-parameters; the ops are in common/ops."""

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
import json
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, describe
from estimator_trainer.common.graphs import ancestors
from estimator_trainer.common.ops import random as ops
from estimator_trainer.common.ops.random import mixup, random_shift
from estimator_trainer.common.ops.shapes import get_shape
from estimator_trainer.common.plugins import class_weights
from estimator_trainer.common.targets import IGNORED
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS

# In order. Each takes the images and its hyper-parameter.
_IMAGE_OPS: Mapping[str, Callable[[tf.Tensor, Any], tf.Tensor]] = {
    'augment_flip': lambda images, _: ops.random_flip(images),
    'augment_crop': ops.random_crop,
    'augment_rotate': ops.random_rotation,
    'augment_shift': lambda images, pixels: random_shift(images, pixels, is_training=True),
    'augment_color': ops.random_color,
    'augment_cutout': ops.random_cutout,
}
_OF_COLORS = ('augment_color',)  # The others move pixels, or blank them.
_MOVING = ('augment_flip', 'augment_crop', 'augment_rotate', 'augment_shift')
# The labels added by augmentation, and the hyper-parameters that enable them.
_ADDED_LABELS = {'mixup_label': 'mixup_alpha', 'mixup_share': 'mixup_alpha', 'label_smoothing': 'label_smoothing'}


def check_lacking(params: HParams, lacks: Collection[str], record_margins: bool) -> None:
    """Raises UsageError for what no example of a dataset has, before its data is prepared.

    Args:
      lacks: those of 'image' and 'label', the label of a class, that a dataset module declares by LACKS.
      record_margins: the option.
    """
    of_labels = [_text(params, name) for name in ('mixup_alpha', 'label_smoothing') if _is_on(params, name)]
    of_images = [_text(params, name) for name in (*_IMAGE_OPS, 'mixup_alpha') if _is_on(params, name)]
    needed = {
        'image': ('pictures', of_images),
        'label': ('examples of one class each', [*of_labels, *(['--record_margins'] if record_margins else [])]),
    }
    for name, (what, given) in needed.items():
        if name in lacks and given:
            raise UsageError(f'{given[0]} needs {what}, which --dataset={params.dataset} does not have: omit it')


def augment(features: Any, labels: Any, params: HParams) -> tuple[Any, Any]:
    """Applies the augmentation enabled by the hyper-parameters to a training batch.

    Args:
      features: dict of tensors [batch, ...].
      labels: dict of tensors [batch, ...]. A label of the height and width of the image is a mask, which changes with it.

    Returns:
      Features and labels of the same types, with the image changed, and with added labels for
      `common.ops.classification.classification_loss`. Without augmentation, creates no ops.

    Raises:
      UsageError: there is no image or no class label to augment.
    """
    has_mixup, has_smoothing = _is_on(params, 'mixup_alpha'), _is_on(params, 'label_smoothing')
    if not any(_is_on(params, name) for name in _IMAGE_OPS) and not has_mixup and not has_smoothing:
        return features, labels
    features, labels = type(features)(features), type(labels)(labels)
    with tf.name_scope('augmentation'):
        labels = change_image(features, labels, params)
        if has_mixup:
            _check_image(features, params, 'mixup_alpha')
            if 'weight' in labels or class_weights.are_given(params):
                weights = 'the label weight' if 'weight' in labels else 'class_weights'
                raise UsageError(f'{_text(params, "mixup_alpha")} excludes {weights}: a mixed example has two labels')
            _check_label(labels, params, 'mixup_alpha')
            features['image'], others, labels['mixup_share'] = mixup(features['image'], params.mixup_alpha)
            labels['mixup_label'] = tf.gather(labels['label'], others)
        if has_smoothing:
            _check_label(labels, params, 'label_smoothing')
            labels['label_smoothing'] = tf.fill(tf.shape(labels['label']), params.label_smoothing)
    return features, labels


def change_image(features: MutableMapping[str, tf.Tensor], labels: Any, params: HParams) -> Any:
    """Applies the augmentation that needs no classes to the feature `image`, and moves the pixels of a mask with it.

    Args:
      labels: a dict, of which `label` may be the mask, or a tensor, that may be.

    Returns:
      The labels.

    Raises:
      UsageError: there is no image.
    """
    names = [name for name in _IMAGE_OPS if _is_on(params, name)]
    if not names:
        return labels
    is_dict = isinstance(labels, Mapping)
    label, image = labels.get('label') if is_dict else labels, features.get('image')
    if _is_mask(label, image):
        features['image'], moved = _change_both(image, label, features, params)
        return type(labels)({**labels, 'label': moved}) if is_dict else moved
    for name in names:
        _check_image(features, params, name)
        features['image'] = _IMAGE_OPS[name](features['image'], params[name])
    return labels


def _is_mask(label, image):
    """Whether a label has a class for each pixel."""
    are_tensors = isinstance(label, tf.Tensor) and isinstance(image, tf.Tensor)
    if not are_tensors or not label.dtype.is_integer or image.shape.rank != 4 or label.shape.rank != 3:
        return False
    return label.shape[1:].is_compatible_with(image.shape[1:3])


def warn_of_unchanged(features: Mapping[str, tf.Tensor], labels: Any, params: HParams) -> None:
    """Warns of features and labels that may belong to the image, and stay as they are where augmentation changes it."""
    image, moving = features.get('image'), [name for name in _MOVING if _is_on(params, name)]
    others = {name: value for name, value in features.items() if name != 'image'}
    if others and _is_on(params, 'mixup_alpha'):
        tf.logging.warning(
            '%s mixes images and labels, but not %s: they stay those of one example.',
            *(_text(params, 'mixup_alpha'), ', '.join(others)),
        )
    if not moving or not isinstance(image, tf.Tensor) or image.shape.rank != 4:
        return
    labels = labels if isinstance(labels, Mapping) else {'label': labels}
    others |= {name: value for name, value in labels.items() if name != 'label' or not _is_mask(value, image)}
    if found := [name for name, value in others.items() if isinstance(value, tf.Tensor) and _has_size(value, image.shape[1:3])]:
        tf.logging.warning(
            '%s moves the pixels of image, but not those of %s, of the same height and width: omit it if they belong together.',
            *(_text(params, moving[0]), ', '.join(found)),
        )


def _has_size(value, size):
    return value.shape.rank in (3, 4) and size.is_fully_defined() and value.shape[1:3].as_list() == size.as_list()


def _change_both(image, mask, features, params):
    """Returns a changed image with its mask, IGNORED where a pixel comes from outside, or is blank.

    The image gets channels with the row and column of each pixel, and 1, which change with it: where interpolation mixes
    pixels, the first two divided by the third are the mean place, and the third is the share that is inside.
    """
    batch, height, width = get_shape(mask)
    rows, columns = tf.meshgrid(tf.range(height), tf.range(width), indexing='ij')
    places = tf.cast(tf.stack([rows, columns, tf.ones_like(rows)], 2), tf.float32)
    channels = image.shape[3]
    net = tf.concat([image, tf.tile(places[None], [batch, 1, 1, 1])], 3)
    for name in _IMAGE_OPS:
        if _is_on(params, name):
            _check_image(features, params, name)
            if name in _OF_COLORS:
                net = tf.concat([_IMAGE_OPS[name](net[..., :channels], params[name]), net[..., channels:]], 3)
            else:
                net = _IMAGE_OPS[name](net, params[name])
    place, inside = net[..., channels:-1], net[..., -1:]
    nearest = tf.cast(tf.round(tf.math.divide_no_nan(place, inside)), tf.int32)
    numbers = tf.clip_by_value(nearest[..., 0] * width + nearest[..., 1], 0, height * width - 1)
    moved = tf.gather(tf.reshape(mask, [batch, -1]), tf.reshape(numbers, [batch, -1]), axis=1, batch_dims=1)
    moved = tf.where_v2(inside[..., 0] > 0.5, tf.reshape(moved, tf.shape(mask)), IGNORED)
    return net[..., :channels], tf.ensure_shape(moved, mask.shape)


def check_used(labels: Mapping[str, tf.Tensor], losses: Iterable[tf.Tensor], params: HParams) -> None:
    """Raises UsageError if a model's losses do not depend on the labels added by `augment`."""
    added = {label: name for label, name in _ADDED_LABELS.items() if _is_on(params, name)}
    used = ancestors([*losses]) if added else set()
    for label, name in added.items():
        if labels[label].op not in used:
            raise UsageError(
                f'{_text(params, name)}: --model={params.model} does not use the label {label}, as '
                'estimator_trainer.common.ops.classification.classification_loss does'
            )


def _is_on(params, name):
    return params[name] != DEFAULTS[name]


def _text(params, name):
    return f'{name}={json.dumps(params[name])}'


def _check_image(features, params, name):
    image = features.get('image')
    if not isinstance(image, tf.Tensor) or image.dtype != tf.float32 or image.shape.rank != 4:
        found = f'has {describe(image)}' if 'image' in features else f'has: {", ".join(features)}'
        raise UsageError(
            f'{_text(params, name)} needs a feature image, float32 [batch, height, width, channels]; '
            f'--dataset={params.dataset} {found}'
        )
    if name == 'augment_shift' and None not in image.shape[1:3].as_list():
        height, width = image.shape[1:3].as_list()
        if params[name] >= min(height, width):
            raise UsageError(
                f'{_text(params, name)} must be less than {min(height, width)}: images have {height}x{width} pixels'
            )


def _check_label(labels, params, name):
    label = labels.get('label')
    if not isinstance(label, tf.Tensor) or not label.dtype.is_integer or label.shape.rank != 1:
        if isinstance(label, tf.Tensor) and label.shape.rank == 3:
            raise UsageError(f'{_text(params, name)} is for one class of each example, not for masks: omit it')
        found = f'has {describe(label)}' if 'label' in labels else f'has: {", ".join(labels)}'
        raise UsageError(f'{_text(params, name)} needs a label named label, int32 [batch]; --dataset={params.dataset} {found}')
