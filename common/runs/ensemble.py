"""The schedules that use the models of all folds together; see common/commands/folds.py."""

from collections.abc import Iterator, Sequence
import contextlib
import itertools
import os
from typing import Any, cast

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, listed
from estimator_trainer.common.export import comparison, inputs, merged, saved_model
from estimator_trainer.common.inference.ensemble import average
from estimator_trainer.common.inference.prediction import Prediction, read_labels
from estimator_trainer.common.inference.signatures import EXAMPLES
from estimator_trainer.common.inference.threshold import OUTPUT
from estimator_trainer.common.runs import chosen_checkpoint, saved_dataset
from estimator_trainer.common.runs.decision import decided
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.runs.export_schedule import add_card, exporting, make_saved_model
from estimator_trainer.common.runs.inference_schedules import predictions_of, predictions_path, write_predictions
from estimator_trainer.common.storage import export_versions
from estimator_trainer.common.storage.export_versions import SAVED_MODEL
from estimator_trainer.common.targets import class_names_of

_MAX_LISTED = 5  # Names in a message.


def predict(experiments: Sequence[Experiment], output_dir: str) -> dict[str, Any]:
    """Writes the mean predictions of all folds; of the split eval, each example's of the fold that evaluates it.

    Args:
      experiments: of the folds.
      output_dir: that of all folds, for predictions.jsonl.

    Raises:
      UsageError: the split is that on which the folds train.
      RunError: their classes differ, or predictions that cannot be averaged do; or the data has changed.
    """
    check_classes(experiments)
    first, options = experiments[0], experiments[0].options
    if not options.input and options.predict_split == first.source.params.train_split:
        raise UsageError(
            f'--predict_split={options.predict_split}: each fold trains on other examples: predict eval, where each example is '
            'predicted by the fold that has not trained on it'
        )
    chosen = [_checkpoint(experiment) for experiment in experiments]
    members = [*map(predictions_of, experiments, chosen)]
    if options.input or options.predict_split != 'eval':
        predictions = _averaged(members)
    else:
        _check_held_out(experiments)
        predictions = itertools.chain.from_iterable(map(_held_out, experiments, members))
    return write_predictions(first, predictions, predictions_path(options, output_dir), chosen[0])


def _mean_threshold(experiments):
    """Returns the threshold that decides the class of averaged probabilities, and says it; None without one."""
    thresholds = [experiment.threshold for experiment in experiments if experiment.threshold is not None]
    if not thresholds:
        return None
    tf.logging.info(
        'The class of the mean probabilities is decided by the mean threshold, %.6g.', mean := float(np.mean(thresholds))
    )
    return mean


def check_classes(experiments: Sequence[Experiment]) -> None:
    """Raises RunError if the folds have learned different classes."""
    names = [class_names_of(experiment.params.metadata) for experiment in experiments]
    if any(found != names[0] for found in names):
        raise RunError('the folds have different classes, so that their predictions have no average: use one fold')


def _check_held_out(experiments: Sequence[Experiment]) -> None:
    """Raises RunError if the data of folds has changed, of which each may have learned from what it would evaluate."""
    for experiment in experiments:
        saved_dataset.check_same(experiment.source, experiment.output_dir, ['eval'])


def _checkpoint(experiment):
    given = experiment.options.checkpoint
    if given not in (None, 'latest', 'best'):
        raise UsageError(f'--checkpoint={given}: of folds, it can be latest or best')
    return chosen_checkpoint.use(experiment.output_dir, given, str)


def _held_out(experiment, predictions):
    """Yields the predictions of the examples on which a fold is evaluated, with its number."""
    for prediction in predictions:
        prediction.fields['fold'] = experiment.params.fold
        yield prediction


