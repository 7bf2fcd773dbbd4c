"""Predictions for the examples of a split or of files, one by one."""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import itertools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, first_line
from estimator_trainer.common.files import to_json
from estimator_trainer.common.inference.input_files import Entry, InputFiles
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.records.elements import iterate, opened

PREDICT = tf.estimator.ModeKeys.PREDICT


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The predictions {name: array} for one example, identified by `fields`, or its error.

    image is the example's feature of this name, float32 or uint8 [height, width, channels], if it has one.
    """

    fields: dict[str, Any]
    values: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    error: Exception | None = None
    image: np.ndarray | None = None

    def to_json(self, class_names: list[str] | None = None) -> dict[str, Any]:
        """Returns JSON values: the fields, then the error or the predictions, with the name of the class."""
        if self.error:
            return {**self.fields, 'error': str(self.error)}
        line = {**self.fields, **{name: to_json(self.values[name]) for name in sorted(self.values)}}
        number = line.get('class')
        if class_names and type(number) is int and 0 <= number < len(class_names):
            line['class_name'] = class_names[number]
        return line


def predict_split(
    estimator: tf.estimator.Estimator, source: DataSource, split: str, checkpoint_path: str
) -> Iterator[Prediction]:
    """Yields the predictions of all examples of a split, in its order."""
    with opened(make_input_fn(source, PREDICT, split)) as (session, batches):
        specs = {name: spec for name, spec in batches.element_spec.items() if name != EXAMPLE_ID}
        predictor = Predictor(estimator, specs, checkpoint_path)
        for batch in iterate(session, batches):
            yield from _predictions(predictor, batch, _ids(batch))


def read_labels(source: DataSource, split: str, count: int) -> list[int]:
    """Returns the classes of the first examples of a split, in the order of `predict_split`; none if it has no such labels."""
    try:
        with opened(make_input_fn(source, tf.estimator.ModeKeys.EVAL, split)) as (session, batches):
            spec = batches.element_spec[1].get('label')
            if not isinstance(spec, tf.TensorSpec) or not spec.dtype.is_integer or spec.shape.rank != 1:
                return []
            found = itertools.chain.from_iterable(labels['label'].tolist() for _, labels in iterate(session, batches))
            return list(itertools.islice(found, count))
    except (tf.errors.OpError, RunError, UsageError):  # A split to predict may have no labels.
        return []


def predict_files(
    estimator: tf.estimator.Estimator, files: InputFiles, batch_size: int, checkpoint_path: str
) -> Iterator[Prediction]:
    """Yields the predictions of all examples of files, in order; a bad example's prediction has an error."""
    with tf.Graph().as_default() as graph:
        examples = tf.nest.map_structure(lambda spec: tf.placeholder(spec.dtype, [None, *spec.shape]), files.spec)
        features = dict(files.to_features(examples))
        init = tf.tables_initializer()
        specs = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in features.items() if name != EXAMPLE_ID}
    predictor = Predictor(estimator, specs, checkpoint_path)
    with contextlib.closing(tf.Session(graph=graph)) as session:
        session.run(init)

        def parse(batch: list[Any]) -> dict[str, np.ndarray]:
            stacked = stack(*batch)
            feeds = zip(tf.nest.flatten(examples), tf.nest.flatten(stacked), strict=True)
            return session.run(features, dict(feeds))

        while batch := list(itertools.islice(files.entries, batch_size)):
            good = [entry for entry in batch if not isinstance(entry[1], Exception)]
            predicted = _predict_good(predictor, parse, good)
            for fields, example in batch:
                yield Prediction(fields, error=example) if isinstance(example, Exception) else next(predicted)


def _predict_good(
    predictor: Predictor, parse: Callable[[list[Any]], dict[str, np.ndarray]], entries: list[Entry]
) -> Iterator[Prediction]:
    """Yields the predictions of entries. If parsing a batch fails, retries each half, down to single entries."""
    if not entries:
        return
    try:
        features = parse([example for _, example in entries])
    except (tf.errors.OpError, ValueError) as error:
        if len(entries) > 1:
            half = len(entries) // 2
            yield from _predict_good(predictor, parse, entries[:half])
            yield from _predict_good(predictor, parse, entries[half:])
        else:
            yield Prediction(entries[0][0], error=RunError(first_line(error)))
        return
    ids = _ids(features)
    yield from _predictions(predictor, features, [{**fields, **of_one} for (fields, _), of_one in zip(entries, ids)])


def stack(*examples: Any) -> Any:
    """Returns a nest of arrays [batch, ...] of equal nests of values or arrays."""
    return tf.nest.map_structure(_stack, *examples)


def _stack(*values):
    # NumPy's own arrays of bytes drop zeros at the end.
    return np.array(values, object) if isinstance(values[0], (bytes, str)) else np.stack(values)


def _ids(features):
    """Removes the ids from a batch of features; returns a dict per example with its id, if there is one."""
    ids = features.pop(EXAMPLE_ID, None)
    if ids is None:
        return itertools.repeat({})
    return [{EXAMPLE_ID: to_json(value)} if value != b'' else {} for value in ids]


def _predictions(predictor, features, all_fields):
    values = predictor.predict(features)
    images = features.get('image')
    for i, fields in zip(range(len(next(iter(values.values())))), all_fields):
        yield Prediction(
            fields, {name: array[i] for name, array in values.items()}, image=None if images is None else images[i]
        )
