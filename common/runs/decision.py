"""The threshold that decides the class of two: decision_threshold, a number or the best one of an evaluation."""

from collections.abc import Mapping
import dataclasses
import functools
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.checkpoint_estimator import at
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.inference.raw_predictor import make_predictor
from estimator_trainer.common.inference.threshold import with_threshold
from estimator_trainer.common.plugins.module_check import makes_step
from estimator_trainer.common.runs import saved_flags
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.made_by import LENGTH
from estimator_trainer.common.storage import best_checkpoint, checkpoints, provenance
from estimator_trainer.common.storage.metrics import read_evaluations
from estimator_trainer.common.targets import why_no_class
from estimator_trainer.hparams.build import HParams

BEST = 'best'
_METRIC = 'best_f1_threshold'


def check(params: HParams) -> None:
    """Raises UsageError if there is a decision_threshold, but not one target of two classes, as far as is known here."""
    num_classes = params.get('num_classes') or 2
    found = why_no_class(params.metadata, params.get('task')) or (f'there are {num_classes}' if num_classes != 2 else '')
    if params.decision_threshold and found:
        raise UsageError(f'decision_threshold={params.decision_threshold} is for two classes, but {found}: omit it')


def check_start(model: Any, params: HParams) -> None:
    """Checks the decision_threshold of a run that begins; warns of the class that the best one is for.

    Raises:
      UsageError: as of `check`, or the model has no metric that tells the best threshold.
    """
    check(params)
    if params.decision_threshold != BEST:
        return
    if makes_step(model):
        raise UsageError(
            f'decision_threshold={BEST}: --model={params.model} makes its own training step, without the metric {_METRIC}: '
            'give a number'
        )
    name = (params.metadata.get('class_names') or ('0', '1'))[-1]
    tf.logging.warning('decision_threshold=%s: has the best F1 of the class %s, the second one.', BEST, name)


def warn_of_metrics(params: HParams) -> None:
    """Warns that evaluations do not follow decision_threshold, if it is given."""
    if params.decision_threshold:
        tf.logging.warning(
            'decision_threshold=%s: evaluations decide by the more probable class, as in training; --schedule=report has the '
            'figures at the threshold.',
            params.decision_threshold,
        )


def decided(experiment: Experiment, checkpoint: str) -> Experiment:
    """Returns the experiment with the checkpoint's Estimator, which predicts by its threshold, if there is one; says that.

    Args:
      checkpoint: what will predict, a path without suffix.

    Raises:
      UsageError: there are not two classes, or no evaluation of the checkpoint knows the best threshold.
    """
    estimator, threshold = _deciding(experiment, checkpoint)
    estimator = at(estimator, checkpoint)
    if estimator is experiment.estimator:
        return experiment
    return dataclasses.replace(experiment, estimator=estimator, threshold=threshold)


def _deciding(experiment, checkpoint):
    """Returns the Estimator that predicts by the threshold of a checkpoint, for any checkpoint, and the threshold, if any."""
    params, estimator = experiment.params, experiment.estimator
    if not params.decision_threshold:
        return estimator, None
    check(params)
    given = params.decision_threshold
    threshold, source = _best(estimator.model_dir, checkpoint) if given == BEST else (given, '')
    names = params.metadata.get('class_names') or ('0', '1')
    tf.logging.info(
        'decision_threshold=%s: the class is %s if its probability is at least %.6g%s, else %s.',
        *(params.decision_threshold, names[-1], threshold, source, names[0]),
    )
    return with_threshold(estimator, threshold, params.metadata.get('class_names')), threshold


def _best(output_dir, checkpoint):
    """Returns the threshold with the best F1 in the checkpoint's evaluation of the first split, and where it is from."""
    step = checkpoints.global_step(checkpoint)
    split = (saved_flags.load(output_dir).get('eval_splits') or ['eval'])[0]
    kept = best_checkpoint.evaluation(output_dir)
    evaluations: list[Mapping[str, Any]] = [*([kept] if kept else []), *read_evaluations(output_dir)]
    of_step = [found[split] for found in evaluations if found['global_step'] == step and split in found]
    if not of_step or not checkpoints.is_of(output_dir, checkpoint):
        raise UsageError(
            f'decision_threshold={BEST}: the split {split} has no evaluation at step {step} in {output_dir}: run '
            '--schedule=evaluate, or give a number'
        )
    values = [metrics[_METRIC] for metrics in of_step if _METRIC in metrics]
    if not values:
        raise UsageError(f'decision_threshold={BEST}: the model has no metric {_METRIC}: give a number')
    if not 0 < values[0] < 1:  # All examples are of one class, or it is undefined.
        raise UsageError(f'decision_threshold={BEST}: that of the split {split} at step {step} is {values[0]}: give a number')
    return values[0], f', which has the best F1 on {split} at step {step}'


def predictor_of(experiment: Experiment, which: str, checkpoint: str) -> tuple[Predictor, tf.estimator.Estimator]:
    """Returns a Predictor of a checkpoint, and the Estimator behind it; newer checkpoints keep its best threshold.

    Args:
      which: of --checkpoint, as in `chosen_checkpoint.choose`.
    """
    estimator, _ = _deciding(experiment, checkpoint)
    if experiment.params.decision_threshold == BEST and which in ('latest', 'best'):
        tf.logging.warning('decision_threshold=%s: newer checkpoints that are loaded meanwhile keep this threshold.', BEST)
    find_run = functools.partial(_run_of, experiment.output_dir)
    return make_predictor(estimator, experiment.source, checkpoint, which == 'best', find_run), estimator


def _run_of(output_dir):
    """Returns what the run there began with, but for its length: weights of another one may fit the graph, but mean others."""
    made = provenance.started_by(output_dir)
    return {name: value for name, value in made.get('hparams', {}).items() if name not in LENGTH}, made.get('data')
