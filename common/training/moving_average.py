"""Exponential moving averages of the weights, which often are better than the weights themselves.

(B. Polyak, A. Juditsky: Acceleration of Stochastic Approximation by Averaging, 1992.)
"""

import tensorflow.compat.v1 as tf


def update(step, params):
    """Makes the op that moves the averages of the trainable variables towards their values.

    average = decay * average + (1 - decay) * value, where decay is ema_decay, but (1 + step) / (10 + step) at most, so
    that the averages soon forget how the weights were initialized.

    Args:
      step: int64 scalar variable, the global step.
      params: HParams.

    Returns:
      tf.Operation.
    """
    return tf.train.ExponentialMovingAverage(params.ema_decay, step).apply(tf.trainable_variables())


def restoring_scaffold(params):
    """Returns a tf.train.Scaffold that restores the averages, if there are any, into the variables of a model."""
    if not params.ema_decay:
        return None
    averages = tf.train.ExponentialMovingAverage(params.ema_decay)
    return tf.train.Scaffold(saver=tf.train.Saver(averages.variables_to_restore()))
