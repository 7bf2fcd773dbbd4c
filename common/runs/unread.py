"""Refusal of hyper-parameters of the modules' own that nothing reads."""

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import ALONE
from estimator_trainer.common.console import errors_only
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.evaluated_input import open_input
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage.checkpoints import has_checkpoint
from estimator_trainer.common.training import effects

ModeKeys = tf.estimator.ModeKeys


class UnreadCheck(tf.train.SessionRunHook):
    """Checks, once the training graph is built, that the modules read the hyper-parameters that were given.

    What this graph and the preparation of the data have not read may be for evaluations or predictions: only then, it builds
    their graphs, too. Values of a set, and those of a run that resumes, get a warning.

    Raises:
      UsageError: in training, before the first step, if nothing reads one.
    """

    def __init__(self, experiment: Experiment):
        self._experiment = experiment

    def begin(self):
        if self._experiment.task is not ALONE or not self._unread():
            return
        for mode in (ModeKeys.EVAL, ModeKeys.PREDICT):
            self._build(mode)
        given, resumes = self._experiment.source.given, has_checkpoint(self._experiment.estimator.model_dir)
        found = self._unread()
        mistakes = [line for name, line in found.items() if given[name] in ('--hparams', '--override_hparams') and not resumes]
        for line in found.values():
            if line not in mistakes:
                tf.logging.warning('%s', line)
        if mistakes:
            raise UsageError(*mistakes)

    def _unread(self):
        source = self._experiment.source
        return effects.unread(self._experiment.model, source.params, source.names_read, source.given)

    def _build(self, mode):
        source, estimator = self._experiment.source, self._experiment.estimator
        with errors_only(), tf.Graph().as_default():
            tf.train.create_global_step()
            batch = open_input(make_input_fn(source, mode, source.params.train_split)())
            labels = batch.labels if mode == ModeKeys.EVAL else None
            estimator.model_fn(batch.features, labels, mode, estimator.config)
