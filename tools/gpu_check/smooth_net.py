"""A convolutional network without kinks: rounding, which ReLU and max-pooling amplify within steps, stays small."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.classification import classifier_outputs
from estimator_trainer.common.ops.layers import check_data_format


def get_params():
    return {'filters': [32, 64], 'data_format': 'NHWC', 'num_classes': 10}


def model(features, labels, mode, params):
    """As models/alexnet.py, with tanh, average pooling, and the mean of the picture, which has the same order in NCHW.

    The gradient of a bias would be a sum of many short numbers that cancel.
    """
    del mode
    check_data_format(params.data_format)
    net, axes = features['image'], [1, 2]
    if params.data_format == 'NCHW':
        net, axes = tf.transpose(net, [0, 3, 1, 2]), [2, 3]
    layout = 'channels_first' if params.data_format == 'NCHW' else 'channels_last'
    for filters in params.filters:
        net = tf.layers.conv2d(net, filters, 3, padding='same', data_format=layout, activation=tf.tanh, use_bias=False)
        net = tf.layers.average_pooling2d(net, 2, 2, data_format=layout)
    net = tf.reduce_mean(net, axes)
    return classifier_outputs(features, labels, tf.layers.dense(net, params.num_classes), net, None)
