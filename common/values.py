"""Values in error messages."""

import sys
from typing import Any

import numpy as np


def _is_tensor(value):
    tf = sys.modules.get('tensorflow')  # There are no tensors without it.
    return tf is not None and isinstance(value, (tf.Tensor, tf.Variable))


def describe(value: Any) -> str:
    """Describes the type of a value, such as 'a tensor of float32 (3,)'."""
    if value is None:
        return 'None'
    if _is_tensor(value):
        return f'a tensor of {value.dtype.base_dtype.name} {value.shape}'
    if isinstance(value, np.ndarray):
        return f'a NumPy array of {value.dtype} {value.shape}'
    name = type(value).__name__
    size = f' of {len(value)}' if isinstance(value, (tuple, list)) else ''
    return f'{"an" if name[0].lower() in "aeiou" else "a"} {name}{size}'


def show(value: Any) -> str:
    """Returns the repr of a value as one line of bounded length."""
    if _is_tensor(value):
        return describe(value)
    try:
        text = ascii(value) if isinstance(value, str) else repr(value)
    except Exception:  # An integer of more than 4,300 digits, or a failing __repr__.
        return describe(value)
    text = ' '.join(text.split())
    return text if len(text) <= 100 else f'{text[:100]}...'
