"""A progress bar for training, on a terminal."""

import tensorflow.compat.v1 as tf
import tqdm


class ProgressBar(tf.train.SessionRunHook):
    """Shows steps, epochs, examples/sec, loss and remaining time on stderr, if that is a terminal.

    Args:
      loss: scalar tensor.
      total_steps: the step at which training ends.
      epoch_steps: steps per epoch; 0 if the data is infinite.
      batch_size: examples per step.
    """

    def __init__(self, loss: tf.Tensor, total_steps: int, epoch_steps: float, batch_size: int):
        self._loss = loss
        self._total_steps = total_steps
        self._epoch_steps = epoch_steps
        self._batch_size = batch_size

    def begin(self):
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self._bar = tqdm.tqdm(
            desc='Training', total=self._total_steps, initial=int(session.run(self._global_step)), leave=False, disable=None
        )

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
