"""Session hooks that show how a training goes: summaries, the log, progress bars."""

import time

import tensorflow.compat.v1 as tf
import tqdm


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
