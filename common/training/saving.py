"""Session hooks that save checkpoints of finite values and evaluate them."""

import collections
from collections.abc import Callable, Sequence
import math
import time
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.checkpoint import checkpoint_management

from estimator_trainer.common import files
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.graphs import empty_constants, global_step
from estimator_trainer.common.monitoring.summaries import open_writer
from estimator_trainer.common.monitoring.times import CHECKPOINTS, EVALUATION, Times
from estimator_trainer.common.paths import check_identity, identify
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import retention
from estimator_trainer.common.storage.restore import ModelChanged, different_variables, unknown_variables, without_slots
from estimator_trainer.common.training.exact_program import ProgramState
from estimator_trainer.common.training.gradients import ACCUMULATED
from estimator_trainer.common.training.loss_watch import LossWatch, NotFinite
from estimator_trainer.common.training.minimize import LOSS_SCALING_VARIABLES
from estimator_trainer.common.word_vectors import SCOPE

NOT_FINITE_HINT = 'lower learning_rate, or find the op or the input that made it with --debug_numerics'
_MAX_STARTS = 5  # Of a session that fails at the same run.


def loss_is_not_finite(step: int, loss: float) -> NotFinite:
    """Returns the error for the loss of a step that is NaN or infinite."""
    return NotFinite(f'the loss of step {step} is {loss}: {NOT_FINITE_HINT}', step)


def are_finite() -> dict[str, tf.Tensor]:
    """Returns {name of a variable of floats: scalar bool tensor}.

    With loss scaling, without the sums of accumulated gradients: those that overflow are dropped with the step.
    """
    names = {variable.op.name.rpartition('/')[2] for variable in tf.global_variables()}
    left_out = ACCUMULATED if LOSS_SCALING_VARIABLES[0] in names else None
    return {
        variable.op.name: tf.reduce_all(tf.math.is_finite(variable))
        for variable in tf.global_variables()
        if variable.dtype.base_dtype.is_floating and variable.op.name.rpartition('/')[2] != left_out
    }


class StepCheck(tf.train.SessionRunHook):
    """Raises RunError if a step's loss, a scalar tensor, is not finite, before the step is saved; or if the data ends.

    The framework's training data never ends, but TensorFlow mistakes errors such as StopIteration in a Python function for its
    end. That of an `input_fn` may end, which is a warning, unless no step was possible.

    Args:
      watch: is shown each loss; None for nobody.
      steps: the hook whose `next_visible_step()` returns the next step that hooks see; for `watch`.
    """

    def __init__(self, loss: tf.Tensor, may_end: bool = False, watch: LossWatch | None = None, steps: Any = None):
        self._loss = loss
        self._may_end = may_end
        self._watch = watch
        self._steps = steps
        self._is_running = False

    def before_run(self, run_context):
        self._is_running = True
        self._step = self._steps.next_visible_step() if self._watch else 0
        return tf.train.SessionRunArgs(self._loss)

    def after_create_session(self, session, coord):
        self._start = global_step(session)
        if self._watch:
            self._watch.begin(self._start)

    def after_run(self, run_context, run_values):
        self._is_running = False
        if not math.isfinite(run_values.results):
            raise loss_is_not_finite(global_step(run_context.session), run_values.results)
        if self._watch:
            self._watch.see(self._step, float(run_values.results))

    def end(self, session):
        if not self._is_running:
            return
        step = global_step(session)
        if self._may_end and step > self._start:
            tf.logging.warning('Training ends at step %d, as input_fn() has no more batches: let it repeat its data.', step)
        elif self._may_end:
            raise RunError(f'input_fn() has no batch to train on at step {step}')
        else:
            raise RunError(
                f'the training data ended at step {step}, although it is repeated: a Python function of the dataset or a hook '
                'may have raised StopIteration or OutOfRangeError'
            )


class StepCounts(tf.train.SessionRunHook):
    """Raises UsageError if a program's own training step does not add 1 to the global step, which all else counts by.

    Args:
      source: names the program in the error.
      has_others: whether other processes add to the global step, too.
    """

    def __init__(self, source: str, has_others: bool):
        self._source = source
        self._has_others = has_others

    def after_create_session(self, session, coord):
        self._start = global_step(session)
        self._is_checked = False

    def after_run(self, run_context, run_values):
        if self._is_checked:
            return
        self._is_checked = True
        added = global_step(run_context.session) - self._start
        if added != 1 and not (self._has_others and added):
            raise UsageError(
                f'{self._source}: its train_op adds {added} to the global step, not 1: give '
                'global_step=tf.train.get_global_step() to minimize() of one optimizer'
            )


