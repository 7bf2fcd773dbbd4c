"""Session hooks that save checkpoints, never one that is not finite, and have them evaluated."""

import math

import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.paths import check_identity, identify

_CURE = 'lower learning_rate, or find the op that made it with --debug_numerics'


class LossCheck(tf.train.SessionRunHook):
    """Ends the training with a RunError at a loss that is not finite, before anything of that step is saved.

    Args:
      loss: scalar tensor.
    """

    def __init__(self, loss):
        self._loss = loss

    def begin(self):
        self._global_step = tf.train.get_global_step()

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        if not math.isfinite(run_values.results):
            step = run_context.session.run(self._global_step)
            raise RunError(f'the loss of step {step} is {run_values.results}: {_CURE}')


class CheckpointSaver(tf.train.CheckpointSaverHook):
    """Saves a checkpoint at the multiples of one or several numbers of steps, at the end, and before the first step.

    The checkpoint that a training goes on from is not written again: while it were, there might be none. Variables that
    are not finite are never saved, but end the training with a RunError; so does a directory that is no longer the one that
    the training began in.

    Args:
      directory: str.
      periods: list of int.
    """

    def __init__(self, directory, periods):
        super().__init__(directory, save_steps=1)
        self._timer = _Multiples(periods)
        self._is_beginning = False
        self._steps_per_run = 1  # Else it asks the session for the step after every one: a third of the time of a short one.

    def begin(self):
        super().begin()
        with tf.name_scope('is_finite'):
            self._are_finite = {
                variable.op.name: tf.reduce_all(tf.math.is_finite(variable))
                for variable in tf.global_variables()
                if variable.dtype.base_dtype.is_floating
            }

    def after_create_session(self, session, coord):
        self._is_beginning = True
        super().after_create_session(session, coord)
        self._is_beginning = False

    def _save(self, session, step):
        if self._is_beginning:
            self._identity = identify(self._checkpoint_dir)
        check_identity(self._checkpoint_dir, self._identity)  # Not into another directory in its place.
        if not (self._is_beginning and tf.io.gfile.exists(f'{self._save_path}-{step}.index')):
            broken = [name for name, is_finite in session.run(self._are_finite).items() if not is_finite]
            if broken:
                raise RunError(f'{broken[0]} is not finite after step {step}, which is not saved: {_CURE}')
            tf.logging.info('Saving checkpoints for %d into %s.', step, self._save_path)
            self._get_saver().save(session, self._save_path, global_step=step)
        return any([listener.after_save(session, step) for listener in self._listeners])  # noqa: C419 - all are called


class _Multiples(tf.train.SecondOrStepTimer):
    """Triggers when a multiple of any period has been reached or passed, wherever the training started."""

    def __init__(self, periods):
        super().__init__(every_steps=1)
        self._periods = periods

    def should_trigger_for_step(self, step):
        last = self.last_triggered_step()
        return last is None or any(step // period > last // period for period in self._periods)


class EvaluateAfterSave(tf.train.CheckpointSaverListener):
    """Evaluates checkpoints that the training saves, but the one that it started from, and always the last.

    Args:
      evaluate: function without arguments; what it returned last is kept as `result`.
      should_stop: function without arguments; if it returns true after an evaluation, the training ends.
      stop: StopOnSignal.
      every_steps: int, of whose multiples the checkpoints are evaluated.
    """

    def __init__(self, evaluate, should_stop, stop, every_steps):
        self._evaluate = evaluate
        self._should_stop = should_stop
        self._stop = stop
        self._every_steps = every_steps
        self._last_step = None
        self.result = None

    def after_save(self, session, global_step_value):
        if self._last_step is None:
            self._last_step = global_step_value
            return False
        return global_step_value % self._every_steps == 0 and self._run(global_step_value)

    def end(self, session, global_step_value):
        if global_step_value != self._last_step:
            self._run(global_step_value)

    def _run(self, step):
        self._last_step = step
        self.result = self._stop.call_outside_training(self._evaluate)
        return self.result is not None and self._should_stop()
