"""Training summaries, log lines, and the training's rows of metrics.csv, from a session hook."""

from collections.abc import Callable, Mapping
import dataclasses
import sys
import time
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf
import tqdm

from estimator_trainer.common.graphs import global_step
from estimator_trainer.common.monitoring.status_file import StatusFile
from estimator_trainer.common.monitoring.times import LOGGING, Times
from estimator_trainer.common.ops.metrics import make_counts
from estimator_trainer.common.storage import history
from estimator_trainer.common.storage.metrics_table import STEP_LOSS
from estimator_trainer.hparams.build import HParams


@dataclasses.dataclass(frozen=True)
class Length:
    """The length of training.

    num_examples are per epoch, 0 if undefined; training ends at step total_steps; a step has batch_size examples, 0 if unknown.
    """

    params: HParams
    num_examples: int
    total_steps: int
    batch_size: int

    def epoch(self, step: int) -> str:
        """Returns the number of epochs up to a step, such as '0.25'; '' if undefined."""
        return f'{self.params.examples_at(step) / self.num_examples:.2f}' if self.num_examples else ''


class _Speed(NamedTuple):
    elapsed: float  # Seconds.
    seconds_left: float
    scalars: dict[str, float]


@dataclasses.dataclass(eq=False, repr=False)
class TrainingSummaries(tf.train.SessionRunHook):
    """Writes the summaries, the batch's metrics and the speed to TensorBoard, and the loss and the speed to the log.

    Writes at the first step after the start of training and every every_steps steps after it. Replaces the Estimator's own
    hooks, which count session calls or must see every step. Each line of the log is a row of metrics.csv, too, with the batch's
    metrics, the learning rate and the speed; and it updates the status.

    examples/sec covers training steps only: this hook precedes the one that saves checkpoints, so saving and evaluating are
    not timed. input/wait_fraction is the fraction of that time spent waiting for a batch.

    Args:
      loss: scalar tensor.
      mean_loss: scalar tensor, the value of tf.metrics.mean of the loss of each step, for the log.
      metrics: {name: (value, update_op)}, as created by tf.metrics; only scalars are written.
      waited: scalar variable in METRIC_VARIABLES, the seconds that `measure_wait` counts.
      every_steps: steps between writes.
      steps: the hook whose `next_visible_step()` returns the next step that hooks see.
      on_metrics: called with {'global_step': int, 'train': {name: float}} at each write; None for nothing.
      status: of this run.
      times: likewise.
    """

    loss: tf.Tensor
    mean_loss: tf.Tensor
    metrics: Mapping[str, tuple[Any, Any]]
    waited: tf.Variable
    every_steps: int
    length: Length
    output_dir: str
    steps: Any
    on_metrics: Callable[[dict[str, Any]], None] | None
    status: StatusFile
    times: Times

    def __post_init__(self):
        updates = {name: update for name, (_, update) in self.metrics.items()}
        self._metrics = {name: op for name, op in updates.items() if isinstance(op, tf.Tensor) and op.shape.rank == 0}
        self._reset = tf.variables_initializer(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))
        self._timer = tf.train.SecondOrStepTimer(every_steps=self.every_steps)

    def begin(self):
        self._writer = open_writer(self.output_dir)
        self._fetches = {'loss': self.loss, 'metrics': self._metrics, 'summaries': tf.summary.merge_all()}

    def after_create_session(self, session, coord):
        step = global_step(session)
        # Makes TensorBoard discard later steps written by a killed run.
        self._writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), step + 1)
        history.start_training(self.output_dir, step)
        self.status.begin(step, self.length.total_steps)
        self._seconds: float = 0
        tf.logging.info('Running the first step, which optimizes the graph and waits for the first batch.')

    def before_run(self, run_context):
        self._step = self.steps.next_visible_step()
        self._is_due = self._timer.should_trigger_for_step(self._step)
        self._started = time.perf_counter()
        return tf.train.SessionRunArgs(self._fetches) if self._is_due else None

    def after_run(self, run_context, run_values):
        self._seconds += time.perf_counter() - self._started
        if self._is_due:
            with self.times.spent(LOGGING):
                self._write(run_context.session, **run_values.results)
                run_context.session.run(self._reset)
            self._seconds = 0

    def _write(self, session, loss, metrics, summaries):
        waited, mean = session.run((self.waited, self.mean_loss))
        speed, parts = self._measure_speed(waited), self.times.log(int(self._step), waited)
        self._log(mean, speed)
        summary = tf.Summary.FromString(summaries)
        self._writer.add_summary(summary, self._step)
        scalars = {**metrics, **(speed.scalars if speed else {})}
        shown = {**scalars, **{f'step_ms/{part}': milliseconds for part, milliseconds in parts.items()}}
        self._writer.add_summary(
            tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value) for tag, value in shown.items()]), self._step
        )
        self._record({'loss': mean, **metrics}, loss, _find(summary, 'learning_rate'), speed)
        if self.on_metrics:
            values = {name: float(value) for name, value in {'loss': loss, **scalars}.items()}
            self.on_metrics({'global_step': int(self._step), 'train': values})

    def _measure_speed(self, waited):
        """Returns the _Speed since the last write; None at the first one, which is mostly start-up, or if a clock was reset."""
        elapsed, steps = self._timer.update_last_triggered_step(self._step)
        if not steps or elapsed <= 0 or self._seconds <= 0:
            return None
        rate = steps * self.length.batch_size / self._seconds
        scalars = {
            'global_step/sec': steps / elapsed,
            **({'examples/sec': rate} if rate else {}),
            'input/wait_fraction': waited / self._seconds,
        }
        return _Speed(elapsed, max(self.length.total_steps - self._step, 0) * elapsed / steps, scalars)

    def _log(self, mean, speed):
        epoch = self.length.epoch(self._step)
        progress = [f'epoch {epoch}'] if epoch else []
        since = ''
        if speed:
            tf.logging.info(f'global_step/sec: {speed.scalars["global_step/sec"]:g}')
            since = f' ({speed.elapsed:.3f} sec)'
            progress.append(f'{tqdm.tqdm.format_interval(speed.seconds_left)} left')
        tf.logging.info(', '.join([f'loss = {mean!s}, step = {self._step - 1}{since}', *progress]))

    def _record(self, metrics, loss, learning_rate, speed):
        """Writes a row of metrics.csv, and the status."""
        step, examples_per_second = int(self._step), speed and speed.scalars.get('examples/sec')
        numbers = {**metrics, 'learning_rate': learning_rate, 'examples/sec': examples_per_second, STEP_LOSS: str(loss)}
        history.add_training(self.output_dir, self.length.params.train_split, step, numbers)
        self.status.log(step, metrics, examples_per_second, speed and speed.seconds_left, learning_rate)

    def end(self, session):
        self.times.log(int(self._step), session.run(self.waited))
        self._writer.flush()


