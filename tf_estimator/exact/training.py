"""Estimator.train, which resumes exactly."""

import contextlib
import os
import secrets

from tf_estimator.exact import candidates, checkpoints, iterators, keys, state
from tf_estimator.exact.lock import lock
from tf_estimator.exact.random_ops import seeding_keras
from tf_estimator.exact.session import ExactHook
from tf_estimator.exact.signals import Stop, watching
from tf_estimator.mending import around
from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import estimator as estimators

_stops: list[Stop] = []  # Of the runs in progress.
# The checkpoint with which a run of this process has ended in a directory. The next one from it begins its input anew.
_ended: dict[str, str | None] = {}


def mend() -> None:
    for name, function in (
        ('train', _train),
        ('_get_features_and_labels_from_input_fn', _get_input),
        ('_train_with_estimator_spec', _train_with_spec),
        ('_actual_eval', _evaluate),
    ):
        around(estimators.Estimator, name)(function)


def _train(train, self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
    config = self.config
    if self._train_distribution or config.num_worker_replicas > 1 or config.num_ps_replicas:
        warn('With a distribution strategy or in a cluster, --exact does nothing: this run does not resume exactly.')
        return train(self, input_fn, hooks, steps, max_steps, saving_listeners)
    with contextlib.ExitStack() as stack:
        _prepare(self, stack)
        first = self._exact_hook._first_step
        train(self, input_fn, hooks, steps, max_steps, saving_listeners)
        if max_steps is None or first is None or first <= max_steps:
            _ended[os.path.realpath(self.model_dir)] = _latest_name(self.model_dir)
    return self


def _prepare(estimator, stack):
    """Locks the model_dir for a run, and makes the estimator's hook for it."""
    directory = estimator.model_dir
    tf.io.gfile.makedirs(os.path.join(directory, state.FOLDER))
    if '://' not in directory:
        stack.enter_context(lock(os.path.join(directory, state.FOLDER, 'lock')))
    stop = stack.enter_context(_stoppable())
    ended = _ended.pop(os.path.realpath(directory), None)
    if ended is None or ended != _latest_name(directory):
        checkpoints.use_newest_whole(directory)
    state.delete_old(directory)
    latest = tf.train.latest_checkpoint(directory)
    first = checkpoints.step_of(latest) if latest else None
    candidates.train_again(directory)
    found = None if first is None else state.read(directory, first)
    seed = estimator.config.tf_random_seed
    if seed is None:
        seed = found.seed if found else secrets.randbits(31)
    stack.enter_context(seeding_keras(seed))
    resumes = first is not None and _latest_name(directory) != ended
    estimator._exact_hook = ExactHook(directory, first, resumes, seed, stop)
    stack.callback(delattr, estimator, '_exact_hook')


@contextlib.contextmanager
def _stoppable():
    with watching() as stop:
        stop.is_saved = True  # Until the first step.
        _stops.append(stop)
        try:
            yield stop
            if stop.number is not None:  # It came after the last step.
                stop.exit()
        finally:
            _stops.remove(stop)


def _latest_name(directory):
    latest = tf.train.latest_checkpoint(directory)
    return os.path.basename(latest) if latest else None


def _get_input(get_input, self, input_fn, mode):
    graph, hook = tf.get_default_graph(), getattr(self, '_exact_hook', None)
    if hook is not None and mode == tf.estimator.ModeKeys.TRAIN:
        keys.begin(graph)
        iterators.begin(graph)
        graph.seed = hook._seed
    return get_input(self, input_fn, mode)


def _train_with_spec(train_with_spec, self, estimator_spec, worker_hooks, hooks, *args):
    hook = getattr(self, '_exact_hook', None)
    if hook is not None:
        hook.others = [*worker_hooks, *hooks, *estimator_spec.training_hooks, *estimator_spec.training_chief_hooks]
        estimator_spec = estimator_spec._replace(training_hooks=[*estimator_spec.training_hooks, hook])
    return train_with_spec(self, estimator_spec, worker_hooks, hooks, *args)


def _evaluate(actual_eval, self, *args, **kwargs):
    """During an evaluation of train_and_evaluate, there is nothing to save: a signal ends the process at once."""
    for stop in _stops:
        stop.is_saved = True
        if stop.number is not None:
            stop.exit()
    return actual_eval(self, *args, **kwargs)
