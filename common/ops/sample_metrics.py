"""Metrics of generated samples: the Fréchet distance to real examples, and the entropy of their classes."""

import math

import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.metrics import count_cells, make_counts


def frechet_distance(real: tf.Tensor, generated: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Measures how far generated examples are from real ones in an embedding: a metric for `eval_metrics`.

    It is the Fréchet distance of two Gaussians with the means and covariances of all examples of an evaluation:
    |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)). The smaller, the better; 0 if the moments are the same. It is larger for fewer
    examples. (D. Dowson, B. Landau: The Fréchet Distance between Multivariate Normal Distributions, 1982. M. Heusel et al.:
    GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash Equilibrium, 2017, with an Inception network.)

    Args:
      real: float [batch, units].
      generated: float [batch, units]; its batch may be of another size.

    Returns:
      (value, update_op) as in tf.metrics. The value is a float32 scalar, NaN until there are two examples of each kind; that of
      the update_op is the number of generated examples so far, float64.
    """
    with tf.variable_scope(None, 'frechet_distance'):
        (real_mean, real_covariance, real_update), (mean, covariance, update) = (
            _moments(name, examples) for name, examples in (('real', real), ('generated', generated))
        )
        # Not a matrix with a NaN, of fewer than two examples, which `eigh` refuses.
        is_known = tf.reduce_all(tf.math.is_finite(real_covariance)) & tf.reduce_all(tf.math.is_finite(covariance))
        real_covariance, covariance = (tf.where_v2(is_known, one, 0.0) for one in (real_covariance, covariance))
        # C1 C2 and F' C2 F, which is symmetric, have the same eigenvalues, but for zeros, if C1 = F F'.
        values, vectors = tf.linalg.eigh(real_covariance)
        factor = vectors * _root(values)
        products = tf.linalg.eigvalsh(tf.matmul(factor, tf.matmul(covariance, factor), transpose_a=True))
        traces = tf.linalg.trace(real_covariance) + tf.linalg.trace(covariance) - 2 * tf.reduce_sum(_root(products))
        distance = tf.reduce_sum(tf.square(real_mean - mean)) + traces
        with tf.control_dependencies([real_update]):
            number = update[-1, -1]
        return tf.cast(tf.where_v2(is_known, distance, math.nan), tf.float32), number


def _moments(name, examples):
    """Returns mean and covariance, float64 [units] and [units, units], of all batches, and the op that adds a batch.

    The sums of (x, 1)(x, 1)' have those of the products, those of x, and the number of examples.
    """
    size = examples.shape[1] + 1
    sums = make_counts([size, size], tf.float64, f'{name}_sums')
    rows = tf.pad(tf.cast(examples, tf.float64), [[0, 0], [0, 1]], constant_values=1.0)
    update = tf.assign_add(sums, tf.matmul(rows, rows, transpose_a=True))
    read = sums.read_value()
    number = read[-1, -1]
    mean = read[-1, :-1] / number
    covariance = (read[:-1, :-1] - number * mean[:, None] * mean) / (number - 1)
    return mean, covariance, update


def _root(values):
    """Returns square roots; of eigenvalues that rounding made negative, 0."""
    return tf.sqrt(tf.maximum(values, 0))


def class_entropy(classes: tf.Tensor, num_classes: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Measures how evenly classes occur in an evaluation: a metric for `eval_metrics`.

    Args:
      classes: int [batch], in [0, num_classes).
      num_classes: number of classes.

    Returns:
      (value, update_op) as in tf.metrics. The value is the entropy of the classes' shares in nats, a float32 scalar: 0 if there
      is one class only, log(num_classes) if all are as frequent. That of the update_op is the counts, int64 [num_classes].
    """
    with tf.variable_scope(None, 'class_entropy'):
        counts, update = count_cells([num_classes], tf.cast(classes, tf.int32))
        shares = tf.cast(counts, tf.float32) / tf.cast(tf.reduce_sum(counts), tf.float32)
        return -tf.reduce_sum(tf.math.xlogy(shares, shares)), update
