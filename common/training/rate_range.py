"""The learning rate range test: the loss of a short training while the rate rises exponentially.

(L. Smith: Cyclical Learning Rates for Training Neural Networks, 2017.)
"""

from collections.abc import Callable, Iterator
import math
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.training.learning_rate import RATES

LOWEST, HIGHEST, STEPS = 1e-6, 10.0, 200
_MEMORY = 0.95  # Of the moving average of the loss.
_DIVERGED = 4  # Times the least smoothed loss, if that is positive.
_FIRST_STEPS = 10  # In which the average is too short to tell.


class Curve(NamedTuple):
    """Of each step: the rate, the loss, and the smoothed loss, float [n]."""

    rate: np.ndarray
    loss: np.ndarray
    smoothed: np.ndarray

    @property
    def best(self) -> int:
        """The step with the least smoothed loss."""
        return int(np.argmin(self.smoothed))

    def suggest(self) -> float:
        """Returns a tenth of the rate at which the smoothed loss was the least, in two digits.

        Raises:
          RunError: the loss has not fallen.
        """
        if self.best < _FIRST_STEPS or self.smoothed[self.best] >= self.smoothed[:_FIRST_STEPS].min():
            raise RunError(
                f'the loss has not fallen at any rate from {self.rate[0]:.1g} to {self.rate[-1]:.2g}: give --train_steps more '
                'than it had, or see whether the model can learn, with --overfit_batches=1'
            )
        return float(f'{self.rate[self.best] / 10:.1e}')


def rates(count: int) -> np.ndarray:
    """Returns the rate of each step, float [count]: LOWEST * (HIGHEST / LOWEST) ** (step / (count - 1))."""
    return LOWEST * (HIGHEST / LOWEST) ** (np.arange(count) / max(count - 1, 1))


def measure(step: Callable[[float], float], count: int) -> Curve:
    """Trains until the loss diverges, at most `count` steps; the loss is smoothed by a moving average without bias.

    Args:
      step: trains a step with a rate, and returns its loss.

    Raises:
      RunError: the first loss is not finite.
    """
    found: list[tuple[float, float, float]] = []
    for rate, loss, smoothed in _smoothed(step, rates(count)):
        if not math.isfinite(smoothed):
            break
        found.append((rate, loss, smoothed))
        least, first = min(each[2] for each in found), found[0][2]
        size = least if least > 0 else max(-least, first - least)
        if len(found) > _FIRST_STEPS and smoothed > least + (_DIVERGED - 1) * size:
            break
    if not found:
        raise RunError('the first loss is not finite: see --debug_numerics')
    return Curve(*np.array(found).T)


def _smoothed(step, rates) -> Iterator[tuple[float, float, float]]:
    average = 0.0
    for number, rate in enumerate(rates.tolist(), 1):
        loss = step(rate)
        average = _MEMORY * average + (1 - _MEMORY) * loss
        yield rate, loss, average / (1 - _MEMORY**number)


def rate_of(graph: tf.Graph) -> tf.Tensor | None:
    """Returns the tensor of the learning rate of a training graph, which can be fed; None if the module has its own step."""
    found = graph.get_collection(RATES)
    return found[0] if found else None
