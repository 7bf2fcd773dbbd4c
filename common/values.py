"""Values in error messages."""

import sys
from typing import Any


def _is(value, module, *types):
    """Whether a value is of these types of a module, which is not imported for that: no value is if it was not."""
    found = sys.modules.get(module)
    return found is not None and isinstance(value, tuple(getattr(found, name) for name in types))


def describe(value: Any) -> str:
    """Describes the type of a value, such as 'a tensor of float32 (3,)'."""
    if value is None:
        return 'None'
    if _is(value, 'tensorflow', 'Tensor', 'Variable'):
        return f'a tensor of {value.dtype.base_dtype.name} {value.shape}'
    if _is(value, 'numpy', 'ndarray'):
        return f'a NumPy array of {value.dtype} {value.shape}'
    name = type(value).__name__
    size = f' of {len(value)}' if isinstance(value, (tuple, list)) else ''
    return f'{"an" if name[0].lower() in "aeiou" else "a"} {name}{size}'


def show(value: Any) -> str:
    """Returns the repr of a value as one line of bounded length."""
    if _is(value, 'tensorflow', 'Tensor', 'Variable'):
        return describe(value)
    try:
        text = ascii(value) if isinstance(value, str) else repr(value)
    except Exception:  # An integer of more than 4,300 digits, or a failing __repr__.
        return describe(value)
    text = ' '.join(text.split())
    return text if len(text) <= 100 else f'{text[:100]}...'
