"""The columns of a report's examples, from the records of a split or as its predictions pass by, and the slices of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import itertools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records.elements import iterate, opened
from estimator_trainer.common.report import predicted, rows, slices
from estimator_trainer.common.report.charts import percent
from estimator_trainer.common.report.predicted import Predicted
from estimator_trainer.common.report.slices import Slices

_MAX_EXAMPLES = 20_000  # Parsed in a few seconds.
_BATCH = 1000
_BRIGHTNESS = 'brightness of the picture'


class Seen:
    """What is kept of the examples while they are predicted: single inputs of an `input_fn`, and how bright a picture is.

    Of many examples, these are every second one, every fourth one, ...
    """

    def __init__(self):
        self._every = 1
        self._values: dict[int, dict[str, Any]] = {}
        self.names: Sequence[str] = ()
        self.class_names: Sequence[str] | None = None  # As a canned classifier with a vocabulary predicts them.

    def watch(self, predictions: Iterable[Prediction]) -> Iterator[Prediction]:
        """Yields the predictions."""
        for place, prediction in enumerate(predictions):
            if not place:
                self.names = [*prediction.inputs]
                self.class_names = _class_names(prediction.values.get('all_classes'))
            if place % self._every == 0:
                self._values[place] = _seen_of(prediction)
            if len(self._values) > 2 * _MAX_EXAMPLES:
                self._every *= 2
                self._values = {place: values for place, values in self._values.items() if place % self._every == 0}
            yield prediction

    def columns(self, found: Predicted) -> tuple[np.ndarray, list[slices.Column]]:
        """Returns the indices of examples in the arrays of `found`, and their columns."""
        chosen = np.flatnonzero(np.isin(found.places, [*self._values]))
        kept = [self._values[place] for place in found.places[chosen].tolist()]
        names = dict.fromkeys(name for values in kept for name in values)
        columns = [rows.column(name, [values.get(name) for values in kept]) for name in names]
        return chosen, [one._replace(format=percent) if one.name == _BRIGHTNESS else one for one in columns]


def _seen_of(prediction):
    values = {name: np.asarray(value).item() for name, value in prediction.inputs.items()}
    if prediction.image is not None and prediction.image.size:
        whole = 255 if prediction.image.dtype == np.uint8 else 1
        values[_BRIGHTNESS] = float(prediction.image.mean(dtype=np.float64)) / whole
    return values


def _class_names(names):
    if names is None or np.ndim(names) != 1:
        return None
    return [name.decode(errors='replace') if isinstance(name, bytes) else str(name) for name in names.tolist()]


def slices_of(source: DataSource, found: Predicted, seen: Seen, records: Mapping[int, Any]) -> Slices | None:
    """Returns the slices of the predicted examples by their raw inputs or, if these are pictures, by their brightness.

    Args:
      records: {place: record}, of at least those that are `sampled`.
    """
    names = raw_columns(source)
    if not names:
        chosen, columns = seen.columns(found)
        return slices.find(columns, found, chosen) if len(chosen) else None
    chosen = sampled(found)
    some = serialized(records, found.places[chosen])
    return None if some is None else slices.find(rows.columns_of(some, names, source.params.metadata), found, chosen)


def sampled(found: Predicted, count: int = _MAX_EXAMPLES) -> np.ndarray:
    """Returns the indices of at most `count` examples in the arrays of `found`."""
    return np.unique(np.linspace(0, len(found.labels) - 1, min(len(found.labels), count)).astype(int))


def serialized(records: Mapping[int, Any], places: np.ndarray) -> list[bytes] | None:
    """Returns the records at places; None if they are not serialized."""
    found = [records[place] for place in places.tolist()]
    return found if all(isinstance(record, bytes) for record in found) else None


def raw_columns(source: DataSource) -> list[str]:
    """Returns the names of the raw inputs but for pictures, whose specs have a name or more than one number in a row."""
    return [name for name, spec in source.raw_specs().items() if not spec.name and spec.shape.rank <= 2]


def read_records(source: DataSource, split: str, places: Sequence[int]) -> list[Any]:
    """Returns the records of a split at places, in any order, some perhaps twice; None for each if it has no records."""
    if source.has_input_fn() or not places:
        return [None] * len(places)
    ordered = sorted({*places})
    with opened(lambda: source.read(split)) as (session, dataset):
        by_place = dict(zip(ordered, predicted.chosen(_each(session, dataset), ordered)))
    return [by_place[place] for place in places]


def _each(session, dataset):
    """Yields the elements of a dataset; serialized examples in batches, which takes a tenth of the time."""
    if dataset.element_spec != tf.TensorSpec([], tf.string):
        return iterate(session, dataset)
    with session.graph.as_default():
        batches = dataset.batch(_BATCH)
    return itertools.chain.from_iterable(iterate(session, batches))
