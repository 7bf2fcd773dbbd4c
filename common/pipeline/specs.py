"""The shapes and types of a dataset's records and features, kept with a model, so that it can be used without its data."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf


@dataclasses.dataclass(frozen=True)
class Specs:
    """What a dataset module's functions give and take.

    records is the element_spec of what `read` returns; features is {name: tf.TensorSpec [batch, ...]} of what is fed to the
    model in prediction.
    """

    records: Any
    features: Mapping[str, tf.TensorSpec]


def to_json(spec: Any) -> Any:
    """Returns a nest of dicts, tuples and tf.TensorSpec in a form that JSON can represent.

    Raises:
      TypeError: there is something else in it, such as a tf.RaggedTensorSpec.
    """
    if isinstance(spec, Mapping):
        return {'dict': {name: to_json(item) for name, item in spec.items()}}
    if isinstance(spec, (tuple, list)):
        return {'tuple': [to_json(item) for item in spec]}
    if not isinstance(spec, tf2.TensorSpec):
        raise TypeError(spec)
    return {'dtype': spec.dtype.name, 'shape': spec.shape.as_list() if spec.shape.rank is not None else None}


def from_json(value: Any) -> Any:
    """Returns what `to_json` was given; raises KeyError, TypeError or ValueError if `value` is not what it returned."""
    if 'dict' in value:
        return {name: from_json(item) for name, item in value['dict'].items()}
    if 'tuple' in value:
        return tuple(from_json(item) for item in value['tuple'])
    return tf2.TensorSpec(value['shape'], tf.as_dtype(value['dtype']))
