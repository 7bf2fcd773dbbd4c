"""Values in error messages."""

from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf


def describe(value: Any) -> str:
    """Describes the type of a value, such as 'a tensor of float32 (3,)'."""
    if value is None:
        return 'None'
    if isinstance(value, (tf.Tensor, tf2.Variable)):
        return f'a tensor of {value.dtype.base_dtype.name} {value.shape}'
    if isinstance(value, np.ndarray):
        return f'a NumPy array of {value.dtype} {value.shape}'
    name = type(value).__name__
    size = f' of {len(value)}' if isinstance(value, (tuple, list)) else ''
    return f'{"an" if name[0].lower() in "aeiou" else "a"} {name}{size}'


def show(value: Any) -> str:
    """Returns the repr of a value as one line of bounded length."""
    if isinstance(value, (tf.Tensor, tf2.Variable)):
        return describe(value)
    try:
        text = ascii(value) if isinstance(value, str) else repr(value)
    except Exception:  # An integer of more than 4,300 digits, or a failing __repr__.
        return describe(value)
    text = ' '.join(text.split())
    return text if len(text) <= 100 else f'{text[:100]}...'
