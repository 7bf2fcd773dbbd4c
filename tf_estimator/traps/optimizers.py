"""Optimizers of Keras, which change no variable in a graph without saying so."""

import functools
import sys

from tf_estimator.mending import around

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import estimator as estimators

_KERAS = 'tf_keras.src.optimizers.optimizer', 'keras.src.optimizers.optimizer'


@around(estimators.Estimator, '_call_model_fn')
def _call_model_fn(call_model_fn, self, features, labels, mode, config):
    for module in filter(None, map(sys.modules.get, _KERAS)):
        _refuse_in_graphs(module.Optimizer)  # Once it is loaded.
    return call_model_fn(self, features, labels, mode, config)


@functools.cache
def _refuse_in_graphs(optimizer):
    """Makes a class of Keras's optimizers raise ValueError in a graph: their updates are no part of what they return."""

    def refusing(method):
        def refuse_in_graph(self, *args, **kwargs):
            if not tf.executing_eagerly() and not tf.get_default_graph().building_function:
                kind = type(self).__name__
                raise ValueError(
                    f"Keras's optimizer {kind} does not train in a model_fn. Use that of tf.compat.v1.train, or "
                    f'optimizer = tf.keras.optimizers.legacy.{kind}(...) with optimizer.iterations = '
                    'tf.compat.v1.train.get_global_step() and optimizer.get_updates(loss, variables)'
                )
            return method(self, *args, **kwargs)

        return refuse_in_graph

    for name in {'minimize', 'apply_gradients'} & {*dir(optimizer)}:
        setattr(optimizer, name, refusing(getattr(optimizer, name)))
