"""A generative adversarial network: images from noise, by a small DCGAN with the non-saturating loss.

    python trainer.py --model=gan --dataset=mnist --hparams=recognizer_dir=output/mnist/alexnet --steps_per_loop=10

takes 8 minutes of CPU time; alexnet then recognizes 77 percent of the images with a probability of at least 0.9, all digits
about as often.

A generator makes images from noise, a discriminator tells them from real ones, and each has its own loss and optimizer. With
`recognizer_dir`, the directory of a run of alexnet on the same data, an evaluation measures the images; without it, it has only
the losses, which do not say how good the images are. `--best_metric=frechet_distance:min` keeps the best checkpoint.

The image that is predicted for an example is made from noise that is a function of the example's own image, so that it does not
depend on the batch. (I. Goodfellow et al.: Generative Adversarial Nets, 2014. A. Radford, L. Metz, S. Chintala: Unsupervised
Representation Learning with Deep Convolutional Generative Adversarial Networks, 2016.)
"""

import functools
import os
import re
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_range
from estimator_trainer.common.files import names_in, read_json
from estimator_trainer.common.ops.frozen_weights import frozen_weights
from estimator_trainer.common.ops.images import image_grid
from estimator_trainer.common.ops.layers import batch_normalization, leaky_relu
from estimator_trainer.common.ops.random import step_seed
from estimator_trainer.common.ops.sample_metrics import class_entropy, frechet_distance
from estimator_trainer.common.ops.shapes import get_shape, reshape
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS
from estimator_trainer.models import alexnet

_INDEX = re.compile(r'model\.ckpt-(\d+)\.index')  # Of the checkpoint of a step.
OVERRIDABLE_HPARAMS = INFERENCE_HPARAMS = ('recognizer_dir',)
_NUM_SHOWN = 64
_CONFIDENCE = 0.9
_FIXED, _HASH = 1, 2  # Seeds of the noise that is shown, and of the hash.


def get_params() -> dict[str, Any]:
    return {
        'noise_units': 64,
        'filters': 32,  # At half of the image's size; twice as many at a quarter, half as many at the whole.
        'recognizer_dir': '',  # A run of alexnet on the same data, which measures the images in evaluations.
        'batch_size': 64,
        'learning_rate': 0.002,
        'learning_rate_schedule': 'cosine',
        'adam_beta1': 0.5,
    }


def variables(params: HParams) -> dict[str, str]:
    """Returns the variables that each loss is for."""
    del params
    return {'discriminator': '^discriminator/', 'generator': '^generator/'}


def model(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor] | None, mode: str, params: HParams
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor] | None]:
    """Returns generated images and the losses [batch] of both networks.

    `features` is {'image': float32 [batch, height, width, channels] in [0, 1]}. The predictions are 'image', of the same shape
    and range, and 'real_probability', float32 [batch], by the discriminator. In evaluations with a recognizer, they include
    what it finds: 'probabilities', float32 [batch, num_classes], of the generated images, and 'generated_embedding' and
    'real_embedding', float32 [batch, dense_units]. TensorBoard shows images from noise that is fixed.
    """
    images = features['image']
    _check(params, images.shape[1:3].as_list())
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    noise = _training_noise(images, params.noise_units) if is_training else _own_noise(images, params.noise_units)
    generated = _generator(noise, images.shape[1:], is_training, params)
    of_generated = _discriminator(generated, params)
    predictions = {'image': generated, 'real_probability': tf.sigmoid(of_generated)}
    if labels is None:
        return predictions, None
    if is_training:
        fixed = tf.random.stateless_normal([_NUM_SHOWN, params.noise_units], [params.seed, _FIXED])
        image_grid('samples', _generator(fixed, images.shape[1:], False, params))
    elif params.recognizer_dir:
        predictions |= _recognize(images, generated, params)
    else:
        _warn()
    discriminator_loss = tf.nn.softplus(-_discriminator(images, params)) + tf.nn.softplus(of_generated)
    return predictions, {'discriminator': discriminator_loss, 'generator': tf.nn.softplus(-of_generated)}


@functools.cache  # Towers call `model`, too.
def _warn():
    tf.logging.warning('recognizer_dir is not given: recognized_share, class_entropy and frechet_distance are left out.')


def _check(params, size):
    """Raises UsageError if a hyper-parameter is out of range, or images are not of a size that can be doubled twice."""
    check_range(params, 'noise_units', 1)
    check_range(params, 'filters', 2)
    if any(not side or side % 4 for side in size):
        raise UsageError(f'--model=gan needs images whose sides are multiples of 4, not of {size[0]} by {size[1]} pixels')


