"""Records a run: the loss of each step, and the batches of some; of a task of a cluster, also the weights."""

import dataclasses
import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.graphs import ancestors, global_step
from estimator_trainer.common.monitoring.summaries import TrainingSummaries
from estimator_trainer.common.plugins.estimator_contract import wrap_model_fn
from estimator_trainer.common.replay.recorded import Recorded
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.schedules import train
from estimator_trainer.common.storage.restore import ModelChanged
from estimator_trainer.common.training import observed
from estimator_trainer.common.training.loss_watch import NotFinite
from estimator_trainer.common.training.saving import StepCheck, are_finite


def record(experiment: Experiment, end: int, recorded: Recorded | None, first: int | None = None) -> bool:
    """Trains an experiment up to a step; returns whether loss and variables stayed finite: otherwise it ends where one is not.

    The tasks of a cluster do not end there, as that would need an agreement.

    Args:
      recorded: to which losses are added, by the chief; None for nothing.
      first: the step from which on batches are recorded, too; None for none.

    Raises:
      RunError: the model has other variables than the checkpoint.
    """

    def wrap(model_fn):
        def recording(features, labels, mode, config):
            spec = model_fn(features, labels, mode, config)
            hook = _Recorder(experiment.task, spec, flat(features, labels), recorded, first)
            # Histograms would end it by an error that names no step.
            left_out = (TrainingSummaries, StepCheck) if experiment.task.count > 1 else TrainingSummaries
            others = [other for other in spec.training_chief_hooks if not isinstance(other, left_out)]
            return spec._replace(training_chief_hooks=[hook, *others])

        return recording

    estimator = wrap_model_fn(experiment.estimator, wrap) if recorded else experiment.estimator
    try:
        train(dataclasses.replace(experiment, estimator=estimator, train_steps=end))
    except NotFinite:  # Of a hook that the recorder precedes.
        return False
    except ModelChanged as error:
        name = experiment.source.params.model
        raise RunError(f'--model={name} has changed since this run ({error.changes}): restore its code') from None
    return True


def flat(features: Any, labels: Any) -> list[tf.Tensor]:
    """Returns the tensors of a batch, each once, without structure."""
    found = tf.nest.flatten((features, labels), expand_composites=True)
    return [*{tensor.ref(): tensor for tensor in found if tensor is not None}.values()]


def weights_of(loss: tf.Tensor, is_chief: bool) -> list[tf.Variable]:
    """Returns the variables that a step reads, without the optimizer's; of a task that is not the chief, its own of these.

    Args:
      loss: of the step.
    """
    gradients = [gradient for gradient, _ in tf.get_collection(observed.GRADIENTS)]
    read, trained = ancestors([loss, *gradients]), {variable.ref() for variable in tf.trainable_variables()}
    if is_chief:
        return [variable for variable in tf.global_variables() if variable.op in read or variable.ref() in trained]
    return [variable for variable in tf.global_variables() if variable.op in read and variable.ref() not in trained]


class _Recorder(tf.train.SessionRunHook):
    def __init__(self, task, spec, batch, recorded, first):
        self._task, self._recorded, self._first = task, recorded, first
        self._loss, self._batch, self._saver = spec.loss, batch, None

    def begin(self):
        with tf.name_scope('is_finite'):
            self._are_finite = are_finite()
        if self._task.count > 1 and self._first is not None and (weights := weights_of(self._loss, self._task.is_chief)):
            self._saver = tf.train.Saver(weights, max_to_keep=0)
        os.makedirs(self._recorded.directory, exist_ok=True)

    def after_create_session(self, session, coord):
        self._step = global_step(session)
        self._save_weights(session)

    def before_run(self, run_context):
        self._step += 1
        is_kept = self._first is not None and self._step >= self._first
        return tf.train.SessionRunArgs({'loss': self._loss, **({'batch': self._batch} if is_kept else {})})

    def after_run(self, run_context, run_values):
        session = run_context.session
        if 'batch' in run_values.results:
            self._recorded.save_batch(self._step, self._task.index, run_values.results['batch'])
        self._save_weights(session)
        if self._task.is_chief:
            loss = run_values.results['loss']
            # The loss may stay finite, as relu makes 0 of NaN.
            is_finite = bool(np.isfinite(loss)) and all(session.run(self._are_finite).values())
            self._recorded.add_loss(self._step, loss, is_finite)
            if not is_finite and self._task.count == 1:
                raise NotFinite('', self._step)

    def _save_weights(self, session):
        """Saves the weights before each step whose batch is recorded, and after the last one."""
        if self._saver and self._step >= self._first - 1:
            path = self._recorded.weights_path(self._step, self._task.index)
            self._saver.save(session, path, write_meta_graph=False, write_state=False)