def _find(summary, tag):
    """Returns the scalar of a tag in a tf.Summary, or None."""
    return next((value.simple_value for value in summary.value if value.tag == tag and value.HasField('simple_value')), None)


def open_writer(directory: str) -> tf.summary.FileWriter:
    """Returns the writer of a directory, which this process shares; it leaves the graph to the CheckpointSaver."""
    cache = tf.summary.FileWriterCache
    with cache._lock:
        if directory not in cache._cache:
            cache._cache[directory] = tf.summary.FileWriter(directory)
        return cache._cache[directory]


def close_writers(output_dir: str) -> None:
    """Closes the event files that TensorFlow keeps open for a directory and its subdirectories.

    Otherwise, a later run there would write to the same files, even if deleted.

    Raises:
      Exception: events cannot be written, and no other error is being handled.
    """
    cache, top = tf.summary.FileWriterCache, f'{output_dir.rstrip("/")}/'
    with cache._lock:
        found = [path for path in cache._cache if f'{path}/'.startswith(top)]
        writers = [cache._cache.pop(path) for path in found]
    errors = []
    for writer in writers:
        try:
            writer.close()
        except Exception as error:  # That of the thread that writes: of any type.
            errors.append(error)
    if errors and not sys.exc_info()[0]:
        raise errors[0]


def measure_wait(inputs: Any) -> tuple[tf.Variable, tf.Operation]:
    """Measures the time from the start of a step until its batch is available.

    Args:
      inputs: the step's batch, a tensor or a structure of tensors.

    Returns:
      A float64 scalar variable in METRIC_VARIABLES, the total seconds over the steps, and the op that adds a step's time.
    """
    with tf.name_scope('input_wait'):
        waited = make_counts([], tf.float64, 'input_wait')
        started = tf.timestamp()
        with tf.control_dependencies([started, *tf.nest.flatten(inputs, expand_composites=True)]):
            return waited, tf.assign_add(waited, tf.timestamp() - started).op
