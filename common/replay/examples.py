"""The examples of a step, as people know them: where they come from, what they are, and what the model made of them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common.inference.labeled_batches import label_of
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.places import places, to_text
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.replay.inspection import Arrays, Inspected
from estimator_trainer.common.replay.odd_values import odd_values
from estimator_trainer.common.report import rows
from estimator_trainer.common.runs.reported_slices import raw_columns, read_records
from estimator_trainer.common.targets import are_several, class_names_of, is_multilabel, label_names_of, targets_of

_MAX_VALUES = 100  # Of a prediction that is shown.


class Example(NamedTuple):
    """An example of a step.

    Attributes:
      where: its place, such as rows.csv:17, or its number in the batch.
      prediction: with its image as the net saw it.
      loss, gradient_norm: None if unknown.
      cells: {column: text} of a table or a text.
      odd: what is NaN, infinite or far from the other examples, '' if nothing is.
      is_culprit: whether loss or gradients of the step are not finite because of it.
    """

    where: str
    prediction: Prediction
    loss: float | None
    gradient_norm: float | None
    cells: Mapping[str, str]
    odd: str
    is_culprit: bool


def examples_of(inspected: Inspected, source: DataSource, numbers: Sequence[int] | None) -> list[Example]:
    """Returns the examples of a step, culprits first, then the largest loss.

    Args:
      source: its data is prepared.
      numbers: of the records in the training split, in the order of the batch; None if they are unknown.
    """
    size, split, metadata = _batch_size(inspected, numbers), source.params.train_split, source.params.metadata
    fields = [{'example': i} for i in range(size)] if numbers is None else places(source, split, numbers)
    records = read_records(source, split, numbers) if numbers is not None else [None] * size
    columns, losses, norms = raw_columns(source), inspected.example_losses, inspected.gradient_norms
    predictions = {name: array for name, array in inspected.predictions.items() if len(array) == size}
    parts = getattr(source.module, 'input_parts', None)
    odd = odd_values({**inspected.features, **inspected.labels}, size, parts(source.params) if parts else {})
    culprits, found = inspected.culprits.found if inspected.culprits else (), []
    for i in range(size):
        values = {name: array[i] for name, array in predictions.items() if np.size(array[i]) <= _MAX_VALUES}
        prediction = Prediction(fields[i], values, image=_image(inspected.features, i), label=_label(inspected, i, metadata))
        loss, norm = (None if array is None else float(array[i]) for array in (losses, norms))
        where = f'example {i} of the batch' if numbers is None else to_text(fields[i])
        cells = rows.cells(records[i], columns, metadata) or _cells(inspected.features, i, size)
        norm = None if norm != norm and loss == loss and i not in culprits else norm
        found.append(Example(where, prediction, loss, norm, cells, odd[i], i in culprits))
    return sorted(found, key=lambda one: (not one.is_culprit, -np.inf if one.loss != one.loss else -(one.loss or 0.0)))


def to_json(example: Example, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an example as values of JSON."""
    found = example.prediction.to_json(class_names_of(metadata), label_names_of(metadata))
    return {
        'where': example.where,
        'loss': example.loss,
        'gradient_norm': example.gradient_norm,
        **({'culprit': True} if example.is_culprit else {}),
        **({'odd_values': example.odd} if example.odd else {}),
        **found,
        **({'inputs': dict(example.cells)} if example.cells else {}),
    }


def captioned(example: Example) -> Prediction:
    """Returns the prediction of an example for a contact sheet, with its loss in the caption."""
    name = example.where.rpartition('/')[2] + ('' if example.loss is None else f' {example.loss:.3g}')
    return Prediction(
        {EXAMPLE_ID: name}, example.prediction.values, image=example.prediction.image, label=example.prediction.label
    )


def has_picture(example: Example) -> bool:
    """Whether an example is a picture that can be drawn."""
    image = example.prediction.image
    return image is not None and image.ndim == 3 and image.shape[2] in (1, 3)


def _batch_size(inspected, numbers):
    if numbers is not None:
        return len(numbers)
    if inspected.example_losses is not None:
        return len(inspected.example_losses)
    return next((len(array) for array in (*inspected.labels.values(), *inspected.features.values())), 0)


def _label(inspected, i, metadata):
    """Returns the label of an example as `Prediction` has it; None if it is unknown."""
    labels = inspected.labels
    if are_several(metadata) and not is_multilabel(metadata):
        names = [target.named('label') for target in targets_of(metadata)]
        return {name: labels[name][i] for name in names if name in labels} or None
    scalars = [name for name, array in labels.items() if array.ndim == 1]
    name = 'label' if is_multilabel(metadata) and 'label' in labels else label_of(scalars)
    return labels[name][i] if name and i < len(labels[name]) else None


def _image(features: Arrays, i: int) -> np.ndarray | None:
    image = features.get('image')
    return image[i] if image is not None and image.ndim == 4 and i < len(image) else None


def _cells(features: Arrays, i: int, size: int) -> dict[str, str]:
    """Returns the features that are single values, of an example without a record that has columns."""
    single = {name: array for name, array in features.items() if len(array) == size and array.size == size}
    return {name: rows.text_of(np.ravel(array)[i : i + 1].tolist()) for name, array in single.items()}
