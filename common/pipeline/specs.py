"""Shapes and types of a dataset's records and features, saved with a model for use without its data."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf


@dataclasses.dataclass(frozen=True)
class Specs:
    """The types of a dataset module's functions.

    records is the element_spec of the dataset from `read`, () if there is none; features is {name: tf.TensorSpec [batch, ...]}
    of the model's inputs in prediction, or as an `input_fn` has them, also one such spec or a tuple.
    """

    records: Any
    features: Any


def to_json(spec: Any) -> Any:
    """Converts a nest of dicts, tuples and tf.TensorSpec to JSON values.

    Raises:
      TypeError: the nest has something else, such as a tf.RaggedTensorSpec.
    """
    if isinstance(spec, Mapping):
        return {'dict': {name: to_json(item) for name, item in spec.items()}}
    if isinstance(spec, (tuple, list)):
        return {'tuple': [to_json(item) for item in spec]}
    if not isinstance(spec, tf2.TensorSpec):
        raise TypeError(spec)
    return {'dtype': spec.dtype.name, 'shape': spec.shape.as_list() if spec.shape.rank is not None else None}


def from_json(value: Any) -> Any:
    """Inverts `to_json`; raises KeyError, TypeError or ValueError for other values."""
    if 'dict' in value:
        return {name: from_json(item) for name, item in value['dict'].items()}
    if 'tuple' in value:
        return tuple(from_json(item) for item in value['tuple'])
    return tf2.TensorSpec(value['shape'], tf.as_dtype(value['dtype']))
