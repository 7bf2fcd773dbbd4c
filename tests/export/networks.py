"""A small convolutional network in the form that other formats are converted from, and its outputs in NumPy."""

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.export.network import Network, Port

KERNEL = np.random.RandomState(0).normal(size=[3, 3, 2, 4]).astype(np.float32)
WEIGHTS = np.random.RandomState(1).normal(size=[4, 3]).astype(np.float32)


def images(count, seed=2):
    return {'image': np.random.RandomState(seed).normal(size=[count, 5, 5, 2]).astype(np.float32)}


def expected(batch):
    """Returns {'scores', 'class'}: a convolution without padding, ReLU, the mean over the pixels, a matrix product."""
    windows = np.lib.stride_tricks.sliding_window_view(batch['image'], [3, 3], axis=(1, 2))  # [batch, 3, 3, channel, 3, 3]
    net = np.maximum(np.einsum('nhwcij,ijck->nhwk', windows, KERNEL), 0).mean((1, 2))
    return {'scores': net @ WEIGHTS, 'class': (net @ WEIGHTS).argmax(1)}


def convolutional(kernel=KERNEL):
    def build(image):
        net = tf.nn.relu(tf.nn.conv2d(image, tf.constant(kernel), 1, 'VALID', name='convolve'))
        scores = tf.matmul(tf.reduce_mean(net, [1, 2]), tf.constant(WEIGHTS), name='multiply')
        return {'scores': scores, 'class': tf.argmax(scores, 1)}

    return network(build, image=tf.TensorSpec([None, 5, 5, 2], tf.float32))


def network(build, **specs):
    """Returns the Network of a function from placeholders to {name: tensor}."""
    with tf.Graph().as_default() as graph:
        inputs = {name: tf.placeholder(spec.dtype, spec.shape) for name, spec in specs.items()}
        outputs = {name: tf.identity(value) for name, value in build(**inputs).items()}
        return Network(graph.as_graph_def(), _ports(inputs), _ports(outputs))


def _ports(tensors):
    return {name: Port(tensor.name, tf.TensorSpec(tensor.shape, tensor.dtype)) for name, tensor in tensors.items()}
