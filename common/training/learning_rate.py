"""Learning rate schedules: plain arithmetic on the step."""

from collections.abc import Callable
import math
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.hparams.build import HParams

RATES = 'learning_rates'  # The collection of a graph with the learning rate of its step.


def constant(step: tf.Tensor, total_steps: int, params: HParams) -> float:
    """Constant learning_rate."""
    del step, total_steps
    return params.learning_rate


def exponential(step: tf.Tensor, total_steps: int, params: HParams) -> tf.Tensor:
    """Decays by decay_rate every decay_steps, continuously."""
    del total_steps
    return params.learning_rate * params.decay_rate ** (step / params.decay_steps)


def cosine(step: tf.Tensor, total_steps: int, params: HParams) -> tf.Tensor:
    """Decays from learning_rate to 0 as half a cosine, from the end of the warmup to total_steps (arXiv:1608.03983)."""
    progress = (step - params.warmup_steps) / max(total_steps - params.warmup_steps, 1)
    return params.learning_rate * _half_cosine(progress)


def piecewise(step: tf.Tensor, total_steps: int, params: HParams) -> tf.Tensor:
    """Multiplies learning_rate by piecewise_factors[i] from step piecewise_boundaries[i] on."""
    del total_steps
    factors = tf.constant([1.0, *params.piecewise_factors])
    passed = tf.greater_equal(step, tf.constant(params.piecewise_boundaries, tf.float32))
    return params.learning_rate * tf.gather(factors, tf.reduce_sum(tf.cast(passed, tf.int32)))


def cyclic(step: tf.Tensor, total_steps: int, params: HParams) -> tf.Tensor:
    """Rises linearly from learning_rate * initial_lr_factor to learning_rate and falls back, every cycle_steps.

    (L. Smith: Cyclical Learning Rates for Training Neural Networks, 2017, the "triangular" policy.)
    """
    del total_steps
    phase = tf.math.floormod(step, params.cycle_steps) / params.cycle_steps
    height = 1 - tf.abs(2 * phase - 1)
    return params.learning_rate * (params.initial_lr_factor + (1 - params.initial_lr_factor) * height)


def one_cycle(step: tf.Tensor, total_steps: int, params: HParams) -> tf.Tensor:
    """Rises from learning_rate * initial_lr_factor during warmup_fraction of training, then falls to 0, both as half cosines.

    (L. Smith, N. Topin: Super-Convergence, 2018, with cosine instead of linear annealing.)
    """
    rise_steps = max(params.warmup_fraction * total_steps, 1)
    rise = params.initial_lr_factor + (1 - params.initial_lr_factor) * (1 - _half_cosine(step / rise_steps))
    fall = _half_cosine((step - rise_steps) / max(total_steps - rise_steps, 1))
    return params.learning_rate * tf.where(step < rise_steps, rise, fall)


def _half_cosine(progress):
    """Falls from 1 to 0 as progress, a float tensor, goes from 0 to 1."""
    return 0.5 * (1 + tf.cos(math.pi * tf.clip_by_value(progress, 0, 1)))


RATE_SCHEDULES: dict[str, Callable] = {
    'constant': constant,
    'exponential': exponential,
    'piecewise': piecewise,
    'cosine': cosine,
    'cyclic': cyclic,
    'one_cycle': one_cycle,
}


def check(params: HParams) -> None:
    """Raises UsageError if the hyper-parameters of piecewise schedules are inconsistent."""
    boundaries, factors = params.piecewise_boundaries, params.piecewise_factors
    if len(boundaries) != len(factors) or any(a >= b for a, b in zip(boundaries, boundaries[1:])):
        raise UsageError(
            f'piecewise_boundaries={list(boundaries)} must be steps in ascending order, as many as '
            f'piecewise_factors={list(factors)}'
        )


def by_name(step: tf.Tensor, total_steps: int, params: HParams) -> tf.Tensor | float:
    """Returns the rate of the schedule named by `learning_rate_schedule`, without its warmup."""
    return RATE_SCHEDULES[params.learning_rate_schedule](step, total_steps, params)


def learning_rate(
    step: tf.Tensor, total_steps: int, params: HParams, schedule: Callable[[tf.Tensor, int, HParams], Any] = by_name
) -> tf.Tensor:
    """Returns the learning rate of a step.

    During the first warmup_steps, a factor that increases linearly from 1 / warmup_steps at step 0 scales the schedule's rate.

    Args:
      step: int64 scalar tensor, 0 for the first step.
      total_steps: the step at which training ends.
      schedule: function of the step, float32 scalar, total_steps and params, that returns a rate.

    Returns:
      float32 scalar tensor.
    """
    step = tf.cast(step, tf.float32)
    rate = tf.convert_to_tensor(schedule(step, total_steps, params), tf.float32)
    return rate * tf.minimum(1.0, (step + 1) / max(params.warmup_steps, 1))
