"""Estimator's silent traps: it now says at WARNING what went unsaid, or does what the program meant."""

from tf_estimator import refusals
from tf_estimator.traps import early_stopping, evaluation, memory, optimizers, training, weights

import tensorflow.compat.v1 as tf

_FORESTS = 'TensorFlow has dropped it; the package tensorflow_decision_forests has gradient boosted trees.'

# Once, when this package is imported.
for _module in (training, optimizers, early_stopping, evaluation, weights, memory):
    _module.mend()
for _api in (tf.compat.v2.estimator, tf.estimator):
    for _name in ('BoostedTreesClassifier', 'BoostedTreesEstimator', 'BoostedTreesRegressor'):
        if not hasattr(_api, _name):
            setattr(_api, _name, refusals.unavailable(f'tf.estimator.{_name}', _FORESTS))
