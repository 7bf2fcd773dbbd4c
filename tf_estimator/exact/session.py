"""The hook that saves and restores the state of a run with its checkpoints."""

import functools
import itertools
import os
import signal
import threading

from tf_estimator.errors import CommandError
from tf_estimator.exact import carried, inexact, keys, state
from tf_estimator.exact.checkpoints import Numbers
from tf_estimator.exact.iterators import Iterators
from tf_estimator.exact.signals import Stop
from tf_estimator.exact.state import State
from tf_estimator.mending import around
from tf_estimator.traps.log import warn

import tensorflow.compat.v1 as tf
from tensorflow.python.training.basic_session_run_hooks import NanLossDuringTrainingError

_KEY = 'exact/key:0'
_BETWEEN_RUNS = 1 << 23


def mend() -> None:
    around(tf.train.CheckpointSaverHook, '_get_saver')(_get_saver)


class NotFiniteError(CommandError, NanLossDuringTrainingError):
    """Weights are not finite; to a program, the error that Estimator raises for such a loss."""

    __str__ = CommandError.__str__


class ExactHook(tf.train.SessionRunHook):
    """Saves and restores what a run needs beside its checkpoints. Is the last of all hooks.

    Args:
      directory: the model_dir.
      first_step: that of the checkpoint from which the training starts, or None.
      resumes: whether that checkpoint is of a run that this one continues, with its input.
      seed: that of the graph.
      stop: what signals ask for.

    Attributes:
      others: the hooks of the program.
    """

    def __init__(self, directory: str, first_step: int | None, resumes: bool, seed: int, stop: Stop) -> None:
        self.directory = directory
        self._first_step, self._resumes, self._seed, self._stop = first_step, resumes, seed, stop
        self._saved_step = first_step  # The step of the newest checkpoint, which is never rewritten.
        self._is_ready = self._is_running = False  # A step stays running if the input has ended.
        self._runs, self._within_run = 0, itertools.count(_BETWEEN_RUNS)
        self._saver_hook = None
        self.others: list[tf.train.SessionRunHook] = []

    def begin(self):
        graph = tf.get_default_graph()
        graph._exact_hook = self
        self._step = tf.train.get_global_step()
        self._has_key = keys.fed_key(graph) is not None
        if reasons := [*inexact.reasons(graph), *carried.reasons(graph), *inexact.reasons_of_hooks(self.others)]:
            warn('This does not resume exactly: %s. All else does.', '; '.join(reasons))
        self._iterators = Iterators(graph)
        self._can_save = bool(self._iterators) and inexact.can_save_input(graph)
        self._numbers = Numbers()

    def after_create_session(self, session, coord):
        step = int(session.run(self._step))
        found = state.read(self.directory, step)
        self._runs = found.runs if found else step
        self._iterators.initialize(session)
        if self._can_save and (self._resumes or step not in (self._first_step, 0)):
            self._restore_input(session, step, found)
        self._within_run = itertools.count(_BETWEEN_RUNS)
        self._follow(session)
        self._is_ready, self._is_running = True, False  # A session that was lost may have been running.

    def _restore_input(self, session, step, found):
        if not found:
            warn('%s has no state of the input at step %d: the input begins anew.', self.directory, step)
        elif found.has_input:
            try:
                self._iterators.restore(session, state.input_path(self.directory, step))
            except (tf.errors.OpError, ValueError) as error:
                reason = str(error).partition('\n')[0]
                warn('The state of the input at step %d is of another input or corrupt (%s): it begins anew.', step, reason)
                self._iterators.restart(session)

    def _follow(self, session):
        """Makes each run of the session by this thread draw other random numbers: by its number, not by the time."""
        run, thread = session.run, threading.get_ident()

        @functools.wraps(run)
        def followed(fetches, feed_dict=None, options=None, run_metadata=None):
            if threading.get_ident() != thread:
                return run(fetches, feed_dict, options, run_metadata)
            if self._has_key:
                feed_dict = {**(feed_dict or {}), _KEY: (self._runs << 24) + next(self._within_run)}
            result = run(fetches, feed_dict, options, run_metadata)
            self._is_running = False
            return result

        session.run = followed

    def before_run(self, run_context):
        self._stop.is_saved = False
        self._is_running = True
        self._runs += 1
        self._within_run = itertools.count()

    def after_run(self, run_context, run_values):
        self._within_run = itertools.count(_BETWEEN_RUNS)
        if self._stop.number is not None:
            self._save_and_exit(run_context.session)

    def _save_and_exit(self, session):
        name, step = signal.Signals(self._stop.number or 0).name, session.run(self._step)
        if self._saver_hook:
            hook = self._saver_hook
            hook._get_saver().save(session, hook._save_path, global_step=step, write_meta_graph=hook._save_graph_def)
            warn('%s: the training ends, and step %d is saved.', name, step)
        self._stop.exit()

    def saver_of(self, hook, saver):
        """Returns a saver for a CheckpointSaverHook that saves the state, too."""
        self._saver_hook = hook
        return _Saver(saver, self)

    def save(self, session, step, save_checkpoint):
        """Saves the state and the checkpoint of a step."""
        if step == self._saved_step:
            return
        if wrong := self._numbers.wrong(session):
            names = ', '.join(wrong[:3]) + (f' and {len(wrong) - 3} more' if len(wrong) > 3 else '')
            kept = 'none is saved' if self._saved_step is None else f'step {self._saved_step} stays the last one saved'
            raise NotFiniteError(f'Training ends at step {step}: not finite: {names}; {kept} in {self.directory}')
        has_input = self._can_save and self._is_ready and not self._is_running and self._save_input(session, step)
        state.write(self.directory, step, State(self._runs, self._seed, has_input))
        save_checkpoint()
        self._saved_step = step
        state.delete_old(self.directory)

    def _save_input(self, session, step):
        try:
            self._iterators.save(session, state.input_path(self.directory, step))
        except tf.errors.OpError as error:
            warn('The state of the input cannot be saved (%s): a resumed training begins it anew.', error.message.strip())
            self._can_save = False
        return self._can_save


class _Saver:
    """A saver, but for `save`."""

    def __init__(self, saver, hook):
        self._saver, self._hook = saver, hook

    def __getattr__(self, name):
        return getattr(self._saver, name)

    def save(self, session, save_path, global_step, **options):
        def save_checkpoint():
            self._saver.save(session, save_path, global_step=global_step, **options)

        self._hook.save(session, int(global_step), save_checkpoint)


def _get_saver(get_saver, self):
    saver, hook = get_saver(self), getattr(tf.get_default_graph(), '_exact_hook', None)
    if hook is None or os.path.realpath(self._checkpoint_dir) != os.path.realpath(hook.directory):
        return saver
    return hook.saver_of(self, saver)
