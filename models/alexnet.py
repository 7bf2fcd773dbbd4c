"""A small AlexNet: convolutions with ReLU and max-pooling, a wide dense layer with dropout, a linear classifier.

    python trainer.py --model=alexnet --dataset=mnist

takes about 2 minutes on 2 cores and reaches a test accuracy of 0.995. AlexNet's 11x11 filters and five convolutions suit
photographs; here it is scaled down to images of a few dozen pixels. (A. Krizhevsky, I. Sutskever, G. Hinton: ImageNet
Classification with Deep Convolutional Neural Networks, 2012.)
"""

from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range, check_rate
from estimator_trainer.common.ops.inputs import flat_inputs
from estimator_trainer.common.ops.layers import conv_stack, dense_stack
from estimator_trainer.common.ops.targets import target_metrics, target_outputs
from estimator_trainer.hparams.build import HParams

OVERRIDABLE_HPARAMS = ('drop_rate',)
INDEPENDENT_EXAMPLES = True


def get_params() -> dict[str, Any]:
    return {
        'filters': [32, 64, 128],  # Each is a 3x3 convolution and 2x2 max-pooling.
        'dense_units': 512,
        'drop_rate': 0.5,
        'batch_norm': False,
        'data_format': 'NHWC',  # Or NCHW, which may be faster on GPUs.
        'other_features': False,  # Whether features other than the image are inputs of the dense layer.
        'embedding_size': 8,  # Of each categorical column among them.
        'num_classes': 10,
    }


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
    """Returns {'class': int64 [batch], 'probabilities': float32 [batch, num_classes]} and the cross-entropy [batch].

    If there are labels, the predictions include the last hidden layer, 'embedding': float32 [batch, dense_units]. Of a number,
    or of several targets, see `target_outputs`.

    `features` is {'image': float32 [batch, height, width, channels]}, and perhaps others for other_features, as of mlp;
    `labels` is {'label': int32 [batch]} or None.
    """
    _check(params, features['image'].shape[1:3].as_list())
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = features['image']
    if params.data_format == 'NCHW':
        net = tf.transpose(net, [0, 3, 1, 2])
    net = conv_stack(net, params.filters, is_training, batch_norm=params.batch_norm, data_format=params.data_format)
    net = tf.layers.flatten(net)
    if others := {name: features[name] for name in features if name != 'image' and params.other_features}:
        net = tf.concat([net, flat_inputs(others, params)], 1)
    net = dense_stack(net, [params.dense_units], is_training, batch_norm=params.batch_norm, drop_rate=params.drop_rate)
    return target_outputs(features, labels, net, params)


def _check(params, size):
    """Raises UsageError if a hyper-parameter is out of range for images of this (height, width)."""
    check_rate(params, 'drop_rate')
    check_range(params, 'filters', 1)
    check_range(params, 'dense_units', 1)
    if None in size:
        raise UsageError('--model=alexnet: pictures must have one size, which the dataset must tell')
    if min(size) < 2 ** len(params.filters):
        raise UsageError(
            f'filters={list(params.filters)} must be at most {min(size).bit_length() - 1} numbers, each of which '
            f'halves images of {size[0]} by {size[1]} pixels'
        )


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns the metrics of `target_metrics`, of each target."""
    del features
    return target_metrics(labels, predictions, params)
