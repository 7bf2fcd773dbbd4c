"""Mixup: training on weighted averages of two images."""

import tensorflow.compat.v1 as tf

from common.ops.shape import get_shape
from common.ops.step_seed import step_seed


def mixup(images: tf.Tensor, alpha: float) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Averages each image of a batch with another one, or itself: share * image + (1 - share) * other.

    The others are a random permutation of the batch. Each image has its own share, from Beta(alpha, alpha); the paper's is the
    same for a whole batch. What is drawn is a function of the graph's seed, the op's name and the global step, as in
    `dropout`. (H. Zhang et al.: mixup: Beyond Empirical Risk Minimization, 2018.)

    Args:
      images: float32 [batch, ...].
      alpha: positive; the smaller, the closer most shares are to 0 or 1.

    Returns:
      The averages, of the shape and dtype of `images`; the index of each image's other one, int32 [batch]; the share of the
      image itself, float32 [batch].
    """
    with tf.name_scope('mixup'):
        batch = get_shape(images)[0]
        others = tf.argsort(tf.random.stateless_uniform([batch], step_seed()))
        share = tf.sigmoid(_log_gamma(batch, alpha) - _log_gamma(batch, alpha))
        factor = tf.reshape(share, [-1] + [1] * (images.shape.rank - 1))
        return factor * images + (1 - factor) * tf.gather(images, others), others, share


def _log_gamma(batch, alpha):
    """Draws logarithms of Gamma(alpha) variables: for small alphas, the variables themselves are often 0 in float32.

    If G is Gamma(alpha + 1) and U is uniform in (0, 1], G * U^(1 / alpha) is Gamma(alpha). (G. Marsaglia, W. Tsang: A Simple
    Method for Generating Gamma Variables, 2000.)
    """
    gamma = tf.random.stateless_gamma([batch], step_seed(), alpha + 1)
    uniform = 1 - tf.random.stateless_uniform([batch], step_seed())
    return tf.log(gamma) + tf.log(uniform) / alpha
