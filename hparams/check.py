"""Checks the names and values of a module's hyper-parameters."""

import collections.abc
import math
from typing import Any

from common.errors import UsageError
from common.values import describe, show
from hparams.defaults import MAXIMUM


def check_params(origin: str, values: Any) -> None:
    """Checks that --hparams and JSON can represent the names and values that get_params() returned.

    Args:
      origin: the flag that names the module.
      values: what get_params() returned.

    Raises:
      UsageError: it is not a dict, or a name or value is invalid.
    """
    origin = f'{origin}: get_params()'
    if not isinstance(values, collections.abc.Mapping):
        raise UsageError(f'{origin} must return a dict, not {describe(values)}')
    for key, value in values.items():
        if not isinstance(key, str) or not key.isidentifier() or key == 'metadata' or hasattr(collections.abc.Mapping, key):
            raise UsageError(
                f'{origin} gives {show(key)}={show(value)}: the name of a hyper-parameter must be a Python '
                'identifier, and neither metadata nor that of a method of dict'
            )
        items = value if isinstance(value, (list, tuple)) else [value]
        if any(type(item) not in (bool, int, float, str) or type(item) is not type(items[0]) for item in items):
            raise UsageError(
                f'{origin} gives {key}={show(value)}, but a hyper-parameter must be a bool, an int, '
                'a float, a str, or a list of one of these'
            )
        if not all(map(_is_in_range, items)):
            raise UsageError(
                f'{origin} gives {key}={show(value)}: integers must be between -{MAXIMUM} and {MAXIMUM}, '
                'floats finite, and strings valid Unicode'
            )


def _is_in_range(item):
    if isinstance(item, str):
        return not any('\ud800' <= character <= '\udfff' for character in item)
    return math.isfinite(item) if isinstance(item, float) else abs(item) <= MAXIMUM
