"""Session hooks: stopping on a signal, checks, summaries and the log, progress bars, checkpoints and their evaluation."""

import contextlib
import math
import signal
import sys
import time

import tensorflow.compat.v1 as tf
import tqdm

from common.errors import RunError

_CURE = 'lower learning_rate, or find the op that made it with --debug_numerics'


class StopOnSignal(tf.train.SessionRunHook):
    """Ends the training after the current step on SIGINT, SIGTERM or SIGHUP, so that a checkpoint of it is saved.

    Outside the training, where there is nothing to save, the signal ends the process at once with exit code 128 + signal;
    so does a second Ctrl-C. Used as a context manager around everything, and as a hook of the training.
    """

    def __init__(self):
        self._received = None
        self._training = False

    def __enter__(self):
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # As it is under nohup.
            numbers.append(signal.SIGHUP)
        self._previous = {number: signal.signal(number, self._handle) for number in numbers}
        return self

    def __exit__(self, *unused_exception):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number, unused_frame):
        is_impatient = self._received is not None and number == signal.SIGINT
        self._received = number
        if is_impatient or not self._training:
            sys.exit(128 + number)

    def begin(self):
        self._training = True

    def after_run(self, run_context, run_values):
        if self._received:
            tf.logging.info('%s: stopping after a checkpoint; the same command goes on from there.',
                            signal.Signals(self._received).name)
            run_context.request_stop()

    def end(self, session):
        self._training = False

    def exit_if_received(self):
        """Ends the process if a signal came."""
        if self._received:
            sys.exit(128 + self._received)

    @contextlib.contextmanager
    def noting(self):
        """In its block a signal is only noted, for `exit_if_received`."""
        self._training = True
        try:
            yield
        finally:
            self._training = False

    def call_outside_training(self, fn):
        """Calls `fn` amid the training, right after a checkpoint; a signal then need not wait for `fn` to finish."""
        if self._received:
            return None
        self._training = False
        result = fn()
        self._training = True
        return result


class LossCheck(tf.train.SessionRunHook):
    """Ends the training with a RunError at a loss that is not finite, before anything of that step is saved.

    Args:
      loss: scalar tensor.
      loop: common.loop.Loop, which tells the step.
    """

    def __init__(self, loss, loop):
        self._loss = loss
        self._loop = loop

    def before_run(self, run_context):
        self._step = self._loop.next_seen()
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        if not math.isfinite(run_values.results):
            raise RunError(f'the loss of step {self._step} is {run_values.results}: {_CURE}')


class TrainingSummaries(tf.train.SessionRunHook):
    """Writes the summaries, the batch's metrics and the speed to TensorBoard, and the loss and the speed to the log.

    The first step is written, counted from where the training starts, and every so many after it. The Estimator's own hooks
    do so too, but count calls of the session, or have to see each step.

    examples/sec counts the training steps alone: this hook comes before the one that saves checkpoints, so that its clock
    stops before a checkpoint is saved and evaluated. input/wait_fraction is the share of that time in which a step waits
    for its batch.

    Args:
      loss: scalar tensor.
      metrics: dict of name to (value, update_op), as tf.metrics makes them; all but scalars are left out.
      waited: scalar variable of METRIC_VARIABLES, the seconds that `common.input_wait.measure_wait` counts.
      every_steps: int.
      batch_size: int, examples a step.
      output_dir: str.
      loop: common.loop.Loop, which tells the step.
    """

    def __init__(self, loss, metrics, waited, every_steps, batch_size, output_dir, loop):
        self._loss = loss
        self._metrics = {name: update for name, (_, update) in metrics.items()
                         if isinstance(update, tf.Tensor) and update.shape.rank == 0}
        self._waited = waited
        self._reset = tf.variables_initializer(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))
        self._timer = tf.train.SecondOrStepTimer(every_steps=every_steps)
        self._batch_size = batch_size
        self._output_dir = output_dir
        self._loop = loop

    def begin(self):
        self._writer = tf.summary.FileWriterCache.get(self._output_dir)
        self._global_step = tf.train.get_global_step()
        self._fetches = {'loss': self._loss, 'metrics': self._metrics, 'summaries': tf.summary.merge_all()}

    def after_create_session(self, session, coord):
        # TensorBoard forgets what another training, which was killed, has written of later steps.
        self._writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), int(session.run(self._global_step)) + 1)
        self._seconds = 0

    def before_run(self, run_context):
        self._step = self._loop.next_seen()
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
        if steps:  # The first one's time is mostly start-up.
            scalars.update({'global_step/sec': steps / elapsed, 'examples/sec': steps * self._batch_size / self._seconds,
                            'input/wait_fraction': session.run(self._waited) / self._seconds})
            since = f' ({elapsed:.3f} sec)'
            tf.logging.info(f'global_step/sec: {steps / elapsed:g}')
        tf.logging.info(f'loss = {loss!s}, step = {self._step - 1}{since}')
        self._writer.add_summary(summaries, self._step)
        self._writer.add_summary(tf.Summary(value=[
            tf.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]), self._step)

    def end(self, session):
        self._writer.flush()