def _training_noise(images, units):
    return tf.random.stateless_normal([get_shape(images)[0], units], step_seed())


def _own_noise(images, units):
    """Returns standard normal noise, float32 [batch, units], that is a function of each image alone.

    It is a multilinear hash of the pixels in 256 levels, modulo 2^32. (J. Carter, M. Wegman: Universal Classes of Hash
    Functions, 1979.)
    """
    levels = tf.cast(tf.round(reshape(images, [0, [1, 2, 3]]) * 255), tf.int32)
    factors = tf.random.stateless_uniform([levels.shape[1] + 1, units], [_HASH, 0], None, None, tf.int32)
    hashes = tf.matmul(levels, factors[1:]) + factors[0]
    uniform = (tf.cast(hashes // 2**9, tf.float32) + (2**22 + 0.5)) / 2**23  # Exact in float32, so neither 0 nor 1.
    return tf.math.ndtri(uniform)


def _generator(noise, shape, is_training, params):
    """Returns images, float32 [batch, *shape] in [0, 1], from noise, float32 [batch, noise_units]."""
    height, width, channels = shape.as_list()

    def normalized(net):
        return tf.nn.relu(batch_normalization(net, is_training, momentum=0.9))

    with tf.variable_scope('generator', reuse=tf.AUTO_REUSE):
        net = tf.layers.dense(noise, height // 4 * (width // 4) * 2 * params.filters, use_bias=False, name='dense')
        net = normalized(tf.reshape(net, [-1, height // 4, width // 4, 2 * params.filters]))
        net = normalized(tf.layers.conv2d_transpose(net, params.filters, 4, 2, 'same', use_bias=False, name='half'))
        net = normalized(tf.layers.conv2d_transpose(net, params.filters // 2, 4, 2, 'same', use_bias=False, name='full'))
        return tf.layers.conv2d(net, channels, 3, 1, 'same', activation=tf.sigmoid, name='image')


def _discriminator(images, params):
    """Returns logits, float32 [batch], that images are real."""
    with tf.variable_scope('discriminator', reuse=tf.AUTO_REUSE):
        net = leaky_relu(tf.layers.conv2d(images, params.filters, 4, 2, 'same', name='half'), 0.2)
        net = leaky_relu(tf.layers.conv2d(net, 2 * params.filters, 4, 2, 'same', name='quarter'), 0.2)
        return tf.layers.dense(tf.layers.flatten(net), 1, name='dense')[:, 0]


def _recognize(images, generated, params):
    """Returns the recognizer's predictions for real and generated images; see `model`."""
    directory = params.recognizer_dir
    try:
        saved = HParams({**DEFAULTS, **read_json(os.path.join(directory, 'hparams.json'))})
    except ValueError as error:
        raise UsageError(f'recognizer_dir={directory}: is not the directory of a run: {error}') from None
    steps = [int(found[1]) for found in map(_INDEX.fullmatch, names_in(directory)) if found]
    if saved.model != 'alexnet' or not steps:
        raise UsageError(f'recognizer_dir={directory}: must have a checkpoint of --model=alexnet')
    both = {'image': tf.concat([images, generated], 0)}
    with frozen_weights('recognizer', os.path.join(directory, f'model.ckpt-{max(steps)}')):
        no_labels = {'label': tf.zeros(get_shape(both['image'])[:1], tf.int32)}  # Without any, there is no embedding.
        found, _ = alexnet.model(both, no_labels, tf.estimator.ModeKeys.EVAL, saved)
    batch = get_shape(images)[0]
    embedding = found['embedding']
    return {
        'probabilities': found['probabilities'][batch:],
        'generated_embedding': embedding[batch:],
        'real_embedding': embedding[:batch],
    }


def eval_metrics(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], predictions: dict[str, tf.Tensor], params: HParams
) -> dict[str, tuple]:
    """Returns measures of the generated images by the recognizer, if there is one.

    recognized_share is the share that it recognizes with a probability of at least 0.9; class_entropy is that of the classes
    that it finds, in nats; frechet_distance is that of its last hidden layer between generated and real images.
    """
    del features, labels, params
    if 'probabilities' not in predictions:
        return {}
    probabilities = predictions['probabilities']
    is_recognized = tf.reduce_max(probabilities, 1) >= _CONFIDENCE
    return {
        'recognized_share': tf.metrics.mean(tf.cast(is_recognized, tf.float32)),
        'class_entropy': class_entropy(tf.argmax(probabilities, 1), probabilities.shape[1]),
        'frechet_distance': frechet_distance(predictions['real_embedding'], predictions['generated_embedding']),
    }
