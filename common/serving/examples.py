"""Requests of tf.train.Examples, to classify or to regress, and their answers, as in TensorFlow Serving's REST API."""

from collections.abc import Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import show
from estimator_trainer.common.serving.rest import (
    Request,
    Signatures,
    came,
    check_keys,
    constants,
    loads,
    signature_of,
    to_body,
    to_bytes,
    to_values,
)

_TOO_LARGE = 2.0**128 - 2.0**103  # From here on, numbers round to an infinite float32.


def read_examples(body: bytes, signatures: Signatures, method: str) -> Request:
    """Returns the serialized tf.train.Examples of a request to classify or to regress; raises ValueError if it is wrong.

    Args:
      method: that of the signature.
    """
    content = loads(body)
    check_keys(content, ('examples', 'context'))
    if not isinstance(content, dict) or 'examples' not in content:
        raise ValueError(f'the request must be an object with "examples", not {came(content)}')
    name = signature_of(content, signatures)
    if signatures[name].method != method:
        raise ValueError(f'the signature {name} is for {signatures[name].method}, and not for {method}')
    rows, shared = content['examples'], content.get('context', {})
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in [shared, *rows]):
        raise ValueError('"examples" must be a list of objects, with a value or a list for each feature, and "context" one')
    if both := [key for row in rows for key in row if key in shared]:
        raise ValueError(f'the feature {show(both[0])} is in "context" and in an example')
    return Request(name, dict.fromkeys(signatures[name].inputs.specs, [_example({**shared, **row}) for row in rows]), True)


def _example(features):
    """Returns a serialized tf.train.Example of {name: value or list}."""
    example = tf.train.Example()
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        feature = example.features.feature[name]
        try:
            if values and all(type(item) is int for item in values):
                feature.int64_list.value.extend(values)
            elif all(type(item) in (int, float) for item in values):
                if large := [item for item in values if abs(item) >= _TOO_LARGE]:
                    raise ValueError(f'{show(large[0])} is too large for float32')
                feature.float_list.value.extend(values)
            else:
                feature.bytes_list.value.extend(_content(name, item) for item in values)
        except ValueError as error:
            raise ValueError(f'the feature {show(name)}: {error}') from None
    return example.SerializeToString()


def _content(name, value):
    if not isinstance(value, (str, dict)):
        raise ValueError(f'its values must all be numbers, or all texts, not {show(value)}')
    return to_bytes(name, value) if isinstance(value, dict) else value.encode()


def write_results(found: Mapping[str, np.ndarray], method: str) -> bytes:
    """Returns the body of the answer to a request to classify, [[label, score], ...] per example, or to regress, a number each.

    Args:
      found: {name: array [batch, ...]}: `classes` and `scores`, or only one of them; or `outputs`.
    """
    if method == constants.REGRESS_METHOD_NAME:
        return to_body({'results': to_values(np.reshape(found['outputs'], -1))})
    sizes = np.shape(next(iter(found.values())))
    scores = found.get('scores', np.zeros(sizes, np.float32))
    labels = found.get('classes', np.full(sizes, b'', object))
    return to_body({'results': [[*map(list, zip(*row))] for row in zip(to_values(labels), to_values(scores))]})
