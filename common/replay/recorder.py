"""What a training computes, kept in memory: the loss of each step, and the batches of some."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.monitoring.summaries import TrainingSummaries
from estimator_trainer.common.plugins.estimator_contract import wrap_model_fn
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.schedules import train
from estimator_trainer.common.training.loss_watch import NotFinite
from estimator_trainer.common.training.saving import are_finite


@dataclasses.dataclass
class Recorded:
    """The losses {step: NumPy scalar}, and the batches {step: arrays}, as `flat` returns their tensors."""

    losses: dict[int, Any] = dataclasses.field(default_factory=dict)
    batches: dict[int, list[Any]] = dataclasses.field(default_factory=dict)


def record(experiment: Experiment, end: int, keeps_batches: bool, recorded: Recorded | None) -> bool:
    """Trains an experiment up to a step; returns whether loss and variables stayed finite: otherwise it ends where one is not.

    Args:
      recorded: to which losses are added, and batches if they are to be kept; None for neither.
    """

    def wrap(model_fn):
        def recording(features, labels, mode, config):
            spec = model_fn(features, labels, mode, config)
            hook = _Recorder(spec.loss, flat(features, labels) if keeps_batches else None, recorded)
            # Histograms would end it by an error that names no step.
            others = [other for other in spec.training_chief_hooks if not isinstance(other, TrainingSummaries)]
            return spec._replace(training_chief_hooks=[hook, *others])

        return recording

    estimator = wrap_model_fn(experiment.estimator, wrap) if recorded else experiment.estimator
    try:
        train(dataclasses.replace(experiment, estimator=estimator, train_steps=end))
    except NotFinite:  # Of a hook that the recorder precedes.
        return False
    return True


def flat(features: Any, labels: Any) -> list[tf.Tensor]:
    """Returns the tensors of a batch, each once, without structure."""
    found = tf.nest.flatten((features, labels), expand_composites=True)
    return [*{tensor.ref(): tensor for tensor in found if tensor is not None}.values()]


class _Recorder(tf.train.SessionRunHook):
    def __init__(self, loss, batch, recorded):
        self._fetches: Mapping[str, Any] = {'loss': loss} if batch is None else {'loss': loss, 'batch': batch}
        self._recorded = recorded

    def begin(self):
        self._global_step = tf.train.get_global_step()
        with tf.name_scope('is_finite'):
            self._are_finite = are_finite()

    def after_create_session(self, session, coord):
        self._step = int(session.run(self._global_step))

    def before_run(self, run_context):
        self._step += 1
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        self._recorded.losses[self._step] = run_values.results['loss']
        if 'batch' in run_values.results:
            self._recorded.batches[self._step] = run_values.results['batch']
        if not all(run_context.session.run(self._are_finite).values()):  # The loss may stay finite, as relu makes 0 of NaN.
            raise NotFinite('', self._step)