def _averaged(members: Sequence[Iterator[Prediction]]) -> Iterator[Prediction]:
    """Yields the mean of the predictions of the same examples; an error of any stays."""
    for predictions in zip(*members, strict=True):
        wrong = next((prediction for prediction in predictions if prediction.error), None)
        if wrong:
            yield wrong
            continue
        first = predictions[0]
        yield Prediction(first.fields, average([p.values for p in predictions]), None, first.image, first.label, first.inputs)


def export(experiments: Sequence[Experiment], output_dir: str) -> dict[str, Any]:
    """Writes one SavedModel with the models of all folds, which gives their mean predictions, below output_dir/export.

    It is loaded again and compared with the averages of the models, each of which is compared with its checkpoint.

    Raises:
      UsageError: --format has another format.
      RunError: the outputs or inputs of the folds differ, or cannot be averaged.
    """
    check_classes(experiments)
    first = experiments[0]
    if {*first.options.format} != {SAVED_MODEL}:
        raise UsageError(f'--format={",".join(first.options.format)}: folds are exported together as saved_model only')
    chosen = [_checkpoint(experiment) for experiment in experiments]
    experiments = [*map(decided, experiments, chosen)]
    threshold = _mean_threshold(experiments)
    directory = os.path.join(output_dir, 'export')
    with exporting(directory) as parent:
        paths = [
            make_saved_model(experiment, checkpoint, os.path.join(parent, f'fold_{experiment.params.fold}'))[0]
            for experiment, checkpoint in zip(experiments, chosen)
        ]
        target = os.path.join(parent, SAVED_MODEL)
        merged.merge(paths, target, class_names_of(first.source.params.metadata))
        compared = _compare(first.source, paths, target)
        _leave_out_examples(experiments, target)
        facts = {'format': SAVED_MODEL, 'folds': len(paths), 'comparison': compared}
        facts |= {} if threshold is None else {OUTPUT: threshold}
        add_card(first, chosen[0], target, facts)
        published = export_versions.publish({SAVED_MODEL: target}, directory)
    return {'folds': len(paths), 'export': published[SAVED_MODEL], 'compared': {SAVED_MODEL: compared}}


def _leave_out_examples(experiments, target):
    """Leaves out serialized examples if these differ by fold: dates in them count from the first one that it learned."""
    columns = [experiment.params.metadata.get('columns', ()) for experiment in experiments]
    dates = [[(one['name'], one['origin'], one['cycles']) for one in found if 'origin' in one] for found in columns]
    if any(found != dates[0] for found in dates):
        merged.leave_out(target, EXAMPLES)
        names = listed(dict.fromkeys(name for found in dates for name, *_ in found), _MAX_LISTED)
        text = 'The export takes no serialized examples, in which dates (%s) count from another day in each fold.'
        tf.logging.warning(text, names)


def _compare(source, paths, target):
    """Returns how the outputs of a merged model differ from the averages of its members', as JSON, or why that is unknown.

    Raises:
      RunError: by more than the tolerance.
    """
    if hasattr(source.module, 'serving_input_receiver_fn'):
        return 'not compared: the dataset has its own serving_input_receiver_fn'
    signature, given = inputs.of_saved_model(source, 'eval')
    if given is None:
        return 'not compared: the records do not have the inputs of the default signature'
    with contextlib.ExitStack() as cleanup:
        after, *members = [cleanup.enter_context(saved_model.opened(path, signature)) for path in (target, *paths)]
        try:
            found = comparison.compare(
                'eval',
                lambda batch: average([member(batch) for member in members]),
                cast(comparison.Call, after),
                given.batches('eval'),
                read_labels(source, 'eval'),
            )
        except ValueError as error:
            raise RunError(f'--format={SAVED_MODEL}: the average of the folds cannot be compared: {error}') from None
    if excess := found.excess(None):
        raise RunError(f'--format={SAVED_MODEL}: {excess}: the merged model is not the average of the folds')
    name, difference = found.largest
    text = 'Compared with the average of %d models on %d examples of eval: %s differs by %.3g at most.'
    tf.logging.info(text, len(paths), found.examples, name, difference.largest)
    return found.to_json()
