"""Records the margin of each training example at each step, for --record_margins: see `storage.margins_file`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import ALONE, TrainingTask
from estimator_trainer.common.errors import UsageError, describe
from estimator_trainer.common.graphs import global_step
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.storage import margins_file
from estimator_trainer.common.targets import why_no_class
from estimator_trainer.hparams.build import HParams

FLAG = '--record_margins'
_MAX_STEPS = 1000  # Between two writes.
_MAX_MARGINS = 2**21
_LEAST = np.finfo(np.float32).tiny


def margins(labels: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
    """Returns the margins of a classifier: log p of the label minus the largest log p of another class, float32 [batch].

    As the softmax adds the same number to the logarithms of all classes, these are the differences of the logits, limited to
    those of probabilities that float32 can hold: ±87.

    Args:
      labels: int [batch], in [0, num_classes).
      probabilities: float [batch, num_classes].
    """
    probabilities = tf.cast(probabilities, tf.float32)
    is_label = tf.one_hot(labels, probabilities.shape[1], True, False, dtype=tf.bool)
    of_label = tf.reduce_max(tf.where(is_label, probabilities, tf.zeros_like(probabilities)), 1)
    of_others = tf.reduce_max(tf.where(is_label, tf.zeros_like(probabilities), probabilities), 1)
    return tf.log(tf.maximum(of_label, _LEAST)) - tf.log(tf.maximum(of_others, _LEAST))


class Margins(tf.train.SessionRunHook):
    """The op that keeps the margins of a step, and the hook that writes them.

    They are kept in a variable, in a row for each step, so that steps may run in a loop, and written when it is full and before
    each checkpoint: whatever step a run resumes from, the file has all up to it.

    Args:
      labels, predictions: of this process's share of a step's batch, as the model has them in training.
      task: which has the margins of all, if there are several.

    Attributes:
      op: keeps the margins of a step; must run before the global step increases.
      period: the hook must see the multiples of this step.

    Raises:
      UsageError: they are not those of a classifier, or are mixed.
    """

    def __init__(
        self,
        labels: Mapping[str, Any],
        predictions: Mapping[str, Any],
        params: HParams,
        output_dir: str,
        periods: Sequence[int],
        task: TrainingTask = ALONE,
    ):
        check_params(params, output_dir)
        _check(labels, predictions, params)
        self._params, self._output_dir = params, output_dir
        self.period = max(min(_MAX_STEPS, _MAX_MARGINS // params.batch_size), 1)
        self._periods = [self.period, *periods]
        with tf.name_scope('margins'):
            self._kept = tf.get_variable(
                'margins',
                [self.period, params.batch_size],
                tf.float16,
                tf.zeros_initializer(),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
            )
            row = tf.math.mod(tf.train.get_or_create_global_step().read_value(), self.period)
            found = task.whole(margins(labels['label'], predictions['probabilities']), params.batch_size)
            self.op = self._kept.scatter_nd_update(
                [[row]], tf.cast(tf.ensure_shape(found, [params.batch_size]), tf.float16)[None]
            ).op

    def hook(self, steps: Any) -> 'Margins':
        """Returns itself, as the hook; it must precede the one that saves checkpoints.

        Args:
          steps: its `next_visible_step()` returns the next step that hooks see.
        """
        self._steps = steps
        return self

    def begin(self):
        self._rows = self._kept.read_value()

    def after_create_session(self, session, coord):
        self._step = self._written = global_step(session)
        margins_file.restart(self._output_dir, self._params.examples_at(self._step))

    def before_run(self, run_context):
        self._next = self._steps.next_visible_step()

    def after_run(self, run_context, run_values):
        self._step = self._next
        if any(self._step % period == 0 for period in self._periods):
            self._write(run_context.session)

    def end(self, session):
        self._write(session)

    def _write(self, session):
        steps = np.arange(self._written, self._step)
        if steps.size:
            rows = session.run(self._rows)
            margins_file.append(self._output_dir, rows[steps % len(rows)].ravel())
        self._written = self._step


def check_params(params: HParams, output_dir: str) -> None:
    """Raises UsageError if the margins of a run would have no meaning, or their file no place."""
    if is_remote(output_dir):
        raise UsageError(f'{FLAG}: --output_dir={output_dir} must be on this machine: its file is changed in place')
    if found := why_no_class(params.metadata, params.get('task')):
        raise UsageError(f'{FLAG} is for one class of each example, but {found}: omit it')
    if params.mixup_alpha:
        raise UsageError(f'{FLAG} excludes mixup_alpha={params.mixup_alpha:g}: a mixed example has two labels: omit one')


def _check(labels, predictions, params):
    label, probabilities = labels.get('label'), predictions.get('probabilities')
    if not isinstance(label, tf.Tensor) or not label.dtype.is_integer or label.shape.rank != 1:
        found = f'has {describe(label)}' if label is not None else f'has: {", ".join(labels)}'
        raise UsageError(f'{FLAG} needs a label of classes named label, int [batch]; --dataset={params.dataset} {found}')
    is_matrix = isinstance(probabilities, tf.Tensor) and probabilities.shape.rank == 2 and (probabilities.shape[1] or 0) > 1
    if not is_matrix or 'class' not in predictions:
        raise UsageError(
            f'{FLAG} needs predictions class and probabilities, float [batch, classes]; --model={params.model} has: '
            f'{", ".join(predictions)}'
        )
