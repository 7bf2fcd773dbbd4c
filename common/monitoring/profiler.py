"""Profiler of a range of training steps."""

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import first_line

_is_running = False  # A process has one profiler.


def stop() -> None:
    """Ends the profile, if one is running; also after an error, at which TensorFlow does not end hooks."""
    global _is_running
    if _is_running:
        _is_running = False
        try:
            tf2.profiler.experimental.stop()
        except tf.errors.OpError as error:
            tf.logging.warning('The profile cannot be written: %s', first_line(error))


class Profiler(tf.train.SessionRunHook):
    """Profiles a range of steps for TensorBoard's Profile plugin.

    Args:
      steps: (first, end); the end is exclusive.
    """

    def __init__(self, steps: tuple[int, int], output_dir: str):
        self._first, self._end = steps
        self._output_dir = output_dir

    def begin(self):
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self._step = int(session.run(self._global_step))

    def before_run(self, run_context):
        global _is_running
        if not _is_running and self._first <= self._step < self._end:
            tf2.profiler.experimental.start(self._output_dir)
            _is_running = True
        if _is_running:
            self._trace = tf2.profiler.experimental.Trace('train', step_num=self._step, _r=1)
            self._trace.__enter__()
        return tf.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context, run_values):
        if _is_running:
            self._trace.__exit__(None, None, None)
        self._step = run_values.results + 1
        if self._step >= self._end:
            stop()

    def end(self, session):
        stop()
