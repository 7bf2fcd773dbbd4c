"""Session hooks that show how a training goes: summaries, the log, progress bars."""

import time

import tensorflow.compat.v1 as tf


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
      waited: scalar variable of METRIC_VARIABLES, the seconds that `common.monitoring.summaries.measure_wait` counts.
      every_steps: int.
      batch_size: int, examples a step.
      output_dir: str.
      multi_step: common.training.multi_step.MultiStepHook, which knows the next step that hooks see.
    """

    def __init__(self, loss, metrics, waited, every_steps, batch_size, output_dir, multi_step):
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
        # TensorBoard forgets what another training, which was killed, has written of later steps.
        self._writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), int(session.run(self._global_step)) + 1)
        self._seconds = 0

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
        if steps:  # The first one's time is mostly start-up.
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


def measure_wait(inputs):
    """Measures from when a step begins to when its batch is there.

    Args:
      inputs: the step's batch, a tensor or a structure of tensors.

    Returns:
      float64 scalar variable, the seconds summed up over the steps, which is of METRIC_VARIABLES, and the op that adds a
      step's.
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
        begun = tf.timestamp()
        with tf.control_dependencies([begun, *tf.nest.flatten(inputs, expand_composites=True)]):
            return waited, tf.assign_add(waited, tf.timestamp() - begun).op
