"""The parts of a report for predictions other than a class or number: several targets, masks, tags, forecasts."""

from collections.abc import Sequence
from typing import Any

from estimator_trainer.common.console import make_bar
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.prediction import predict_split
from estimator_trainer.common.report import classification, forecasts, mistakes, predicted, regression, segmentation, tagged
from estimator_trainer.common.report.by_target import of_targets
from estimator_trainer.common.report.mistakes import Mistake
from estimator_trainer.common.report.predicted import Predicted
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.common.targets import FORECAST, SEGMENTATION, TAGGING, are_several, targets_of

_MAX_COLUMNS = 12  # Of the examples with the worst mistakes.
_NAMES = (
    *('targets', 'segmentation', 'forecasts', 'predicted', 'classification', 'regression', 'slices', 'importances'),
    *('has_input_fn', 'is_tagged'),
)
NONE = dict.fromkeys(_NAMES)  # Of the page, which has the parts of one kind of predictions.


def parts_of_task(experiment: Experiment, checkpoint: str) -> dict[str, Any] | None:
    """Returns the variables of the page that come from predictions of these kinds; None for a single class or number."""
    metadata = experiment.source.params.metadata
    if are_several(metadata):
        return _parts_of_targets(experiment, checkpoint)
    make = {SEGMENTATION: _parts_of_masks, TAGGING: _parts_of_tags, FORECAST: _parts_of_forecasts}.get(metadata.get('task', ''))
    return make(experiment, checkpoint) if make else None


def mistakes_of_task(experiment: Experiment, checkpoint: str, count: int) -> dict[str, Any] | None:
    """Returns the variables of the page for the worst masks alone; None for a single class or number.

    Raises:
      UsageError: there are several targets, each of which has mistakes of its own, or tags or forecasts.
    """
    metadata = experiment.source.params.metadata
    if metadata.get('task') == SEGMENTATION:
        return _parts_of_masks(experiment, checkpoint, count)
    refused = {
        TAGGING: 'the worst mistakes in tags are those of whole sentences: see the report of the run',
        FORECAST: 'the worst mistakes are those of single predictions, and this run forecasts series: see its report',
    }
    if are_several(metadata):
        raise UsageError('the worst mistakes are those of one target, and this run has several: see its report')
    if metadata.get('task') in refused:
        raise UsageError(refused[metadata['task']])
    return None


def _parts_of_masks(experiment, checkpoint, count=mistakes.MAX_MISTAKES):
    """Returns the variables of the page for masks, with up to `count` pictures."""
    params, split = experiment.source.params, experiment.options.predict_split
    predictions = predict_split(experiment.estimator, experiment.source, split, checkpoint)
    bar = make_bar(predictions, desc='Predicting', unit='ex', leave=False)
    found = segmentation.collect(bar, params.num_classes, count)
    names = params.metadata.get('class_names') or [*map(str, range(params.num_classes))]
    return {
        **NONE,
        'split': split,
        'predicted_step': checkpoints.global_step(checkpoint),
        'segmentation': segmentation.figures(found, names) if found else None,
        **shown(segmentation.mistakes(found, params.metadata) if found else [], []),
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
        targets.append({'name': target.name, 'predicted': found, **figures(found, target.class_names)})
    step = checkpoints.global_step(checkpoint)
    return {**NONE, 'split': split, 'predicted_step': step, 'targets': targets, **shown([], [])}


def _parts_of_tags(experiment, checkpoint):
    """Returns the variables of the page for tags of tokens: their figures, and the sentences with the most mistakes."""
    names, split = experiment.source.params.metadata['tags'], experiment.options.predict_split
    predictions = predict_split(experiment.estimator, experiment.source, split, checkpoint)
    worst = tagged.Worst(mistakes.MAX_MISTAKES)
    watched = worst.watch(make_bar(predictions, desc='Predicting', unit='ex', leave=False))
    found = predicted.collect(tagged.of_tokens(watched, names), 0)
    step = checkpoints.global_step(checkpoint)
    facts = {'split': split, 'predicted_step': step, 'predicted': found, 'is_tagged': True}
    return {**NONE, **facts, **figures(found, names, unit='tokens'), **shown(worst.mistakes(), ['sentence'])}


def _parts_of_forecasts(experiment, checkpoint):
    """Returns the variables of the page for forecasts."""
    source, split = experiment.source, experiment.options.predict_split
    predictions = predict_split(experiment.estimator, source, split, checkpoint)
    bar = make_bar(predictions, desc='Predicting', unit='ex', leave=False)
    found = forecasts.figures(bar, source.params.metadata)
    step = checkpoints.global_step(checkpoint)
    return {**NONE, 'split': split, 'predicted_step': step, 'forecasts': found, **shown([], [])}


def figures(
    found: Predicted | None, names: Sequence[str] | None, threshold: float | None = None, unit: str = 'examples'
) -> dict[str, Any]:
    """Returns the variables of the page with the figures of classes, or of numbers; None for the others.

    Args:
      threshold, unit: see `classification.figures`.
    """
    return {
        'classification': (
            classification.figures(found, names, threshold, unit) if found and found.classes is not None else None
        ),
        'regression': regression.figures(found) if found and found.values is not None else None,
    }


def shown(worst: Sequence[Mistake], order: Sequence[str]) -> dict[str, Any]:
    """Returns the variables of the page for the worst mistakes, with the first of the columns that they have."""
    columns = [name for name in order if any(name in one.cells for one in worst)]
    shown, left_out = columns[:_MAX_COLUMNS], columns[_MAX_COLUMNS:]
    return {'mistakes': worst, 'mistake_columns': shown, 'omitted_columns': len(left_out)}
