"""Values of a Python program as arrays of the type of an input, refused if that would change them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common import tags
from estimator_trainer.common.errors import describe, show


def wrong(name: str, spec: tf.TensorSpec, value: Any) -> ValueError:
    """Returns the error of an input of another type or shape."""
    return ValueError(f'the input {name} must be {spec.dtype.name} {spec.shape}, not {describe(value)}')


def encode(name: str, array: np.ndarray) -> np.ndarray:
    """Returns an array of text or bytes as one of bytes; raises ValueError for other values and invalid text."""
    encoded = np.empty(array.shape, object)
    for place, item in np.ndenumerate(array):
        try:
            encoded[place] = item if isinstance(item, bytes) else item.encode()
        except (AttributeError, UnicodeEncodeError):
            raise ValueError(f'the input {name} must be text or bytes, not {show(item)}') from None
    return encoded


def joined(value: Any) -> Any:
    """Returns an input of sentences, `tags.TOKENS`: the tokens of a list with a tab between them, any other value as it is.

    Raises:
      ValueError: the list has something else than tokens.
    """
    if not isinstance(value, (list, tuple, np.ndarray)):
        return value
    for token in value:
        if not isinstance(token, str) or not token or '\t' in token:
            raise ValueError(f'a token must be a text of some characters but tabs, not {show(token)}')
    return ''.join(f'{token}\t' for token in value)  # One at the end, too, as a single token may have spaces.


def without_padding(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the predictions of an example; without those after the last token, if the tags of tokens are among them."""
    found = {name: np.asarray(value) for name, value in values.items()}
    if not tags.are_predicted(found) or found['tags'].ndim != 1 or found['tags'].dtype.kind not in 'OSU':
        return found
    size = len(found['tags'])
    length = sum(map(bool, found['tags']))
    return {name: value[:length] if value.shape[:1] == (size,) else value for name, value in found.items()}


def to_array(value: Any, dtype: tf.DType) -> np.ndarray:
    """Returns a value as an array for an input of a type; of texts, and of integers beside floats in lists, as objects.

    NumPy makes floats of all the latter, which rounds large integers.
    """
    array = np.asarray(value, object if dtype == tf.string else None)
    has_floats = dtype.is_integer and array.dtype.kind == 'f' and isinstance(value, (list, tuple))
    return np.asarray(value, object) if has_floats else array


def cast(name: str, spec: tf.TensorSpec, value: Any) -> np.ndarray:
    """Returns an input as an array of its type; raises ValueError if that changes a number by more than rounding floats."""
    try:
        array = objects = to_array(value, spec.dtype)
        if array.dtype.kind == 'O' and spec.dtype != tf.string:
            array = np.array(objects.tolist())  # Of a table with columns of several types, for example.
    except ValueError:  # Lists of different lengths.
        raise wrong(name, spec, value) from None
    wanted = np.dtype(spec.dtype.as_numpy_dtype)
    if np.ma.is_masked(value):
        raise ValueError(f'the input {name} has masked values: fill them, or leave their examples out')
    if spec.dtype == tf.string:
        return encode(name, array)
    if objects.dtype.kind == 'O' and array.dtype.kind in 'biuf':
        is_changed = (array != objects) & (array == array)
        if is_changed.any():
            number, other = objects[is_changed][0], array[is_changed][0]
            raise ValueError(f'the input {name} is {spec.dtype.name}: {show(number)} beside floats would become {other}')
    if array.dtype.kind == 'O' and any(item is None for item in array.flat):
        raise ValueError(f'the input {name} is {spec.dtype.name}: None is not a number')
    if array.dtype == wanted:
        return array
    if array.dtype.kind in 'OUSMmc':
        raise wrong(name, spec, array)
    if not {array.dtype.kind, wanted.kind} <= {*'biuf'}:
        return array
    with np.errstate(all='ignore'):
        converted = array.astype(wanted)
    is_changed = np.isinf(converted) & ~np.isinf(array) if wanted.kind == 'f' else converted != array
    if is_changed.any():
        number, other = array[is_changed][0], converted[is_changed][0]
        raise ValueError(f'the input {name} is {spec.dtype.name}: {number} ({array.dtype.name}) would become {other}')
    return converted
