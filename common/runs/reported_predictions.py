"""The parts of a report that come from the predictions of a split: figures, the worst mistakes, the importance of columns."""

from collections.abc import Sequence
import functools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.console import make_bar
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.outcome import outcome
from estimator_trainer.common.inference.prediction import predict_split
from estimator_trainer.common.inference.raw_predictor import example_predictor
from estimator_trainer.common.report import (
    classification,
    forecasts,
    importance,
    mistakes,
    predicted,
    regression,
    rows,
    segmentation,
    tagged,
)
from estimator_trainer.common.report.by_target import of_targets
from estimator_trainer.common.report.importance import Importances
from estimator_trainer.common.report.mistakes import Mistake
from estimator_trainer.common.report.predicted import Predicted
from estimator_trainer.common.runs.decision import decided, threshold_of
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.reported_reasons import explain
from estimator_trainer.common.runs.reported_slices import Seen, raw_columns, read_records, sampled, slices_of
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.common.targets import are_several, is_forecast, is_segmentation, targets_of

_SHUFFLED = 1000  # Examples with which the importance of columns is measured.
_BATCH = 256
_MAX_COLUMNS = 12  # Of the examples with the worst mistakes.
_NAMES = (
    *('targets', 'segmentation', 'forecasts', 'predicted', 'classification', 'regression', 'slices', 'importances'),
    *('has_input_fn', 'is_tagged'),
)
_NONE = dict.fromkeys(_NAMES)  # Of the page, which has either several targets or the others.


def parts_of_predictions(experiment: Experiment, checkpoint: str) -> dict[str, Any]:
    """Returns the variables of the page that come from the predictions of a checkpoint for --predict_split."""
    if are_several(experiment.source.params.metadata):
        return _parts_of_targets(experiment, checkpoint)
    if is_segmentation(experiment.source.params.metadata):
        return _parts_of_masks(experiment, checkpoint, mistakes.MAX_MISTAKES)
    if 'tags' in experiment.source.params.metadata:
        return _parts_of_tags(experiment, checkpoint)
    if is_forecast(experiment.source.params.metadata):
        return _parts_of_forecasts(experiment, checkpoint)
    experiment, threshold = decided(experiment, checkpoint), threshold_of(experiment, checkpoint)
    seen, found, names, worst, order = _examined(experiment, checkpoint, mistakes.MAX_MISTAKES)
    importances = _importances(experiment, checkpoint, found) if found else None
    order = [one.column for one in importances.columns] if importances else order
    return {
        **_NONE,
        'split': experiment.options.predict_split,
        'predicted_step': checkpoints.global_step(checkpoint),
        'predicted': found,
        **_figures(found, names, threshold),
        'slices': slices_of(experiment, found, seen) if found else None,
        'importances': importances,
        'has_input_fn': experiment.source.has_input_fn(),
        **_shown(worst, order),
    }


def _parts_of_masks(experiment, checkpoint, count):
    """Returns the variables of the page for masks, with up to `count` pictures."""
    params, split = experiment.source.params, experiment.options.predict_split
    predictions = predict_split(experiment.estimator, experiment.source, split, checkpoint)
    bar = make_bar(predictions, desc='Predicting', unit='ex', leave=False)
    found = segmentation.collect(bar, params.num_classes, count)
    names = params.metadata.get('class_names') or [*map(str, range(params.num_classes))]
    return {
        **_NONE,
        'split': split,
        'predicted_step': checkpoints.global_step(checkpoint),
        'segmentation': segmentation.figures(found, names) if found else None,
        **_shown(segmentation.mistakes(found, params.metadata) if found else [], []),
    }


def _parts_of_targets(experiment, checkpoint):
    """Returns the variables of the page for several targets: the figures of each."""
    metadata, split = experiment.source.params.metadata, experiment.options.predict_split
    predictions = predict_split(experiment.estimator, experiment.source, split, checkpoint)
    bar = make_bar(predictions, desc='Predicting', unit='ex', leave=False)
    parts = [[*of_targets(prediction, metadata)] for prediction in bar]
    targets = []
    for target, of_one in zip(targets_of(metadata), zip(*parts)):
        found = predicted.collect(of_one, 0)
        targets.append({'name': target.name, 'predicted': found, **_figures(found, target.class_names)})
    step = checkpoints.global_step(checkpoint)
    return {**_NONE, 'split': split, 'predicted_step': step, 'targets': targets, **_shown([], [])}


def _parts_of_tags(experiment, checkpoint):
    """Returns the variables of the page for tags of tokens: their figures, and the sentences with the most mistakes."""
    names, split = experiment.source.params.metadata['tags'], experiment.options.predict_split
    predictions = predict_split(experiment.estimator, experiment.source, split, checkpoint)
    worst = tagged.Worst(mistakes.MAX_MISTAKES)
    watched = worst.watch(make_bar(predictions, desc='Predicting', unit='ex', leave=False))
    found = predicted.collect(tagged.of_tokens(watched, names), 0)
    step = checkpoints.global_step(checkpoint)
    facts = {'split': split, 'predicted_step': step, 'predicted': found, 'is_tagged': True}
    return {**_NONE, **facts, **_figures(found, names), **_shown(worst.mistakes(), ['sentence'])}


