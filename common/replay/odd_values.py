"""Values of a batch that are NaN or infinite, or far from those of the other examples, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_SHOWN = 3  # Columns of an example.
_FAR = 100  # Times the distance from the median that three quarters of a batch have.


def odd_values(arrays: Mapping[str, np.ndarray], size: int, parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Returns what is odd about each example, '' if nothing is.

    Args:
      arrays: {name: array [batch, ...]}, of which those of floats count.
      size: of the batch.
      parts: of a name, the name of each column, with mean and std if it is standardized; as of a dataset's `input_parts`.
    """
    found: list[list[str]] = [[] for _ in range(size)]
    for name, array in arrays.items():
        if len(array) == size and array.size and np.issubdtype(array.dtype, np.floating):
            for i, text in _odd(name, np.asarray(array, np.float64), parts.get(name, ())):
                found[i].append(text)
    return ['; '.join(texts[:_SHOWN]) + (f'; and {len(texts) - _SHOWN} more' if len(texts) > _SHOWN else '') for texts in found]


def _odd(name, array, parts) -> Iterator[tuple[int, str]]:
    """Yields (number of an example, text) of the odd values of an array."""
    if array.ndim == 2 and len(parts) == array.shape[1]:
        for part, values in zip(parts, array.T):
            yield from _odd(part['name'], values * part.get('std', 1.0) + part.get('mean', 0.0), ())
        return
    # Columns have their own range, pixels and times have one.
    values = array.reshape(len(array), -1)
    columns = [(f'{name}[{i}]', column[:, None]) for i, column in enumerate(values.T)] if array.ndim == 2 else [(name, values)]
    for column, numbers in columns:
        yield from _not_finite(column, numbers)
        yield from _far(column, numbers)


def _not_finite(name, values):
    for text, is_so in (('NaN', np.isnan(values)), ('infinite', np.isinf(values))):
        for i in np.flatnonzero(is_so.any(1)):
            yield int(i), f'{name} is {text}{_share(is_so[i])}'


def _far(name, values):
    known = values[np.isfinite(values)]
    if not known.size:
        return
    median = np.median(known)
    distances = np.abs(np.where(np.isfinite(values), values, median) - median)
    largest = distances.max(1)
    usual = np.quantile(largest, 0.75, method='lower')
    for i in np.flatnonzero(largest > _FAR * usual) if usual else ():
        value = values[i][distances[i].argmax()]
        share = _share(distances[i] > _FAR * usual)
        yield int(i), f'{name} is {value:.4g}{share}, the median of the batch is {median:.4g}'


def _share(flags):
    return f' in {flags.sum()} of {flags.size} values' if flags.size > 1 else ''