class BatchCounts(tf.train.SessionRunHook):
    """Warns if the global step does not count the batches of the framework: a resumed run begins with that of its step.

    Args:
      source: names the program in the warning.
    """

    def __init__(self, source: str):
        self._source, self._is_over = source, False

    def after_create_session(self, session, coord):
        self._next = self._last = global_step(session)

    def after_run(self, run_context, run_values):
        if self._is_over:
            return
        self._next += 1
        last, self._last = self._last, global_step(run_context.session)
        if self._last not in (self._next, last):  # The last batch of an iteration may be of no step.
            self._is_over = True
            tf.logging.warning(
                '%s: the global step is %d after the batch of step %d, so a run that resumes trains on other batches.',
                *(self._source, self._last, self._next),
            )


class CheckpointSaver(tf.train.CheckpointSaverHook):
    """Saves a checkpoint at multiples of each period, at the end, and before the first step.

    The checkpoint that a run resumes from is not overwritten: a crash during writing could leave no checkpoint. If a variable
    is not finite, or the directory was replaced since training started, raises RunError and saves nothing.

    Args:
      periods: numbers of steps.
      listeners: notified of each checkpoint; an Estimator adds its own.
      may_drop_variables: whether the model may lack variables of the checkpoint, as its hyper-parameters have changed.
      may_drop_slots: whether its optimizer may lack some, as other variables are trained.
      scaffold: that of the session, whose saver saves; by default, the graph's only saver does.
      state: what else to save with each checkpoint.
      keep_every: the checkpoints at multiples of this step are never deleted; 0 for none.
      times: of the training.
      prepare: function of the session and the step that is called before each checkpoint.
    """

    def __init__(
        self,
        directory: str,
        periods: Sequence[int],
        listeners: Sequence[tf.train.CheckpointSaverListener] = (),
        may_drop_variables: bool = False,
        may_drop_slots: bool = False,
        scaffold: tf.train.Scaffold | None = None,
        state: ProgramState | None = None,
        keep_every: int = 0,
        times: Times | None = None,
        prepare: Callable[[tf.Session, int], None] | None = None,
    ):
        # This class writes the graph faster.
        super().__init__(directory, save_steps=1, scaffold=scaffold, listeners=[*listeners], save_graph_def=False)
        self._timer = _MultiplesTimer(periods)
        self._may_drop_variables, self._may_drop_slots = may_drop_variables, may_drop_slots
        self._state = state
        self._keep_every = keep_every
        self._times = times or Times()
        self._prepare = prepare
        # The last starts of the session: the latest checkpoint, and the number of runs that followed.
        self._starts: collections.deque[tuple[str | None, int]] = collections.deque(maxlen=_MAX_STARTS)
        self._is_starting = False
        self._steps_per_run = 1  # Otherwise it fetches the global step after each step, a third of a short step's time.

    def begin(self):
        open_writer(self._checkpoint_dir)
        super().begin()
        if latest := tf.train.latest_checkpoint(self._checkpoint_dir):
            if differences := different_variables(latest):
                raise ModelChanged(latest, '; '.join(differences))
        with tf.name_scope('is_finite'):
            self._are_finite = are_finite()

    def after_create_session(self, session, coord):
        latest = tf.train.latest_checkpoint(self._checkpoint_dir)
        if latest:
            with session.graph.as_default():
                self._check_unknown(latest)
        self._check_restarts(latest)
        if len(self._starts) == 1:
            retention.warn_of_space(self._checkpoint_dir, session.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES))
        self._write_graph(session.graph)
        step = int(session.run(self._global_step_tensor))
        self._is_starting = True
        self._save(session, step)
        self._is_starting = False
        self._timer.update_last_triggered_step(step)

    def _write_graph(self, graph):
        """Writes the graph, without the training data and pretrained vectors, to graph.pbtxt and for TensorBoard.

        Keeps it, whole, for the checkpoints.
        """
        saver = self._get_saver()
        definition = graph.as_graph_def(add_shapes=True)
        meta = tf.train.export_meta_graph(graph=graph, graph_def=definition, saver_def=saver.saver_def if saver else None)
        # It no longer changes: a Saver exports it for each checkpoint, which takes ten times as long as saving a few weights.
        self._meta_graph = meta.SerializeToString()
        empty_constants(meta.graph_def, 'input/')
        empty_constants(meta.graph_def, SCOPE)
        # As equivalent text from C++: Python's text_format takes 0.1 s and more.
        files.write(f'{self._checkpoint_dir}/graph.pbtxt', str(meta.graph_def))
        self._summary_writer.add_event(tf.Event(wall_time=time.time(), graph_def=meta.graph_def.SerializeToString()))
        self._summary_writer.add_meta_graph(meta)

    def after_run(self, run_context, run_values):
        latest, runs = self._starts[-1]
        self._starts[-1] = latest, runs + 1
        super().after_run(run_context, run_values)

    def _check_unknown(self, checkpoint_path):
        """Once hooks have made their variables, raises ModelChanged, or warns, if others are in the checkpoint."""
        found = unknown_variables(checkpoint_path, trains=True, with_slots=not self._may_drop_slots)
        names = ', '.join(without_slots(found))
        if names and self._may_drop_variables:
            tf.logging.warning('%s: variables that the model no longer has are dropped: %s.', checkpoint_path, names)
        elif names:
            raise ModelChanged(checkpoint_path, f'gone: {names}')

    def _check_restarts(self, latest):
        """Raises RunError if errors that TensorFlow takes for a lost connection come again and again at the same place.

        Tasks of a cluster that are preempted end their sessions at different ones.
        """
        if len(self._starts) == _MAX_STARTS and {*self._starts} == {(latest, self._starts[0][1])}:
            raise RunError(
                f'training was started {_MAX_STARTS} times from {latest}, and failed each time with an AbortedError or '
                'UnavailableError, see the log: mend its cause, or catch it where it is raised'
            )
        self._starts.append((latest, 0))

    def _save(self, session, step):
        with self._times.spent(CHECKPOINTS):
            return self._save_and_notify(session, step)

    def _save_and_notify(self, session, step):
        if self._is_starting:
            self._identity = identify(self._checkpoint_dir)
        check_identity(self._checkpoint_dir, self._identity)
        if not (self._is_starting and tf.io.gfile.exists(f'{self._save_path}-{step}.index')):
            if self._prepare:
                self._prepare(session, step)
            not_finite = [name for name, is_finite in session.run(self._are_finite).items() if not is_finite]
            if not_finite:
                raise NotFinite(f'{not_finite[0]} is not finite after step {step}, which is not saved: {NOT_FINITE_HINT}', step)
            tf.logging.info('Saving checkpoints for %d into %s.', step, self._save_path)
            if self._state and step:
                self._state.save(session, step)
            for listener in self._listeners:
                listener.before_save(session, step)
            saver = self._get_saver()
            retention.delete_excess(saver, self._keep_every)
            path = saver.save(session, self._save_path, global_step=step, write_meta_graph=False)
            if path:  # None without variables.
                files.write(checkpoint_management.meta_graph_filename(path), self._meta_graph)
            if self._state:
                self._state.delete_old()
        return any([listener.after_save(session, step) for listener in self._listeners])  # noqa: C419 - all must be called