class ProgressBar(tf.train.SessionRunHook):
    """Draws the training's steps, epochs, examples/sec, loss and the time left on stderr; on a terminal only.

    Args:
      loss: scalar tensor.
      total_steps: int, the step at which it is full.
      epoch_steps: float, the steps of an epoch; 0 where there are none.
      batch_size: int, examples a step.
    """

    def __init__(self, loss, total_steps, epoch_steps, batch_size):
        self._loss = loss
        self._total_steps = total_steps
        self._epoch_steps = epoch_steps
        self._batch_size = batch_size

    def begin(self):
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self._bar = tqdm.tqdm(desc='Training', total=self._total_steps, initial=int(session.run(self._global_step)),
                              leave=False, disable=None)

    def before_run(self, run_context):
        return None if self._bar.disable else tf.train.SessionRunArgs([self._loss, self._global_step])

    def after_run(self, run_context, run_values):
        if self._bar.disable:
            return
        loss, step = run_values.results
        self._bar.update(step + 1 - self._bar.n)
        rate = self._bar.format_dict['rate'] or 0
        shown = {'epoch': f'{self._bar.n / self._epoch_steps:.2f}'} if self._epoch_steps else {}
        shown = {**shown, 'examples/sec': f'{rate * self._batch_size:.0f}', 'loss': f'{loss:.4g}'}
        self._bar.set_postfix(shown, refresh=False)

    def end(self, session):
        self._bar.close()


class CheckpointSaver(tf.train.CheckpointSaverHook):
    """Saves a checkpoint at the multiples of one or several numbers of steps, at the end, and before the first step.

    The checkpoint that a training goes on from is not written again: while it were, there might be none. Variables that
    are not finite are never saved, but end the training with a RunError.

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
            self._are_finite = {variable.op.name: tf.reduce_all(tf.math.is_finite(variable))
                                for variable in tf.global_variables() if variable.dtype.base_dtype.is_floating}

    def after_create_session(self, session, coord):
        self._is_beginning = True
        super().after_create_session(session, coord)
        self._is_beginning = False

    def _save(self, session, step):
        if not (self._is_beginning and tf.io.gfile.exists(f'{self._save_path}-{step}.index')):
            broken = [name for name, is_finite in session.run(self._are_finite).items() if not is_finite]
            if broken:
                raise RunError(f'{broken[0]} is not finite after step {step}, which is not saved: {_CURE}')
            tf.logging.info('Saving checkpoints for %d into %s.', step, self._save_path)
            self._get_saver().save(session, self._save_path, global_step=step)
        return any([listener.after_save(session, step) for listener in self._listeners])


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
      is_enough: function without arguments; if it returns true after an evaluation, the training ends.
      stop: StopOnSignal.
      every_steps: int, of whose multiples the checkpoints are evaluated.
    """

    def __init__(self, evaluate, is_enough, stop, every_steps):
        self._evaluate = evaluate
        self._is_enough = is_enough
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
        return self.result is not None and self._is_enough()
