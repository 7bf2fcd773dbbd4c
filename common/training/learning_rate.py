"""Learning-rate schedules: plain arithmetic on the step."""

import math

import tensorflow.compat.v1 as tf

from common.errors import UsageError


def constant(step, total_steps, params):
    """The rate as it is."""
    del step, total_steps
    return params.learning_rate


def exponential(step, total_steps, params):
    """Multiplied by decay_rate every decay_steps, smoothly."""
    del total_steps
    return params.learning_rate * params.decay_rate ** (step / params.decay_steps)


def cosine(step, total_steps, params):
    """Half a cosine from learning_rate down to 0, from the end of the warmup to total_steps (arXiv:1608.03983)."""
    progress = (step - params.warmup_steps) / max(total_steps - params.warmup_steps, 1)
    return params.learning_rate * _half_cosine(progress)


def piecewise(step, total_steps, params):
    """Multiplied by piecewise_factors[i] from the step piecewise_boundaries[i] on."""
    del total_steps
    factors = tf.constant([1.0, *params.piecewise_factors])
    passed = tf.greater_equal(step, tf.constant(params.piecewise_boundaries, tf.float32))
    return params.learning_rate * tf.gather(factors, tf.reduce_sum(tf.cast(passed, tf.int32)))


def cyclic(step, total_steps, params):
    """Up from learning_rate * initial_lr_factor to learning_rate and down again, in a straight line, every cycle_steps.

    (L. Smith: Cyclical Learning Rates for Training Neural Networks, 2017, the policy "triangular".)
    """
    del total_steps
    phase = tf.math.floormod(step, params.cycle_steps) / params.cycle_steps
    height = 1 - tf.abs(2 * phase - 1)
    return params.learning_rate * (params.initial_lr_factor + (1 - params.initial_lr_factor) * height)


def one_cycle(step, total_steps, params):
    """Up from learning_rate * initial_lr_factor over warmup_fraction of the training, then down to 0, as half cosines.

    (L. Smith, N. Topin: Super-Convergence, 2018, with cosines in place of lines.)
    """
    rise_steps = max(params.warmup_fraction * total_steps, 1)
    rise = params.initial_lr_factor + (1 - params.initial_lr_factor) * (1 - _half_cosine(step / rise_steps))
    fall = _half_cosine((step - rise_steps) / max(total_steps - rise_steps, 1))
    return params.learning_rate * tf.where(step < rise_steps, rise, fall)


def _half_cosine(progress):
    """Falls from 1 to 0 as progress, a float tensor, goes from 0 to 1."""
    return 0.5 * (1 + tf.cos(math.pi * tf.clip_by_value(progress, 0, 1)))


RATE_SCHEDULES = {
    'constant': constant,
    'exponential': exponential,
    'piecewise': piecewise,
    'cosine': cosine,
    'cyclic': cyclic,
    'one_cycle': one_cycle,
}


def check(params):
    """Raises UsageError if the schedule is none that there is, or what it needs does not fit together."""
    if params.learning_rate_schedule not in RATE_SCHEDULES:
        raise UsageError(f'learning_rate_schedule={params.learning_rate_schedule} is not one of {", ".join(RATE_SCHEDULES)}')
    boundaries, factors = params.piecewise_boundaries, params.piecewise_factors
    if len(boundaries) != len(factors) or any(a >= b for a, b in zip(boundaries, boundaries[1:])):
        raise UsageError(
            f'piecewise_boundaries={list(boundaries)} must be steps in ascending order, as many as '
            f'piecewise_factors={list(factors)}'
        )
    if params.warmup_fraction > 1 or params.initial_lr_factor > 1:
        raise UsageError(
            f'warmup_fraction={params.warmup_fraction} and initial_lr_factor={params.initial_lr_factor} must be at most 1'
        )


def learning_rate(step, total_steps, params):
    """Returns the learning rate of a step.

    The rate grows linearly over the first warmup_steps, from learning_rate / warmup_steps at step 0.

    Args:
      step: int64 scalar tensor, 0 for the first step.
      total_steps: int, when the training ends.
      params: HParams.

    Returns:
      float32 scalar tensor.
    """
    step = tf.cast(step, tf.float32)
    rate = tf.convert_to_tensor(RATE_SCHEDULES[params.learning_rate_schedule](step, total_steps, params), tf.float32)
    return rate * tf.minimum(1.0, (step + 1) / max(params.warmup_steps, 1))
