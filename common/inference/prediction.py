"""Predictions for the examples of a split or of files, one by one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import itertools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, first_line
from estimator_trainer.common.files import to_json
from estimator_trainer.common.inference import labeled_batches
from estimator_trainer.common.inference.arrays import without_padding
from estimator_trainer.common.inference.evaluated_input import open_input
from estimator_trainer.common.inference.input_files import Entry, InputFiles
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import label_batches, make_input_fn
from estimator_trainer.common.pipeline.places import sources
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.records.elements import INFINITE, iterate, opened
from estimator_trainer.common.targets import (
    are_several,
    is_forecast,
    is_multilabel,
    is_segmentation,
    is_tagging,
    targets_of,
    with_key,
)

PREDICT = tf.estimator.ModeKeys.PREDICT


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The predictions {name: array} for one example, identified by `fields`, or its error.

    image is the example's feature of this name, float32 or uint8 [height, width, channels], if it has one; label is its label,
    if that is known, {name: label} of several targets, [labels] of those that are 0 or 1 or of tokens, [horizon] of a forecast,
    or a mask; inputs are the features of an `input_fn` that are single values.
    """

    fields: dict[str, Any]
    values: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    error: Exception | None = None
    image: np.ndarray | None = None
    label: Any = None
    inputs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(
        self, class_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None, label_names: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Returns JSON values: the fields, the label, then the error or the predictions.

        Args:
          class_names: the names of the classes, which are added; or {key of a target: names}.
          label_names: those of labels that apply or not, which take the place of their numbers.
        """
        if self.error:
            return {**self.fields, 'error': str(self.error)}
        labels = self.label if isinstance(self.label, Mapping) else {} if self.label is None else {'label': self.label}
        line = {**self.fields, **{name: _exact(label) for name, label in labels.items()}}
        line |= {name: to_json(self.values[name]) for name in sorted(self.values)}
        for key, names in (class_names if isinstance(class_names, Mapping) else {'': class_names or ()}).items():
            for name in ('label', 'class'):
                number = line.get(with_key(name, key))
                if type(number) is int and 0 <= number < len(names):
                    line[with_key(f'{name}_name', key)] = names[number]
        return line | _with_names(line, label_names)


def by_time(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a line for each time of a forecast, from the JSON values of its prediction: their lists have an item for each."""
    lists = {name: value for name, value in line.items() if isinstance(value, list)}
    return [{**line, **dict(zip(lists, items))} for items in zip(*lists.values())] or [line]


def _with_names(line, label_names):
    """Returns the items of a line that have a value for each of several labels, with the names of these."""
    found: dict[str, Any] = {}
    for name in ('label', 'predicted', 'probabilities') if label_names else ():
        values = line.get(name)
        if isinstance(values, list) and len(values) == len(label_names):
            pairs = dict(zip(label_names, values))
            found[name] = pairs if name == 'probabilities' else [label for label, value in pairs.items() if value]
    return found


def _exact(label):
    """Returns the JSON value of a label, a float with all of its digits."""
    return float(str(label)) if isinstance(label, np.floating) else to_json(label)


def predict_split(
    estimator: tf.estimator.Estimator, source: DataSource, split: str, checkpoint_path: str
) -> Iterator[Prediction]:
    """Yields the predictions of all examples of a split, in its order.

    Their fields are the 'split'; the position in it, 'example'; 'file' and 'record', if the user's own TFRecord files are read
    in place; and the example_id, if there is one.
    """
    if source.has_input_fn():
        yield from _predict_batches(estimator, source, split, checkpoint_path)
        return
    labels, places = read_labels(source, split), read_places(source, split)
    with opened(make_input_fn(source, PREDICT, split)) as (session, batches):
        specs = {name: spec for name, spec in batches.element_spec.items() if name != EXAMPLE_ID}
        predictor = Predictor(estimator, specs, checkpoint_path, answers_one=False)
        number = 0
        for batch in iterate(session, batches):
            for prediction in _predictions(predictor, batch, _ids(batch)):
                fields = {'split': split, 'example': number, **next(places), **prediction.fields}
                label = _tags_of(next(labels), prediction, source.params.metadata)
                yield dataclasses.replace(prediction, fields=fields, label=label)
                number += 1


def _predict_batches(estimator, source, split, checkpoint_path):
    """Yields the predictions of a split of an `input_fn`, whose features need not be tensors that a Predictor can be fed."""
    input_fn = make_input_fn(source, PREDICT, split)
    with tf.Graph().as_default(), tf.Session() as session:
        if session.run(open_input(input_fn()).cardinality()) == INFINITE:
            raise UsageError(f'--predict_split={split}: the split is infinite')
    number = 0
    for batch, values in labeled_batches.predict(estimator, input_fn, checkpoint_path):
        size = _batch_size(source, values)
        for i, of_one in zip(range(size), batch.examples(size, values)):
            yield Prediction({'split': split, 'example': number}, {name: value[i] for name, value in values.items()}, **of_one)
            number += 1


def _batch_size(source, values):
    """Returns the number of examples of a batch; raises UsageError if a prediction is not of shape [batch, ...]."""
    shapes = {name: np.shape(value) for name, value in values.items()}
    sizes = {shape[:1] for shape in shapes.values()}
    if len(sizes) > 1 or () in sizes:
        found = ', '.join(f'{name} {[*shape]}' for name, shape in shapes.items())
        raise UsageError(f'--model={source.params.model}: predictions must have the shape [batch, ...]; a batch has: {found}')
    return next(iter(sizes))[0]


def read_labels(source: DataSource, split: str) -> Iterator[Any]:
    """Yields the label of each example of a split, in the order of `predict_split`; None, without end, where it is unknown.

    A label is a scalar, named label, or the only one besides the weight; {name: label} of several targets; [labels] of labels
    that are 0 or 1, or of the tags of tokens, padded; a mask, int [height, width], of a segmentation; [horizon] of a forecast.
    """
    done = 0
    try:
        with opened(lambda: label_batches(source, source.read(split))) as (session, batches):
            specs = batches.element_spec[1]
            names = _label_names(specs, source.params.metadata)
            for _, labels in iterate(session, batches) if names else ():
                for label in zip(*(labels[name] for name in names)):
                    yield label[0] if len(names) == 1 else dict(zip(names, label))
                    done += 1
    except Exception as error:  # A split to predict may have no labels, for which a module may raise anything.
        log = tf.logging.warning if done else tf.logging.info
        log('The split %s has no labels from example %d on: %s', split, done, first_line(error))
    yield from itertools.repeat(None)


def _label_names(specs, metadata):
    """Returns the names of the labels, of which there are several if there are as many targets."""
    if is_segmentation(metadata) or is_forecast(metadata):
        return ['label']
    if is_tagging(metadata):
        return ['tags'] if 'tags' in specs else []
    if are_several(metadata):
        wanted = {'label'} if is_multilabel(metadata) else {target.named('label') for target in targets_of(metadata)}
        return [name for name in specs if name in wanted]
    scalars = [name for name, spec in specs.items() if isinstance(spec, tf.TensorSpec) and spec.shape.rank == 1]
    label = labeled_batches.label_of(scalars)
    return [label] if label else []


def _tags_of(label, prediction, metadata):
    """Returns a label of `read_labels`; of tags their names, one for each token."""
    if label is None or not is_tagging(metadata) or 'tags' not in prediction.values:
        return label
    return [metadata['tags'][number] for number in label[: len(prediction.values['tags'])]]


def read_places(source, split):
    """Yields what each example of a split is of, such as {'file', 'record'}, if its files are the user's own; else {}."""
    whole, _ = source.in_whole(split, np.zeros(0, np.int64))
    found = sources(source, whole)
    if source.is_part(split):
        listed = [*found]
        count = len(source.in_part(split, np.arange(len(listed))))
        found = (listed[number] for number in source.in_whole(split, np.arange(count))[1].tolist())
    yield from found
    yield from itertools.repeat({})


def _batched(shape):
    return None if shape.rank is None else [None, *shape]


def predict_files(
    estimator: tf.estimator.Estimator, files: InputFiles, batch_size: int, checkpoint_path: str
) -> Iterator[Prediction]:
    """Yields the predictions of all examples of files, in order; a bad example's prediction has an error."""
    with tf.Graph().as_default() as graph:
        examples = tf.nest.map_structure(lambda spec: tf.placeholder(spec.dtype, _batched(spec.shape)), files.spec)
        features = dict(files.to_features(examples))
        init = tf.tables_initializer()
        specs = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in features.items() if name != EXAMPLE_ID}
    predictor = Predictor(estimator, specs, checkpoint_path, answers_one=False)
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
        of_one = without_padding({name: array[i] for name, array in values.items()})
        yield Prediction(fields, of_one, image=None if images is None else images[i])
