"""Hooks of old."""

import time

import tensorflow.compat.v1 as tf


class ValidationMonitor(tf.train.SessionRunHook):
    """Evaluates new checkpoints during training, and can stop it; its other arguments are those of `evaluate`.

    Args:
      every_n_steps: looks for a checkpoint after so many steps, unless check_interval_secs have not passed since the last look.
      early_stopping_rounds: stops when early_stopping_metric has not become better for so many steps.
    """

    early_stopped, best_step, best_value, best_metrics = False, None, None, None

    def __init__(
        self,
        x=None,
        y=None,
        input_fn=None,
        batch_size=None,
        eval_steps=None,
        every_n_steps=100,
        metrics=None,
        hooks=None,
        early_stopping_rounds=None,
        early_stopping_metric='loss',
        early_stopping_metric_minimize=True,
        name=None,
        check_interval_secs=5,
    ):
        if x is None and input_fn is None:
            raise ValueError('give an input_fn, or x')
        options = dict(x=x, y=y, input_fn=input_fn, batch_size=batch_size, metrics=metrics, hooks=hooks, name=name)
        self._options = {'steps': eval_steps} | {key: value for key, value in options.items() if value is not None}
        self._every_steps, self._every_secs, self._rounds = every_n_steps, check_interval_secs or 0, early_stopping_rounds
        self._metric, self._sign = early_stopping_metric, 1 if early_stopping_metric_minimize else -1
        self._looked_at_step, self._looked_at, self._path = 0, 0.0, None

    def set_estimator(self, estimator):
        self._estimator = estimator

    def after_run(self, run_context, run_values):
        session = run_context.session
        step = session.run(tf.train.get_global_step(session.graph))  # Others may train, too, or a run take many steps.
        if step < self._looked_at_step + self._every_steps:
            return
        self._looked_at_step, now = step, time.time()
        if now <= self._looked_at + self._every_secs:
            return
        self._looked_at, path = now, tf.train.latest_checkpoint(self._estimator.model_dir)
        if path is None or path == self._path:
            return
        self._path = path
        found = self._estimator.evaluate(**self._options)
        tf.logging.info('Validation (step %d): %s', step, ', '.join(f'{key} = {value}' for key, value in found.items()))
        if self._rounds is None:
            return
        if self._metric not in found:
            raise ValueError(f'early_stopping_metric={self._metric} is none of {", ".join(found)}')
        value = found[self._metric]
        if self.best_value is None or self._sign * value < self._sign * self.best_value:
            self.best_step, self.best_value, self.best_metrics = step, value, found
        if step - self.best_step >= self._rounds:
            tf.logging.info('Stopping. Best step: %d with %s = %s.', self.best_step, self._metric, self.best_value)
            self.early_stopped = True
            run_context.request_stop()


def replace_monitors_with_hooks(monitors, estimator):
    monitors = [m for m in monitors or () if estimator.config.is_chief or not isinstance(m, ValidationMonitor)]
    for monitor in monitors:
        if isinstance(monitor, ValidationMonitor):
            monitor.set_estimator(estimator)
    return monitors