class _MultiplesTimer(tf.train.SecondOrStepTimer):
    """Triggers when a multiple of any period is reached or passed, wherever training started."""

    def __init__(self, periods):
        super().__init__(every_steps=1)
        self._periods = periods

    def should_trigger_for_step(self, step):
        last = self.last_triggered_step()
        return last is None or any(step // period > last // period for period in self._periods)


class EvaluateAfterSave(tf.train.CheckpointSaverListener):
    """Evaluates the checkpoints at multiples of every_steps, and the last one, but not the one training started from.

    Args:
      evaluate: evaluates the latest checkpoint; its last return value is kept as `result`.
      should_stop: whether to stop training; called after each evaluation with a result.
      times: of the training.
      is_missed: whether the last checkpoint lacks an evaluation; called at the end of a session.
    """

    def __init__(
        self,
        evaluate: Callable[[], Any],
        should_stop: Callable[[], bool],
        stop: StopOnSignal,
        every_steps: int,
        times: Times | None = None,
        is_missed: Callable[[], bool] = lambda: False,
    ):
        self._is_missed = is_missed
        self._evaluate = evaluate
        self._should_stop = should_stop
        self._stop = stop
        self._every_steps = every_steps
        self._times = times or Times()
        self._last_step = None
        self.result = None

    def after_save(self, session, global_step_value):
        if self._last_step is None:
            self._last_step = global_step_value
            return False
        # With parameter servers, steps may skip a multiple.
        is_due = global_step_value // self._every_steps > self._last_step // self._every_steps
        return is_due and self._run(global_step_value)

    def end(self, session, global_step_value):
        if global_step_value != self._last_step or self._is_missed():
            self._run(global_step_value)

    def _run(self, step):
        self._last_step = step
        with self._times.spent(EVALUATION):
            self.result = self._stop.call_outside_training(self._evaluate)
        return self.result is not None and self._should_stop()
