"""Predictions, loss, metrics and pictures of models that predict a class for each pixel."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, describe
from estimator_trainer.common.ops.images import enlarge, image_summary, to_pil_images
from estimator_trainer.common.ops.metrics import count_cells, matrix_summary
from estimator_trainer.common.targets import IGNORED, keys_of

_SHOWN = 4  # Pictures in TensorBoard.
_SMALLEST_SIDE = 112
_MAX_SCORED = 50  # Classes with a metric each.
_STRENGTH = 0.5  # Of the colors of classes in a picture.


def segmenter_outputs(
    features: Mapping[str, tf.Tensor], labels: Mapping[str, tf.Tensor] | None, logits: tf.Tensor
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns the result of the `model` of a segmentation: its predictions and its loss.

    TensorBoard shows some pictures with the mask, and with the predicted one, if the features include a gray or RGB `image`.

    Args:
      features: those of `model`.
      labels: those of `model`, as for `pixel_loss`, or None.
      logits: float32 [batch, height, width, num_classes].

    Returns:
      {'class': int32 [batch, height, width], 'probabilities': float32 [batch, height, width, num_classes]}, and the loss,
      float32 [batch], or None if there are no labels.

    Raises:
      UsageError: the label is no mask of this size.
    """
    predictions = {'class': tf.argmax(logits, 3, output_type=tf.int32), 'probabilities': tf.nn.softmax(logits)}
    if labels is None:
        return predictions, None
    label = labels['label']
    if not label.dtype.is_integer or not label.shape.is_compatible_with(predictions['class'].shape):
        raise UsageError(
            f'the label is {describe(label)}, but the model needs masks, int {predictions["class"].shape}: '
            '--dataset=image_folder reads them from an image_dir with the folders images and masks'
        )
    if 'image' in features and features['image'].shape[3] in (1, 3):
        tensors = [tensor[:_SHOWN] for tensor in (features['image'], label, predictions['class'])]
        image_summary('inputs', _draw_pairs, tensors, _SHOWN)
    return predictions, pixel_loss(labels, logits)


def pixel_loss(labels: Mapping[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross-entropy of the pixels of each picture, except IGNORED ones; 0 if all are.

    Args:
      labels: 'label', int [batch, height, width], in [0, num_classes) or IGNORED; 'pixel_weight', float32 of the same shape,
        multiplies the cross-entropies if the trainer adds it, for class_weights.
      logits: float32 [batch, height, width, num_classes].

    Returns:
      float32 [batch].
    """
    label = tf.cast(labels['label'], tf.int32)
    known = tf.not_equal(label, IGNORED)
    label = tf.where_v2(known, label, 0)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits) * tf.cast(known, tf.float32)
    if 'pixel_weight' in labels:
        loss *= labels['pixel_weight']
    return tf.math.divide_no_nan(tf.reduce_sum(loss, [1, 2]), tf.reduce_sum(tf.cast(known, tf.float32), [1, 2]))


def segmentation_metrics(
    labels: Mapping[str, tf.Tensor],
    predictions: Mapping[str, tf.Tensor],
    num_classes: int,
    class_names: Sequence[str] | None = None,
) -> dict[str, tuple]:
    """Returns metrics from the counts of pixels by class and predicted class, summed over the evaluation, without IGNORED ones.

    - pixel_accuracy: the share of pixels whose class is predicted.
    - iou_CLASS, for up to 50 classes: intersection over union (Jaccard index), pixels of the class that are predicted as such /
      pixels that are of the class, or predicted as such, or both. NaN if there are none.
    - mean_iou: the mean of the IoU of the classes that occur or are predicted.
    - confusion_matrix: the counts, for TensorBoard.

    Args:
      labels: 'label', as for `pixel_loss`.
      predictions: 'class', from `segmenter_outputs`.
      num_classes: number of classes.
      class_names: their names, for those of metrics, in which only characters of names of variables stay.
    """
    label = tf.reshape(tf.cast(labels['label'], tf.int32), [-1])
    cells = tf.boolean_mask(label * num_classes + tf.reshape(predictions['class'], [-1]), tf.not_equal(label, IGNORED))
    with tf.variable_scope(None, 'pixels'):
        counts, updated = count_cells([num_classes, num_classes], cells)
    values, of_update = _scores(counts.read_value()), _scores(updated)
    metrics = {name: (values[name], of_update[name]) for name in ('pixel_accuracy', 'mean_iou')}
    metrics['confusion_matrix'] = matrix_summary(counts, class_names), updated
    if num_classes <= _MAX_SCORED:
        names = keys_of(class_names or [*map(str, range(num_classes))])
        metrics |= {f'iou_{name}': (value, updated.op) for name, value in zip(names, tf.unstack(values['iou']))}
    return metrics


def _scores(counts):
    """Returns the scores of pixels by class, the row, and predicted class, int64 [num_classes, num_classes]."""
    right = tf.linalg.diag_part(counts)
    union = tf.reduce_sum(counts, 0) + tf.reduce_sum(counts, 1) - right
    iou = tf.cast(right / union, tf.float32)
    accuracy = tf.cast(tf.reduce_sum(right) / tf.reduce_sum(counts), tf.float32)
    return {'pixel_accuracy': accuracy, 'iou': iou, 'mean_iou': tf.reduce_mean(tf.boolean_mask(iou, union > 0))}


def palette() -> np.ndarray:
    """Returns the colors of classes, those of Pascal VOC, uint8 [256, 3]: black for class 0, then red, green, ..."""
    numbers = np.arange(256)[:, None] >> np.arange(3)
    return sum(((numbers >> 3 * bit & 1) << (7 - bit) for bit in range(8)), np.zeros([256, 3], np.int64)).astype(np.uint8)


def overlay(image: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Returns a picture tinted with the colors of the classes of its pixels, uint8 [height, width, 3].

    Args:
      image: uint8 or float in [0, 1] [height, width, 1 or 3].
      classes: int [height, width]; pixels of class 0 and IGNORED ones are not tinted.
    """
    pixels = np.asarray(to_pil_images(image[None])[0])
    strength = np.where((classes == 0) | (classes == IGNORED), 0, _STRENGTH)[:, :, None]
    return (pixels * (1 - strength) + palette()[classes] * strength + 0.5).astype(np.uint8)


def _draw_pairs(images, labels, classes):
    """Returns each picture with its mask on the left, and with the predicted one on the right."""
    drawn = []
    for image, *masks in zip(images, labels, classes):
        pair = np.concatenate([overlay(image, mask) for mask in masks], 1)
        drawn.append(np.asarray(enlarge(to_pil_images(pair[None])[0], _SMALLEST_SIDE)))
    return np.stack(drawn) if drawn else np.zeros([0, 1, 1, 3], np.uint8)
