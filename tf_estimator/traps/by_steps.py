"""EvalSpec(every_steps=...): train_and_evaluate evaluates by steps, rather than by seconds."""

import functools
import inspect
import time

from tf_estimator.mending import around

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import training

_POLL_SECONDS = 1


def is_due(step: int, last: int, every_steps: int) -> bool:
    """Whether a multiple of every_steps lies after the last evaluated step, up to this one."""
    return step // every_steps > last // every_steps


class Timer(tf.train.SecondOrStepTimer):
    """Triggers for the first checkpoint at or after each multiple of every_steps."""

    first_step = 0  # Of the training.

    def __init__(self, every_steps):
        super().__init__(every_steps=every_steps)

    def should_trigger_for_step(self, step):
        last = self.last_triggered_step()
        return is_due(step, self.first_step if last is None else last, self._every_steps)


def _with_steps(new):
    """Returns EvalSpec.__new__ with the argument every_steps, also in its signature, which is an attribute of the result."""

    @functools.wraps(new)
    def with_steps(cls, *args, every_steps=None, **kwargs):
        if every_steps is not None and every_steps < 1:
            raise ValueError(f'every_steps of an EvalSpec must be at least 1, not {every_steps}')
        spec = new(cls, *args, **kwargs)
        spec.every_steps = every_steps
        return spec

    signature = inspect.signature(new)
    more = inspect.Parameter('every_steps', inspect.Parameter.KEYWORD_ONLY, default=None)
    with_steps.__signature__ = signature.replace(parameters=[*signature.parameters.values(), more])  # type: ignore[attr-defined]
    return with_steps


training.EvalSpec.every_steps = None
training.EvalSpec.__new__ = staticmethod(_with_steps(training.EvalSpec.__new__))


@around(training.EvalSpec, '_replace')
def _replace(replace, self, **fields):
    every_steps = fields.pop('every_steps', self.every_steps)
    spec = replace(self, **fields)
    spec.every_steps = every_steps
    return spec


@around(training._TrainingExecutor, '_execute_evaluator_once')
def _execute_once(execute, self, evaluator, listener, throttle_secs):
    """Makes the evaluator's process wait for a checkpoint that is due."""
    if not self._eval_spec.every_steps:
        return execute(self, evaluator, listener, throttle_secs)
    if evaluator.is_due():
        return execute(self, evaluator, listener, _POLL_SECONDS)
    time.sleep(_POLL_SECONDS)
    return training._EvalResult(training._EvalStatus.NO_NEW_CHECKPOINT), False
