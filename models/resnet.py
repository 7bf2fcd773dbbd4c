"""A residual network for small images.

    python trainer.py --model=resnet --dataset=mnist

(K. He, X. Zhang, S. Ren, J. Sun: Deep Residual Learning for Image Recognition, 2016, section 4.2.) Three stages of n blocks
have 16, 32 and 64 filters; each stage after the first halves height and width. A block is two 3x3 convolutions with batch norm,
and a shortcut without parameters: where the size changes, it takes every other row and column, and pads the channels with 0
(the paper's option A). hparams/resnet_cifar10.json follows the paper's training.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range
from estimator_trainer.common.ops.layers import batch_normalization
from estimator_trainer.common.ops.targets import target_metrics, target_outputs
from estimator_trainer.hparams.build import HParams

_STAGES = 16, 32, 64  # Filters, for width=1.
_BN_MOMENTUM = 0.9


def get_params() -> dict[str, Any]:
    return {
        'depth': 20,  # 6n + 2 layers, for n blocks in each stage.
        'width': 1,  # Multiplies the number of filters.
        'num_classes': 10,
        'optimizer': 'momentum',
        'learning_rate': 0.1,
        'learning_rate_schedule': 'cosine',
        'weight_decay': 1e-4,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns {'class': int64 [batch], 'probabilities': float32 [batch, num_classes]} and the cross-entropy [batch].

    If there are labels, the predictions include the last hidden layer, 'embedding': float32 [batch, 64 * width].

    `features` is {'image': float32 [batch, height, width, channels]}, `labels` is {'label': int32 [batch]} or None.
    """
    _check(params)
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = _conv(features['image'], _STAGES[0] * params.width, 1, is_training)
    for i, filters in enumerate(_STAGES):
        for block in range((params.depth - 2) // 6):
            net = residual_block(net, filters * params.width, 2 if i and not block else 1, is_training)
    net = tf.reduce_mean(net, [1, 2])
    return target_outputs(features, labels, net, params, kernel_initializer=tf.initializers.he_normal())


def residual_block(net: tf.Tensor, filters: int, stride: int, is_training: bool) -> tf.Tensor:
    """Returns two convolutions, the first with a stride, plus a shortcut."""
    shortcut = net
    if stride > 1:
        shortcut = tf.nn.avg_pool2d(net, 1, stride, 'VALID')  # Each pool is a pixel: faster than a slice with strides.
    if filters > net.shape[3]:
        shortcut = tf.pad(shortcut, [[0, 0], [0, 0], [0, 0], [0, filters - net.shape[3]]])
    net = _conv(net, filters, stride, is_training)
    return tf.nn.relu(shortcut + _conv(net, filters, 1, is_training, activation=None))


def _conv(net, filters, stride, is_training, activation=tf.nn.relu):
    """Applies a 3x3 convolution with batch norm."""
    net = tf.layers.conv2d(
        net, filters, 3, stride, padding='same', use_bias=False, kernel_initializer=tf.initializers.he_normal()
    )
    net = batch_normalization(net, is_training, momentum=_BN_MOMENTUM)
    return activation(net) if activation else net


def _check(params):
    check_range(params, 'width', 1)
    if params.depth < 8 or (params.depth - 2) % 6:
        below = max(8, params.depth - (params.depth - 2) % 6)
        raise UsageError(f'depth={params.depth} must be 6n + 2, such as {below} or {below + 6}')


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns the accuracy, the confusion matrix and the precision-recall curve; with two classes also the AUC."""
    del features
    return target_metrics(labels, predictions, params)
