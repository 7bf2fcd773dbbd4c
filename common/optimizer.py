"""Optimizers by name."""

import tensorflow.compat.v1 as tf

from common.errors import UsageError

OPTIMIZERS = {
    'adam': lambda rate, params: tf.train.AdamOptimizer(rate, params.adam_beta1, params.adam_beta2, params.adam_epsilon),
    'momentum': lambda rate, params: tf.train.MomentumOptimizer(rate, params.momentum),
    'sgd': lambda rate, params: tf.train.GradientDescentOptimizer(rate),
}


def check(params):
    """Raises UsageError if the optimizer is none that there is."""
    if params.optimizer not in OPTIMIZERS:
        raise UsageError(f'optimizer={params.optimizer} is not one of {", ".join(OPTIMIZERS)}')


def make_optimizer(learning_rate, params):
    """Returns the tf.train.Optimizer that `params.optimizer` names, at this rate (a float32 scalar tensor)."""
    return OPTIMIZERS[params.optimizer](learning_rate, params)
