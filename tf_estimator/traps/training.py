"""Training that ends before anybody expects it, and TPUEstimators without a TPU."""

from tf_estimator.mending import around
from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import estimator as estimators
from tensorflow_estimator.python.estimator.tpu.tpu_estimator import TPUEstimator


@around(estimators.Estimator, 'train')
def _train(train, self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
    if max_steps is not None and max_steps > 0:
        directory, step = self.model_dir, estimators._load_global_step_from_checkpoint_dir(self.model_dir)
        if step >= max_steps:
            warn('%s is at step %d: nothing is trained up to max_steps=%d. Raise it to go on.', directory, step, max_steps)
    return train(self, input_fn, hooks, steps, max_steps, saving_listeners)


class _Watch(tf.train.SessionRunHook):
    """Says that the input is empty, or, of a training with a limit, that it has ended before."""

    is_running = False

    def __init__(self, has_limit):
        self._has_limit = has_limit

    def begin(self):
        self._step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self._first = session.run(self._step)

    def before_run(self, run_context):
        self.is_running = True

    def after_run(self, run_context, run_values):
        self.is_running = False

    def end(self, session):
        step = session.run(self._step) if self.is_running else None
        if self.is_running and step == self._first:
            warn('The training input is empty: nothing was trained.')
        elif self.is_running and self._has_limit:
            warn('The training input has ended at step %d, and so has the training. Dataset.repeat() goes on.', step)


@around(estimators.Estimator, '_train_model')
def _train_model(train_model, self, input_fn, hooks, saving_listeners):
    # The last step of other tasks ends so, too, when the chief stops.
    if self.config.is_chief:
        # Without steps and max_steps, training is meant to end with its input.
        hooks = [_Watch(any(isinstance(hook, tf.train.StopAtStepHook) for hook in hooks)), *hooks]
    return train_model(self, input_fn, hooks, saving_listeners)


@around(TPUEstimator, '__init__')
def _for_cpu(init, self, *args, **kwargs):
    """Makes a TPUEstimator without a TPU export no graph for one, unless that is asked for."""
    if kwargs.get('use_tpu') is False:
        kwargs.setdefault('export_to_tpu', False)
    init(self, *args, **kwargs)
