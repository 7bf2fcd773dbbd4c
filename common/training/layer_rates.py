"""Layer-wise learning rates: factors for the rates of some variables."""

from collections.abc import Callable, Mapping, Sequence
import math
import re

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.hparams.build import HParams


def check(params: HParams) -> None:
    """Raises UsageError if an item of learning_rate_factors is not a regular expression and a positive number."""
    _parse(params)


def variable_factors(variables: Sequence[tf.Variable], params: HParams) -> dict[str, float]:
    """Returns {name: factor} of the variables: that of the first expression that matches the name, or 1.

    Raises:
      UsageError: an expression matches no variable.
    """
    pairs = _parse(params)
    names = [variable.op.name for variable in variables]
    for pattern, _ in pairs:
        if not any(pattern.search(name) for name in names):
            raise UsageError(
                f'learning_rate_factors: {pattern.pattern} matches none of the trainable variables: {", ".join(names)}'
            )
    return {name: next((factor for pattern, factor in pairs if pattern.search(name)), 1.0) for name in names}


class LayerRatesOptimizer(tf.train.Optimizer):
    """Applies the gradients of each variable with an optimizer of its factor.

    Scaling gradients instead would have no effect with Adam, whose updates are invariant to their scale.

    Args:
      optimizers: {factor: optimizer with the scaled learning rate}.
      factors: {name of a variable: factor}.
    """

    def __init__(self, optimizers: Mapping[float, tf.train.Optimizer], factors: Mapping[str, float]):
        super().__init__(use_locking=False, name='LayerRates')
        self._optimizers = optimizers
        self._factors = factors

    def compute_gradients(self, *args, **kwargs):
        return next(iter(self._optimizers.values())).compute_gradients(*args, **kwargs)  # Equal for all rates.

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        groups: dict[float, list] = {}
        for gradient, variable in grads_and_vars:
            groups.setdefault(self._factors[variable.op.name], []).append((gradient, variable))
        return tf.group(*(self._optimizers[factor].apply_gradients(groups[factor]) for factor in sorted(groups)), name=name)


def with_factors(
    make_optimizer: Callable[[tf.Tensor, HParams], tf.train.Optimizer],
    rate: tf.Tensor,
    factors: Mapping[str, float],
    params: HParams,
) -> tf.train.Optimizer:
    """Returns an optimizer whose learning rate is multiplied by a factor for each variable.

    Args:
      make_optimizer: function from a learning rate, float32 scalar, and the hyper-parameters to an optimizer.
      rate: float32 scalar tensor.
      factors: {name of a variable: factor}; see `variable_factors`.
    """
    distinct = set(factors.values())
    if distinct <= {1.0}:
        return make_optimizer(rate, params)
    return LayerRatesOptimizer({factor: make_optimizer(rate * factor, params) for factor in distinct}, factors)


def _parse(params):
    """Returns pairs (compiled expression, factor)."""
    pairs = []
    for item in map(str, params.learning_rate_factors):
        expression, colon, text = item.rpartition(':')
        try:
            factor = float(text)
        except ValueError:
            factor = math.nan
        if not colon or not expression or not 0 < factor < math.inf:
            raise UsageError(
                f'learning_rate_factors: {item} is not a regular expression and a positive number, such as dense:0.1; '
                '--freeze keeps variables as they are'
            )
        try:
            pairs.append((re.compile(expression), factor))
        except re.error as error:
            raise UsageError(f'learning_rate_factors: {expression} is not a regular expression: {error}') from None
    return pairs
