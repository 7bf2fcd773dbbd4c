"""The parts of a report for predictions other than a class or number: several targets, masks, tags, forecasts."""

from collections.abc import Iterable, Sequence
import dataclasses
import functools
from typing import Any

from estimator_trainer.common.console import make_bar
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.inference.prediction import Prediction, predict_split
from estimator_trainer.common.report import classification, forecasts, mistakes, predicted, regression, segmentation, tagged
from estimator_trainer.common.report.by_target import of_target
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
    of_task = {SEGMENTATION: _of_masks, TAGGING: _of_tags, FORECAST: _of_forecasts}
    make = _of_targets if are_several(metadata) else of_task.get(metadata.get('task', ''))
    return _parts(make, experiment, checkpoint) if make else None


def _parts(make, experiment, checkpoint):
    """Returns the variables of the page: what a function makes of the predictions and the hyper-parameters, and the others."""
    step = checkpoints.global_step(checkpoint)
    facts = {**NONE, 'split': experiment.options.predict_split, 'predicted_step': step, **shown([], [])}
    return {**facts, **make(predictions_of(experiment, checkpoint), experiment.source.params)}


def predictions_of(experiment: Experiment, checkpoint: str, split: str = '') -> Iterable[Prediction]:
    """Returns the predictions of a checkpoint for a split, by default that of --predict_split, with a progress bar."""
    predictions = predict_split(experiment.estimator, experiment.source, split or experiment.options.predict_split, checkpoint)
    return make_bar(predictions, desc='Predicting', unit='ex', leave=False)


def mistakes_of_task(experiment: Experiment, checkpoint: str, count: int) -> dict[str, Any] | None:
    """Returns the variables of the page for the worst masks alone; None for a single class or number.

    Raises:
      UsageError: there are several targets, each of which has mistakes of its own, or tags or forecasts.
    """
    metadata = experiment.source.params.metadata
    if metadata.get('task') == SEGMENTATION:
        return _parts(functools.partial(_of_masks, count=count), experiment, checkpoint)
    refused = {
        TAGGING: 'the worst mistakes in tags are those of whole sentences: see the report of the run',
        FORECAST: 'the worst mistakes are those of single predictions, and this run forecasts series: see its report',
    }
    if are_several(metadata):
        raise UsageError('the worst mistakes are those of one target, and this run has several: see its report')
    if metadata.get('task') in refused:
        raise UsageError(refused[metadata['task']])
    return None


def _of_masks(predictions, params, count=mistakes.MAX_MISTAKES):
    """Returns the variables for masks, with up to `count` pictures."""
    found = segmentation.collect(predictions, params.num_classes, count)
    if not found:
        return {}
    names = params.metadata.get('class_names') or [*map(str, range(params.num_classes))]
    worst = segmentation.mistakes(found, params.metadata)
    return {'segmentation': segmentation.figures(found, names), **shown(worst, [])}


def _of_targets(predictions, params):
    """Returns the variables for several targets: the figures of each."""
    kept = [dataclasses.replace(prediction, image=None) for prediction in predictions]
    targets = []
    for place, target in enumerate(targets_of(params.metadata)):
        found = predicted.collect((of_target(prediction, params.metadata, place) for prediction in kept), 0)
        targets.append({'name': target.name, 'predicted': found, **figures(found, target.class_names)})
    return {'targets': targets}


def _of_tags(predictions, params):
    """Returns the variables for tags of tokens: their figures, and the sentences with the most mistakes."""
    names, worst = params.metadata['tags'], tagged.Worst(mistakes.MAX_MISTAKES)
    found = predicted.collect(tagged.of_tokens(worst.watch(predictions), names), 0)
    facts = {'predicted': found, 'is_tagged': True, **figures(found, names, unit='tokens')}
    return {**facts, **shown(worst.mistakes(), ['sentence'])}


def _of_forecasts(predictions, params):
    return {'forecasts': forecasts.figures(predictions, params.metadata)}


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
