"""The Kullback-Leibler divergence of Gaussians."""

from typing import Any

import tensorflow.compat.v1 as tf


def gaussian_kl(q: tuple[Any, Any], p: tuple[Any, Any] = (0.0, 0.0)) -> tf.Tensor:
    """Returns KL(q || p) of two Gaussians with diagonal covariance, in nats.

    (D. Kingma, M. Welling: Auto-Encoding Variational Bayes, 2014, appendix B.)

    Args:
      q: (mu, log sigma^2), float tensors [..., depth]; log sigma^2 may be [..., 1] or a number, for an isotropic Gaussian.
      p: the same; by default the standard normal distribution.

    Returns:
      Tensor [...], 0 where the two are equal.
    """
    (mu_q, log_var_q), (mu_p, log_var_p) = q, p
    mu_q = tf.convert_to_tensor(mu_q, dtype_hint=tf.float32)
    log_var_q, log_var_p = (tf.convert_to_tensor(log_var, mu_q.dtype) for log_var in (log_var_q, log_var_p))
    log_ratio = log_var_q - log_var_p
    distance = tf.square(mu_q - mu_p) * tf.exp(-log_var_p)
    return 0.5 * tf.reduce_sum(tf.math.expm1(log_ratio) - log_ratio + distance, axis=-1)
