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
    return params.learning_rate * params.decay_rate**(step / params.decay_steps)


def cosine(step, total_steps, params):
    """Half a cosine from learning_rate down to 0, from the end of the warmup to total_steps (arXiv:1608.03983)."""
    progress = (step - params.warmup_steps) / max(total_steps - params.warmup_steps, 1)
    return params.learning_rate * 0.5 * (1 + tf.cos(math.pi * tf.clip_by_value(progress, 0, 1)))


SCHEDULES = {'constant': constant, 'exponential': exponential, 'cosine': cosine}


def check(params):
    """Raises UsageError if the schedule is none that there is."""
    if params.learning_rate_schedule not in SCHEDULES:
        raise UsageError(f'learning_rate_schedule={params.learning_rate_schedule} is not one of {", ".join(SCHEDULES)}')


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
    rate = tf.convert_to_tensor(SCHEDULES[params.learning_rate_schedule](step, total_steps, params), tf.float32)
    return rate * tf.minimum(1.0, (step + 1) / max(params.warmup_steps, 1))
