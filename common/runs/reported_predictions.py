"""The parts of a report that come from the predictions of a split: figures, the worst mistakes, the importance of columns."""

from collections.abc import Sequence
import functools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.outcome import outcome
from estimator_trainer.common.inference.raw_predictor import example_predictor
from estimator_trainer.common.report import importance, mistakes, predicted, rows
from estimator_trainer.common.report.importance import Importances
from estimator_trainer.common.report.mistakes import Mistake
from estimator_trainer.common.report.predicted import Predicted
from estimator_trainer.common.runs.decision import decided
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.reported_reasons import explain
from estimator_trainer.common.runs.reported_slices import Seen, raw_columns, read_records, sampled, serialized, slices_of
from estimator_trainer.common.runs.reported_tasks import NONE, figures, mistakes_of_task, parts_of_task, predictions_of, shown
from estimator_trainer.common.storage import checkpoints

_SHUFFLED = 1000  # Examples with which the importance of columns is measured.
_BATCH = 256


def parts_of_predictions(experiment: Experiment, checkpoint: str) -> dict[str, Any]:
    """Returns the variables of the page that come from the predictions of a checkpoint for --predict_split."""
    if parts := parts_of_task(experiment, checkpoint):
        return parts
    experiment, source = decided(experiment, checkpoint), experiment.source
    seen, found, names = _predicted(experiment, checkpoint, mistakes.MAX_MISTAKES)
    samples = [sampled(found), sampled(found, _SHUFFLED)] if found and raw_columns(source) else []
    records = _read(experiment, found, samples) if found else {}
    importances = _importances(experiment, checkpoint, found, records) if found else None
    order = [one.column for one in importances.columns] if importances else _columns(source, seen)
    return {
        **NONE,
        'split': experiment.options.predict_split,
        'predicted_step': checkpoints.global_step(checkpoint),
        'predicted': found,
        **figures(found, names, experiment.threshold),
        'slices': slices_of(source, found, seen, records) if found else None,
        'importances': importances,
        'has_input_fn': source.has_input_fn(),
        **shown(_worst(experiment, checkpoint, found, names, records) if found else [], order),
    }


def parts_of_mistakes(experiment: Experiment, checkpoint: str, count: int) -> dict[str, Any]:
    """Returns the variables of the page for the examples of --predict_split with the largest losses, alone.

    Raises:
      UsageError: there are several targets, each of which has mistakes of its own, or forecasts.
    """
    if parts := mistakes_of_task(experiment, checkpoint, count):
        return parts
    experiment = decided(experiment, checkpoint)
    seen, found, names = _predicted(experiment, checkpoint, count)
    worst = _worst(experiment, checkpoint, found, names, _read(experiment, found)) if found else []
    is_classified = found and found.classes is not None
    return {**NONE, 'classification': is_classified, **shown(worst, _columns(experiment.source, seen))}


def _predicted(experiment: Experiment, checkpoint: str, count: int) -> tuple[Seen, Predicted | None, Sequence[str] | None]:
    """Predicts --predict_split.

    Returns:
      What was seen of its examples; the predictions, None if they cannot be compared with labels; the names of the classes.
    """
    source, seen = experiment.source, Seen()
    found = predicted.collect(seen.watch(predictions_of(experiment, checkpoint)), count)
    return seen, found, source.params.metadata.get('class_names') or seen.class_names


def _columns(source, seen):
    """Returns the names of the columns of examples."""
    return [*(raw_columns(source) or seen.names)]


def _read(experiment: Experiment, found: Predicted, samples: Sequence[np.ndarray] = ()) -> dict[int, Any]:
    """Returns {place: record} of the worst mistakes, and of samples, indices in the arrays of `found`, in one pass."""
    places = [_place(prediction) for prediction in found.worst]
    places += [place for chosen in samples for place in found.places[chosen].tolist()]
    return dict(zip(places, read_records(experiment.source, experiment.options.predict_split, places)))


def _place(prediction):
    return prediction.fields['example']


def _worst(experiment, checkpoint, found: Predicted, class_names, all_records) -> list[Mistake]:
    metadata, columns = experiment.source.params.metadata, raw_columns(experiment.source)
    records = [all_records[_place(prediction)] for prediction in found.worst]
    reasons = explain(experiment, checkpoint, found.worst, records)
    return [
        mistakes.describe(prediction, _cells(prediction, record, columns, metadata), class_names, reason)
        for prediction, record, reason in zip(found.worst, records, reasons)
    ]


def _cells(prediction, record, columns, metadata):
    inputs = prediction.inputs.items()
    return rows.cells(record, columns, metadata) or {name: rows.text_of([np.asarray(value).item()]) for name, value in inputs}


def _importances(experiment, checkpoint, found: Predicted, all_records) -> Importances | None:
    """Measures the importance of the columns of a table, if there are several; None for other data."""
    source, columns = experiment.source, raw_columns(experiment.source)
    if len(columns) < 2 or len(columns) < len(source.raw_specs()):  # Pictures would take long.
        return None
    chosen = sampled(found, _SHUFFLED)
    records = serialized(all_records, found.places[chosen])
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
