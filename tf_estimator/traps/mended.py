"""Importing this mends Estimator's traps."""

import importlib

from tf_estimator import refusals
from tf_estimator.traps import best_checkpoint

from tensorflow_estimator.python.estimator.api._v1 import estimator as v1
from tensorflow_estimator.python.estimator.api._v2 import estimator as v2

_FORESTS = 'TensorFlow has dropped it; the package tensorflow_decision_forests has gradient boosted trees.'

# Each mends something when it is imported; memory first, so that the others see only a program's hooks.
_MENDING = (
    *('memory', 'training', 'optimizers', 'early_stopping', 'evaluation', 'weights', 'best', 'saving', 'servers', 'by_steps'),
    *('prediction', 'kept_evaluation', 'inputs'),
)
for _name in _MENDING:
    importlib.import_module(f'tf_estimator.traps.{_name}')
for _api in (v1, v2):
    _api.BestCheckpointExporter = best_checkpoint.BestCheckpointExporter
    for _name in ('BoostedTreesClassifier', 'BoostedTreesEstimator', 'BoostedTreesRegressor'):
        if not hasattr(_api, _name):
            setattr(_api, _name, refusals.unavailable(f'tf.estimator.{_name}', _FORESTS))
