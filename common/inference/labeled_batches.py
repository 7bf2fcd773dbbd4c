"""Predictions for the batches of an `input_fn`, with the labels and the single values of the same batch."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.evaluated_input import open_input
from estimator_trainer.common.plugins.estimator_contract import named, wrap_model_fn

_PREFIX = 'estimator_trainer/'  # Of what is fetched beside the predictions.


class Batch(NamedTuple):
    """Arrays [batch, ...]: the label, or None; images [batch, height, width, channels], or None; {name: single values}."""

    label: np.ndarray | None
    image: np.ndarray | None
    inputs: Mapping[str, np.ndarray]

    def examples(self, size: int, values: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
        """Yields image, label and inputs of each example; none of an array that has not `size` of them.

        Args:
          values: the predictions. A label that is a text, as of a canned classifier with a vocabulary, becomes its class.
        """
        label, image = (None if array is None or len(array) != size else array for array in (self.label, self.image))
        if label is not None and label.dtype.kind == 'O':
            label = _classes(label, values.get('all_classes'))
        inputs = {name: array for name, array in self.inputs.items() if len(array) == size}
        for i in range(size):
            yield {
                'label': None if label is None else label[i],
                'image': None if image is None else image[i],
                'inputs': {name: array[i] for name, array in inputs.items()},
            }


def predict(
    estimator: tf.estimator.Estimator, input_fn: Callable[[], Any], checkpoint_path: str
) -> Iterator[tuple[Batch, dict[str, np.ndarray]]]:
    """Yields each batch with its predictions, {name: array}, in one pass: an input_fn may give another order each time."""
    fetched: dict[str, tf.Tensor] = {}

    def features_of(params=None):  # A TPUEstimator requires this argument.
        del params
        opened = open_input(input_fn())
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, opened.initializer)
        fetched.update(_fetched(opened.features, opened.labels))
        return opened.features, None  # Of a tuple, Estimator takes the first part as features.

    def wrap(model_fn):
        def with_batch(features, labels, mode, config):
            spec = model_fn(features, labels, mode, config)
            return spec._replace(predictions={**spec.predictions, **fetched})

        return with_batch

    wrapped = wrap_model_fn(estimator, wrap)
    for values in wrapped.predict(features_of, checkpoint_path=checkpoint_path, yield_single_examples=False):
        found = {name.removeprefix(_PREFIX): values.pop(name) for name in fetched}
        inputs = {name.removeprefix('inputs/'): value for name, value in found.items() if name.startswith('inputs/')}
        yield Batch(found.get('label'), found.get('image'), inputs), values


def label_of(names: Collection[str]) -> str:
    """Returns which of the scalar labels is the label: the one named so, or the only one besides the weight; '' if none is."""
    others = [name for name in names if name != 'weight']
    return 'label' if 'label' in names else others[0] if len(others) == 1 else ''


def _fetched(features, labels):
    """Returns the tensors to fetch beside the predictions, by name."""
    scalars = _scalars(named(labels, 'label'))
    label, found = label_of(scalars), {}
    if label:
        found[f'{_PREFIX}label'] = scalars[label]
    by_name = named(features, 'input')
    image = by_name.get('image', features)
    if isinstance(image, tf.Tensor) and image.shape.rank == 4:
        found[f'{_PREFIX}image'] = image
    return found | {f'{_PREFIX}inputs/{name}': value for name, value in _scalars(by_name).items()}


def _scalars(tensors):
    """Returns those with one value per example, as tensors [batch]."""
    found = {}
    for name, value in tensors.items():
        if isinstance(value, tf.Tensor):
            if value.shape.rank == 1 or value.shape.rank == 2 and value.shape[1] == 1:
                found[name] = tf.reshape(value, [-1])
    return found


def _classes(labels, all_classes):
    """Returns the numbers of classes, -1 for one that is unknown; None if the predictions do not name all of them."""
    if np.ndim(all_classes) != 2 or not len(all_classes):
        return None
    numbers = {name: i for i, name in enumerate(all_classes[0].tolist())}
    return np.array([numbers.get(label, -1) for label in labels.tolist()])
