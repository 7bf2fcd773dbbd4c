"""Optimizers by name."""

from collections.abc import Callable

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, check_all
from estimator_trainer.common.training import layer_rates
from estimator_trainer.hparams.build import HParams


class AdamWOptimizer(tf.train.AdamOptimizer):
    """Adam with decoupled weight decay: each step first subtracts learning_rate * weight_decay * weights.

    Biases and other vectors are not decayed. (I. Loshchilov, F. Hutter: Decoupled Weight Decay Regularization, 2019.)

    Args:
      learning_rate: float32 scalar tensor.
      weight_decay: 0 is plain Adam.
      *args: further arguments of tf.train.AdamOptimizer.
    """

    def __init__(self, learning_rate: tf.Tensor, weight_decay: float, *args: float):
        super().__init__(learning_rate, *args)
        self._factor = learning_rate * weight_decay if weight_decay else None

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        gradients, variables = zip(*grads_and_vars)
        decayed = []
        if self._factor is not None:
            with tf.control_dependencies(gradients):  # Computed from the weights before decay.
                decayed = [tf.assign_sub(variable, self._factor * variable) for variable in variables if is_decayed(variable)]
        with tf.control_dependencies(decayed):
            return super().apply_gradients(zip(gradients, variables), global_step, name)


def _adam_args(params):
    return params.adam_beta1, params.adam_beta2, params.adam_epsilon


OPTIMIZERS: dict[str, Callable[[tf.Tensor, HParams], tf.train.Optimizer]] = {
    'adam': lambda rate, params: tf.train.AdamOptimizer(rate, *_adam_args(params)),
    'adamw': lambda rate, params: AdamWOptimizer(rate, params.weight_decay, *_adam_args(params)),
    'adagrad': lambda rate, params: tf.train.AdagradOptimizer(rate, params.adagrad_initial_accumulator),
    'ftrl': lambda rate, params: tf.train.FtrlOptimizer(
        rate, l1_regularization_strength=params.ftrl_l1, l2_regularization_strength=params.ftrl_l2
    ),
    'momentum': lambda rate, params: tf.train.MomentumOptimizer(rate, params.momentum),
    'rmsprop': lambda rate, params: tf.train.RMSPropOptimizer(rate, params.rmsprop_decay, epsilon=params.rmsprop_epsilon),
    'sgd': lambda rate, params: tf.train.GradientDescentOptimizer(rate),
}
UPDATES_ALL_ROWS = ('adam', 'adamw')  # Also those without a gradient.
SAME_IF_DENSE = ('adam', 'adamw', 'adagrad', 'sgd')  # Rows with gradient 0 are updated like rows without one.


def check(params: HParams) -> None:
    """Raises UsageError if the hyper-parameters of the optimizer are invalid."""
    check_all([lambda: _check_rate(params), lambda: layer_rates.check(params)])


def _check_rate(params):
    # FTRL's weights are proportional to the learning rate: as it decays to 0, so do the weights.
    if params.optimizer == 'ftrl' and (params.learning_rate_schedule != 'constant' or params.warmup_steps):
        raise UsageError('optimizer=ftrl needs a constant learning rate: give learning_rate_schedule=constant,warmup_steps=0')


def by_name(rate: tf.Tensor, params: HParams) -> tf.train.Optimizer:
    """Returns the optimizer named by the hyper-parameter `optimizer`."""
    return OPTIMIZERS[params.optimizer](rate, params)


def is_decayed(variable: tf.Variable) -> bool:
    """Whether weight decay applies to a variable: not to biases and other vectors."""
    return variable.shape.rank > 1
