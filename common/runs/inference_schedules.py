"""The schedule that predicts with a trained model; see common/runs/schedules.py."""

from collections.abc import Iterable, Iterator
import contextlib
import glob
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.console import make_bar
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import atomic_path, dumps, remove_abandoned
from estimator_trainer.common.inference.contact_sheet import ContactSheet
from estimator_trainer.common.inference.input_files import open_files
from estimator_trainer.common.inference.predicted_masks import MaskFiles
from estimator_trainer.common.inference.prediction import Prediction, by_time, predict_files, predict_split
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.size import count_examples
from estimator_trainer.common.runs import chosen_checkpoint
from estimator_trainer.common.runs.decision import decided
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import checkpoints
from estimator_trainer.common.targets import class_names_of, is_forecast, is_segmentation, label_names_of


def predict(experiment: Experiment) -> dict[str, Any]:
    """Writes one JSON object per line for each example of a split, or of the files of --input, to the file of --predictions.

    Of a forecast, there is a line for each time.

    An unreadable or unparsable example of a file has an `error` in place of predictions; the result counts them.
    """
    path = predictions_path(experiment.options, experiment.output_dir)

    def write(checkpoint):
        return write_predictions(experiment, predictions_of(experiment, checkpoint), path, checkpoint)

    return chosen_checkpoint.use(experiment.output_dir, experiment.options.checkpoint, write)


def predictions_path(options: Options, output_dir: str) -> str:
    """Returns the path of the predictions; warns if earlier ones there will be lost, which --predictions does not name."""
    path = options.predictions
    if path:
        directory = os.path.dirname(path) or '.'
        if not tf.io.gfile.isdir(directory):
            raise UsageError(f'--predictions={path}: there is no directory {directory}')
        return path
    path = os.path.join(output_dir, 'predictions.jsonl')
    if tf.io.gfile.exists(path):
        tf.logging.warning('%s: these earlier predictions will be replaced; --predictions=FILE.jsonl writes to another.', path)
    return path


def write_predictions(experiment: Experiment, predictions: Iterable[Prediction], path: str, checkpoint: str) -> dict[str, Any]:
    """Writes the predictions of a checkpoint to a file, masks to a folder, --visualize to a picture; returns the result."""
    options = experiment.options
    metadata = experiment.params.metadata
    class_names, label_names = class_names_of(metadata), label_names_of(metadata)
    sheet = None
    if options.visualize:
        sheet = ContactSheet(options.visualize, class_names.get(''), label_names)
    masks = MaskFiles(path, metadata) if is_segmentation(metadata) else None
    errors = []
    total = 0
    _remove_abandoned(path)
    with atomic_path(path) as part, tf.io.gfile.GFile(part, 'w') as file:
        for prediction in make_bar(predictions, desc='Predicting', unit='ex', leave=False):
            total += 1
            if prediction.error:
                errors.append(prediction.error)
            elif sheet:
                sheet.add(prediction)
            if masks and not prediction.error:
                prediction = masks.save(prediction)
            line = prediction.to_json(class_names, label_names)
            for item in by_time(line) if is_forecast(metadata) else [line]:
                file.write(dumps(item) + '\n')
        if not total:
            given = f'--input={options.input}' if options.input else f'--predict_split={options.predict_split}'
            raise UsageError(f'{given}: has no examples')
        if len(errors) == total:
            raise type(errors[0])(f'--input={options.input}: nothing to predict: {errors[0]}')
    if errors:
        tf.logging.warning('%d of %d examples cannot be predicted; %s has their errors.', len(errors), total, path)
    result = {'global_step': checkpoints.global_step(checkpoint), 'predictions': path}
    if masks:
        result['masks'] = masks.directory
    if sheet:
        sheet.save()
        result['visualize'] = options.visualize
    return {**result, **({'errors': len(errors)} if errors else {})}


def _remove_abandoned(path):
    """Deletes what killed predictions have left of a local file; what cannot be deleted, as another user's, stays."""
    for part in glob.glob(f'{glob.escape(path)}.*.part'):
        with contextlib.suppress(OSError):
            remove_abandoned(part)


def predictions_of(experiment: Experiment, checkpoint: str) -> Iterator[Prediction]:
    """Returns the predictions of a checkpoint for --input, or else for --predict_split.

    Raises:
      UsageError: there are no such files, or the split is infinite.
    """
    estimator, source, options = decided(experiment, checkpoint).estimator, experiment.source, experiment.options
    if options.input:
        return predict_files(estimator, open_files(source, options.input), source.params.eval_batch_size, checkpoint)
    check_finite(source, options.predict_split)
    return predict_split(estimator, source, options.predict_split, checkpoint)


def check_finite(source: DataSource, split: str) -> None:
    """Raises UsageError if the split to predict is infinite, as far as that is known before it is read."""
    if not source.has_input_fn() and count_examples(source, split, at_most=1) == tf.data.experimental.INFINITE_CARDINALITY:
        raise UsageError(f'--predict_split={split}: the split is infinite')
