"""Exponential moving averages of the weights, which often generalize better than the weights themselves.

(B. Polyak, A. Juditsky: Acceleration of Stochastic Approximation by Averaging, 1992.)
"""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.training import stochastic_average
from estimator_trainer.hparams.build import HParams


def update(step: tf.Variable | tf.Tensor, params: HParams) -> tf.Operation:
    """Returns the op that updates the moving averages of the trainable variables.

    average = decay * average + (1 - decay) * value, where decay = min(ema_decay, (1 + step) / (10 + step)), so that the
    averages soon forget the initial weights.

    Args:
      step: int64 scalar, the number of updates of the variables so far.
    """
    return tf.train.ExponentialMovingAverage(params.ema_decay, step).apply(tf.trainable_variables())


def restoring_scaffold(params: HParams) -> tf.train.Scaffold | None:
    """Returns a tf.train.Scaffold that restores the averages into the variables of a model; None if there are no averages."""
    if params.swa_start:
        return tf.train.Scaffold(saver=tf.train.Saver(stochastic_average.variables_to_restore()))
    if not params.ema_decay:
        return None
    averages = tf.train.ExponentialMovingAverage(params.ema_decay)
    return tf.train.Scaffold(saver=tf.train.Saver(averages.variables_to_restore()))
