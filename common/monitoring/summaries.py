"""Training summaries and log lines, from a session hook."""

from collections.abc import Mapping
import time
from typing import Any

import tensorflow.compat.v1 as tf


class TrainingSummaries(tf.train.SessionRunHook):
    """Writes the summaries, the batch's metrics and the speed to TensorBoard, and the loss and the speed to the log.

    It writes at the first step after the start of training and every every_steps steps after it. The Estimator's own hooks
    are not used, since they count session calls or have to see every step.

    examples/sec covers training steps only: this hook precedes the one that saves checkpoints, so saving and evaluating are
    not timed. input/wait_fraction is the fraction of that time in which a step waits for its batch.

    Args:
      loss: scalar tensor.
      metrics: {name: (value, update_op)}, as created by tf.metrics; only scalars are written.
      waited: scalar variable in METRIC_VARIABLES, the seconds that `measure_wait` counts.
      every_steps: steps between writes.
      batch_size: examples per step.
      output_dir: where the event files go.
      multi_step: common.training.multi_step.MultiStepHook, which knows the next step that hooks see.
    """

    def __init__(
        self,
        loss: tf.Tensor,
        metrics: Mapping[str, tuple[Any, Any]],
        waited: tf.Variable,
        every_steps: int,
        batch_size: int,
        output_dir: str,
        multi_step,
    ):
        self._loss = loss
        self._metrics = {
            name: update for name, (_, update) in metrics.items() if isinstance(update, tf.Tensor) and update.shape.rank == 0
        }
        self._waited = waited
        self._reset = tf.variables_initializer(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))
        self._timer = tf.train.SecondOrStepTimer(every_steps=every_steps)
        self._batch_size = batch_size
        self._output_dir = output_dir
        self._multi_step = multi_step

    def begin(self):
        self._writer = tf.summary.FileWriterCache.get(self._output_dir)
        self._global_step = tf.train.get_global_step()
        self._fetches = {'loss': self._loss, 'metrics': self._metrics, 'summaries': tf.summary.merge_all()}

    def after_create_session(self, session, coord):
        # Makes TensorBoard discard later steps that were written by an earlier, killed training.
        self._writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), int(session.run(self._global_step)) + 1)
        self._seconds: float = 0

    def before_run(self, run_context):
        self._step = self._multi_step.next_visible_step()
        self._is_due = self._timer.should_trigger_for_step(self._step)
        self._started = time.perf_counter()
        return tf.train.SessionRunArgs(self._fetches) if self._is_due else None

    def after_run(self, run_context, run_values):
        self._seconds += time.perf_counter() - self._started
        if self._is_due:
            self._write(run_context.session, **run_values.results)
            run_context.session.run(self._reset)
            self._seconds = 0

    def _write(self, session, loss, metrics, summaries):
        scalars = dict(metrics)
        elapsed, steps = self._timer.update_last_triggered_step(self._step)
        since = ''
        if steps:  # The time of the first step is mostly start-up.
            scalars.update(
                {
                    'global_step/sec': steps / elapsed,
                    'examples/sec': steps * self._batch_size / self._seconds,
                    'input/wait_fraction': session.run(self._waited) / self._seconds,
                }
            )
            since = f' ({elapsed:.3f} sec)'
            tf.logging.info(f'global_step/sec: {steps / elapsed:g}')
        tf.logging.info(f'loss = {loss!s}, step = {self._step - 1}{since}')
        self._writer.add_summary(summaries, self._step)
        self._writer.add_summary(
            tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]), self._step
        )

    def end(self, session):
        self._writer.flush()


def measure_wait(inputs: Any) -> tuple[tf.Variable, tf.Operation]:
    """Measures the time from the start of a step until its batch is available.

    Args:
      inputs: the step's batch, a tensor or a structure of tensors.

    Returns:
      A float64 scalar variable in METRIC_VARIABLES, the total seconds over the steps, and the op that adds a step's time.
    """
    with tf.name_scope('input_wait'):
        waited = tf.get_variable(
            'input_wait',
            [],
            tf.float64,
            tf.zeros_initializer(),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        )
        started = tf.timestamp()
        with tf.control_dependencies([started, *tf.nest.flatten(inputs, expand_composites=True)]):
            return waited, tf.assign_add(waited, tf.timestamp() - started).op
