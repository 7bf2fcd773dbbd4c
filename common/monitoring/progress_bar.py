"""A progress bar for training, on a terminal or in a notebook."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.console import make_bar
from estimator_trainer.common.monitoring.summaries import Length


class ProgressBar(tf.train.SessionRunHook):
    """Shows steps, the loss, epochs, examples/sec and remaining time on a terminal, or in a notebook.

    Args:
      loss: scalar tensor.
    """

    def __init__(self, loss: tf.Tensor, length: Length):
        self._loss = loss
        self._length = length

    def begin(self):
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self._bar = make_bar(
            desc='Training', total=self._length.total_steps, initial=int(session.run(self._global_step)), leave=False
        )

    def before_run(self, run_context):
        return None if self._bar.disable else tf.train.SessionRunArgs([self._loss, self._global_step])

    def after_run(self, run_context, run_values):
        if self._bar.disable:
            return
        loss, step = run_values.results
        self._bar.update(step + 1 - self._bar.n)
        rate = self._bar.format_dict['rate'] or 0
        epoch = self._length.epoch(self._bar.n)
        shown = {'loss': f'{loss:.4g}'}  # First: a narrow terminal cuts off the end.
        if epoch:
            shown['epoch'] = epoch
        if self._length.batch_size:
            shown['examples/sec'] = f'{rate * self._length.batch_size:.0f}'
        self._bar.set_postfix(shown, refresh=False)

    def end(self, session):
        self._bar.close()
