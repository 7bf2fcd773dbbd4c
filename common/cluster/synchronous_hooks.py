"""Session hooks of synchronous training: all processes start, stop and end at the same step."""

from collections.abc import Callable, Sequence
import signal
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.agreement import own_variables
from estimator_trainer.common.cluster.collectives import Collectives
from estimator_trainer.common.cluster.hooks import OneSession
from estimator_trainer.common.cluster.training_task import Means
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.stop import StopOnSignal


class SharedScaffold(OneSession):
    """Broadcasts the chief's variables to all processes when the session is created."""

    def __init__(self, task: Any):
        # Precedes the initializers of iterators, which read the global step.
        start = task.collectives.broadcast(tf.global_variables())
        super().__init__(task, tf.group(tf.train.Scaffold.default_local_init_op(), start))

    def finalize(self):
        finalized = super().finalize()
        self.task.set_deadline(1)
        return finalized


class StepMeans(Means):
    """Averages gradients, losses and votes over the processes, in the same messages.

    Dense gradients that are accumulated are averaged only when they are applied.

    Args:
      collectives: see common/cluster/collectives.py.
      loss: float32 scalar, of this process's share of the batch.
      parts: number of such shares that make a batch, an integer if all are equal.
      cycle: number of steps whose gradients make an update.

    Attributes:
      cycle: likewise.
      own: the names of the variables that may differ between tasks, see agreement.py.
      vote: float32 scalar placeholder: whether this process wants to stop.
      votes: float32 scalar: the mean of the votes, weighted like the losses, available like the mean of the loss.
    """

    sends_gradients = True

    def __init__(self, collectives: Collectives, loss: tf.Tensor, parts: Any, cycle: int = 1):
        super().__init__(loss)
        self._collectives, self._parts, self.cycle = collectives, parts, cycle
        self.own = own_variables(loss)
        self._sums: Sequence[tf.Variable] = ()
        self.vote = tf.placeholder_with_default(0.0, [], 'vote')
        self.votes = self.vote

    def __call__(self, gradients: Sequence[Any], merge: Callable[[Any], Any]) -> Sequence[Any]:
        if self.cycle > 1 and gradients:  # A program accumulates its own itself.
            return [self._sparse_mean(gradient, merge) for gradient in gradients]
        *means, self.loss, self.votes = self._collectives.mean([*gradients, self.loss, self.vote], self._parts)
        return [_merge_alike(mean, merge) for mean in means]

    def of_sums(self, sums, is_due):
        self._sums = sums
        (self.loss, self.votes), means = self._collectives.mean_if(is_due, sums, [self.loss, self.vote], self._parts)
        return means

    def _sparse_mean(self, gradient, merge):
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        return mean_alike(self._collectives, [gradient], merge, self._parts)[0]

    def share_sums(self) -> tf.Operation:
        """Returns the op that replaces the sums of `of_sums` by their means, in all tasks, which does not change the means."""
        if not self._sums:
            return tf.no_op()
        means = self._collectives.mean([total.read_value() for total in self._sums], self._parts)
        return tf.group(*[tf.assign(total, mean) for total, mean in zip(self._sums, means)])


def mean_alike(
    collectives: Collectives, gradients: Sequence[Any], merge: Callable[[Any], Any], parts: Any
) -> list[tf.Tensor | tf.IndexedSlices]:
    """Returns the means of gradients, the same in all processes to the bit; arguments as of `Means` and Collectives.mean."""
    return [_merge_alike(mean, merge) for mean in collectives.mean(gradients, parts)]


def _merge_alike(gradient, merge):
    with tf.device('/cpu:0'):  # A GPU adds in an order that may differ between the tasks.
        return merge(gradient)


class EndTogether(tf.train.SessionRunHook):
    """Keeps each process alive until all have run their last step: others may still fetch partial sums from it.

    It precedes the hook that saves the last checkpoint, so that the others need not wait for that.
    """

    def __init__(self, task: Any):
        self._task = task
        self._barrier = task.collectives.maximum(tf.zeros([1])).op

    def end(self, session):
        self._task.end_watch()
        try:
            session.run(self._barrier)
        except tf.errors.OpError as error:
            # Another task can have ended only after all have arrived here.
            tf.logging.info('Another task ended first (%s).', type(error).__name__)


class StopTogether(tf.train.SessionRunHook):
    """Stops all processes after the same step if one receives a signal or the chief stops.

    Each step shares whether a signal has arrived. After each step at which the chief may evaluate, the others wait for its
    decision. Accumulated gradients first make an update, so that they need not be shared before. It must follow the hook that
    saves checkpoints.

    Args:
      task: this process's SynchronousTask.
      periods: the chief may evaluate, and hooks may stop training, at multiples of each.
      total_steps: the step at which training ends.
      multi_step: estimator_trainer.common.training.multi_step.MultiStepHook, which knows the next step that hooks see.
      end: ends the session of all tasks.
    """

    def __init__(
        self,
        task: Any,
        means: StepMeans,
        stop: StopOnSignal,
        periods: Sequence[int],
        total_steps: int,
        multi_step: Any,
        end: EndTogether,
    ):
        self._task = task
        self._means = means
        self._stop = stop
        self._periods = periods
        self._total_steps = total_steps
        self._multi_step = multi_step
        self._end = end
        self._reason = tf.placeholder_with_default(tf.zeros([3]), [3], 'reason')
        self._reasons = task.collectives.maximum(self._reason, is_watched=True)

    def begin(self):
        self._stop.begin()

    def before_run(self, run_context):
        self._step = self._multi_step.next_visible_step()
        return tf.train.SessionRunArgs(self._means.votes, {self._means.vote: float(self._stop.received is not None)})

    def after_run(self, run_context, run_values):
        self._task.last_step = self._step
        is_shared_step = any(self._step % period == 0 for period in self._periods)
        is_signalled = run_values.results > 0 and (is_shared_step or self._step % self._means.cycle == 0)
        if run_context.stop_requested and not is_shared_step and self._step < self._total_steps:
            periods = ' or '.join(map(str, sorted(set(self._periods))))
            raise UsageError(
                f'a hook of the model stops training after step {self._step}: in a cluster that is possible only at '
                f'multiples of {periods}, where the tasks wait for the chief to save or evaluate'
            )
        if not is_signalled and is_shared_step:
            reason = [self._stop.received is not None, run_context.stop_requested, self._task.has_returning()]
            with self._task.waiting(self._stop):
                is_signalled, is_over, has_returning = run_context.session.run(self._reasons, {self._reason: reason})
            if has_returning and not (is_signalled or is_over or self._step >= self._total_steps):
                self._end.end(run_context.session)
                raise self._task.take_back()
            if is_over:
                run_context.request_stop()
        self._stop.finish_step(run_context, (self._stop.received or signal.SIGTERM) if is_signalled else None)

    def end(self, session):
        self._stop.end(session)
