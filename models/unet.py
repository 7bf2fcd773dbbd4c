"""A U-Net, which predicts a class for each pixel of a picture.

    python trainer.py --model=unet --dataset=image_folder --hparams=image_dir=PATH

(O. Ronneberger, P. Fischer, T. Brox: U-Net: Convolutional Networks for Biomedical Image Segmentation, 2015.) The paper's
network has filters=64, depth=4 and batch_norm=false, and convolves without padding. Here convolutions are padded, so that masks
have the size of the pictures, which may be any.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range
from estimator_trainer.common.ops.layers import batch_normalization
from estimator_trainer.common.ops.segmentation import segmentation_metrics, segmenter_outputs
from estimator_trainer.hparams.build import HParams


def get_params() -> dict[str, Any]:
    return {
        'filters': 16,  # Of the first convolutions; each halving of the size doubles them.
        'depth': 3,  # The number of halvings.
        'num_convolutions': 2,  # 3x3, at each size on the way down, and again on the way up.
        'batch_norm': True,
        'num_classes': 2,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns {'class': int32 [batch, height, width], 'probabilities': float32 [batch, height, width, num_classes]}.

    The loss, float32 [batch], is the mean cross-entropy of a picture's pixels.

    `features` is {'image': float32 [batch, height, width, channels]}, `labels` is {'label': int32 [batch, height, width]}, of
    pixels to ignore 255, or None.
    """
    net, is_training = features['image'], mode == tf.estimator.ModeKeys.TRAIN
    _check(params, net)
    skipped = []
    for level in range(params.depth):
        net = _convolve(net, level, params, is_training)
        skipped.append(net)
        net = tf.layers.max_pooling2d(net, 2, 2, padding='same')
    net = _convolve(net, params.depth, params, is_training)
    for level, skip in reversed([*enumerate(skipped)]):
        net = tf.layers.conv2d_transpose(net, params.filters * 2**level, 2, 2, kernel_initializer=tf.initializers.he_normal())
        # An odd size was rounded up when it was halved.
        net = tf.concat([skip, net[:, : skip.shape[1], : skip.shape[2]]], 3)
        net = _convolve(net, level, params, is_training)
    return segmenter_outputs(features, labels, tf.layers.conv2d(net, params.num_classes, 1))


def _convolve(net, level, params, is_training):
    """Applies the convolutions of a level, each with batch norm, if that is on, and ReLU."""
    for _ in range(params.num_convolutions):
        net = tf.layers.conv2d(
            net,
            params.filters * 2**level,
            3,
            padding='same',
            use_bias=not params.batch_norm,
            kernel_initializer=tf.initializers.he_normal(),
        )
        net = tf.nn.relu(batch_normalization(net, is_training) if params.batch_norm else net)
    return net


def _check(params, image):
    for name, least in (('filters', 1), ('num_convolutions', 1), ('depth', 0), ('num_classes', 2)):
        check_range(params, name, least)
    size = image.shape[1:3].as_list()
    if None in size:
        raise UsageError('--model=unet: pictures must have one size, which the dataset must tell')
    if min(size) < 2**params.depth:
        raise UsageError(
            f'depth={params.depth} must be at most {min(size).bit_length() - 1}, for pictures of {size[0]} by {size[1]} pixels'
        )


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns the accuracy of pixels, IoU by class and its mean, and the confusion matrix."""
    del features
    return segmentation_metrics(labels, predictions, params.num_classes, params.metadata.get('class_names'))
