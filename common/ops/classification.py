"""Predictions, loss and metrics of classifiers."""

from collections.abc import Mapping, Sequence

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, describe
from estimator_trainer.common.ops.images import labeled_images
from estimator_trainer.common.ops.metrics import auc, confusion_matrix, pr_curve

NUM_IMAGES_SHOWN = 8
_MAX_MATRIX = 1000  # Classes: a larger confusion matrix takes much memory and is illegible.


def classifier_outputs(
    features: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor] | None,
    logits: tf.Tensor,
    embedding: tf.Tensor,
    class_names: Sequence[str] | None = None,
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns the result of a classifier's `model`: its predictions and its loss.

    TensorBoard shows some images with labels and predictions if the features include a gray or RGB `image`.

    Args:
      features: those of `model`.
      labels: those of `model`, as for `classification_loss`, or None.
      logits: float32 [batch, num_classes].
      embedding: float32 [batch, units], the last hidden layer.
      class_names: the names of the classes, for the images.

    Returns:
      {'class': int64 [batch], 'probabilities': float32 [batch, num_classes]}, and the loss, float32 [batch], or None if there
      are no labels. If there are, the predictions include 'embedding'.
    """
    predictions = {'class': tf.argmax(logits, 1), 'probabilities': tf.nn.softmax(logits)}
    if labels is None:
        return predictions, None
    if labels['label'].shape.rank == 3:
        raise UsageError('the label is a mask, with a class for each pixel, which the model does not predict: use --model=unet')
    if labels['label'].shape.rank not in (None, 1):
        raise UsageError(
            f'the label is {describe(labels["label"])}, of several targets, which the model does not predict: use one of mlp, '
            'alexnet, resnet or text_cnn, or common.ops.targets in your own'
        )
    predictions['embedding'] = embedding
    if 'image' in features and features['image'].shape.rank == 4 and features['image'].shape[3] in (1, 3):
        shown = slice(NUM_IMAGES_SHOWN)
        shown_labels, shown_classes = labels['label'][shown], predictions['class'][shown]
        labeled_images('inputs', features['image'][shown], shown_labels, shown_classes, class_names)
    return predictions, classification_loss(labels, logits)


def classification_loss(labels: Mapping[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
    """Returns the cross-entropy, with mixup and label smoothing if the trainer's hyper-parameters turn them on.

    The target is share * one_hot(label) + (1 - share) * one_hot(mixup_label); smoothed, it is (1 - smoothing) * target
    + smoothing / num_classes. (H. Zhang et al.: mixup: Beyond Empirical Risk Minimization, 2018. C. Szegedy et al.:
    Rethinking the Inception Architecture for Computer Vision, 2016.)

    Args:
      labels: 'label', int [batch], in [0, num_classes). In training the trainer adds 'mixup_label', of the same type, and
        'mixup_share', float32 [batch], if mixup_alpha is not 0, and 'label_smoothing', float32 [batch], if it is not 0.
      logits: float32 [batch, num_classes].

    Returns:
      float32 [batch].
    """
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)
    if 'mixup_label' in labels:
        share = labels['mixup_share']
        other = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['mixup_label'], logits=logits)
        loss = share * loss + (1 - share) * other
    if 'label_smoothing' in labels:
        smoothing = labels['label_smoothing']
        uniform = -tf.reduce_mean(tf.nn.log_softmax(logits), 1)
        loss = (1 - smoothing) * loss + smoothing * uniform
    return loss


def classification_metrics(
    labels: Mapping[str, tf.Tensor],
    predictions: Mapping[str, tf.Tensor],
    num_classes: int,
    class_names: Sequence[str] | None = None,
) -> dict[str, tuple]:
    """Returns the accuracy, the precision-recall curve, the confusion matrix for up to 1,000 classes, and the AUC for two.

    Args:
      labels: 'label', int [batch], and, for a weighted accuracy and AUC, 'weight', float [batch].
      predictions: 'class' and 'probabilities', from `classifier_outputs`.
      num_classes: number of classes.
      class_names: their names, for the confusion matrix.
    """
    metrics = {
        'accuracy': tf.metrics.accuracy(labels['label'], predictions['class'], labels.get('weight')),
        'pr_curve': pr_curve(labels['label'], predictions['probabilities']),
    }
    if num_classes <= _MAX_MATRIX:
        metrics['confusion_matrix'] = confusion_matrix(labels['label'], predictions['class'], num_classes, class_names)
    if num_classes == 2:
        log_probabilities = tf.log(predictions['probabilities'])
        metrics['auc'] = auc(labels['label'], log_probabilities[:, 1] - log_probabilities[:, 0], labels.get('weight'))
    return metrics