def _parts_of_forecasts(experiment, checkpoint):
    """Returns the variables of the page for forecasts."""
    source, split = experiment.source, experiment.options.predict_split
    predictions = predict_split(experiment.estimator, source, split, checkpoint)
    bar = make_bar(predictions, desc='Predicting', unit='ex', leave=False)
    found = forecasts.figures(bar, source.params.metadata)
    step = checkpoints.global_step(checkpoint)
    return {**_NONE, 'split': split, 'predicted_step': step, 'forecasts': found, **_shown([], [])}


def parts_of_mistakes(experiment: Experiment, checkpoint: str, count: int) -> dict[str, Any]:
    """Returns the variables of the page for the examples of --predict_split with the largest losses, alone.

    Raises:
      UsageError: there are several targets, each of which has mistakes of its own, or forecasts.
    """
    if are_several(experiment.source.params.metadata):
        raise UsageError('the worst mistakes are those of one target, and this run has several: see its report')
    if is_segmentation(experiment.source.params.metadata):
        return _parts_of_masks(experiment, checkpoint, count)
    if 'tags' in experiment.source.params.metadata:
        raise UsageError('the worst mistakes in tags are those of whole sentences: see the report of the run')
    if is_forecast(experiment.source.params.metadata):
        raise UsageError('the worst mistakes are those of single predictions, and this run forecasts series: see its report')
    _, found, _, worst, order = _examined(decided(experiment, checkpoint), checkpoint, count)
    none = {'segmentation': None, 'is_tagged': False}
    return none | {'classification': found and found.classes is not None, **_shown(worst, order)}


def _examined(experiment, checkpoint, count):
    """Predicts --predict_split.

    Returns:
      What was seen of its examples; the predictions, None if they cannot be compared with labels; the names of the classes; the
      worst mistakes; the names of their columns.
    """
    source, seen = experiment.source, Seen()
    predictions = predict_split(experiment.estimator, source, experiment.options.predict_split, checkpoint)
    found = predicted.collect(make_bar(seen.watch(predictions), desc='Predicting', unit='ex', leave=False), count)
    names = source.params.metadata.get('class_names') or seen.class_names
    worst = _worst(experiment, checkpoint, found, names) if found else []
    return seen, found, names, worst, [*(raw_columns(source) or seen.names)]


def _figures(found, names, threshold=None):
    is_class, is_value = found and found.classes is not None, found and found.values is not None
    return {
        'classification': classification.figures(found, names, threshold) if is_class else None,
        'regression': regression.figures(found) if is_value else None,
    }


def _shown(worst, order):
    columns = [name for name in order if any(name in one.cells for one in worst)]
    shown, left_out = columns[:_MAX_COLUMNS], columns[_MAX_COLUMNS:]
    return {'mistakes': worst, 'mistake_columns': shown, 'omitted_columns': len(left_out)}


def _worst(experiment: Experiment, checkpoint: str, found: Predicted, class_names: Sequence[str] | None) -> list[Mistake]:
    source, split = experiment.source, experiment.options.predict_split
    metadata, columns = source.params.metadata, raw_columns(source)
    records = read_records(source, split, [prediction.fields['example'] for prediction in found.worst])
    reasons = explain(experiment, checkpoint, found.worst, records)
    return [
        mistakes.describe(prediction, _cells(prediction, record, columns, metadata), class_names, reason)
        for prediction, record, reason in zip(found.worst, records, reasons)
    ]


def _cells(prediction, record, columns, metadata):
    inputs = prediction.inputs.items()
    return rows.cells(record, columns, metadata) or {name: rows.text_of([np.asarray(value).item()]) for name, value in inputs}


def _importances(experiment: Experiment, checkpoint: str, found: Predicted) -> Importances | None:
    """Measures the importance of the columns of a table, if there are several; None for other data."""
    source, columns = experiment.source, raw_columns(experiment.source)
    if len(columns) < 2 or len(columns) < len(source.raw_specs()):  # Pictures would take long.
        return None
    chosen, records = sampled(experiment, found, _SHUFFLED)
    if records is None:
        return None
    stored = {name for record in records for name in tf.train.Example.FromString(record).features.feature}
    features = {name: rows.parts_of(name, columns, stored) for name in columns}
    predictor = example_predictor(experiment.estimator, source, checkpoint)
    tf.logging.info('Measuring the importance of %d columns with %d examples.', len(columns), len(records))
    loss = functools.partial(_mean_loss, predictor, found.labels[chosen].tolist())
    return importance.measure(records, features, loss, found.loss_name)


def _mean_loss(predictor, labels, records):
    """Returns the mean loss of the predictions for serialized examples."""
    losses: list[float] = []
    for start in range(0, len(records), _BATCH):
        values = predictor.predict({'examples': np.array(records[start : start + _BATCH], object)})
        batch = enumerate(labels[start : start + _BATCH])
        losses += [outcome({name: array[i] for name, array in values.items()}).loss(label) for i, label in batch]
    return float(np.mean(losses))
