"""JSON and numbers in text as users write them, read strictly. Does not import TensorFlow."""

import collections
from collections.abc import Sequence
import json
from typing import Any

from estimator_trainer.common.errors import show


class Misread(ValueError):
    """Reading the text would lose a part of it; the message follows the name of its origin."""


def loads(text: str) -> Any:
    """Returns the value of JSON text.

    Raises:
      Misread: a key is given twice, or a number would become 0.
      ValueError: the text is not JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=unique, parse_float=to_float)
    except RecursionError as error:
        raise ValueError(error) from None


def to_float(text: str) -> float:
    """Returns the number that text is; raises ValueError if it is none, Misread if it would become 0."""
    number = float(text)
    if not number and any('1' <= digit <= '9' for digit in text.lower().partition('e')[0]):
        raise Misread(f'{text} would become 0')
    return number


def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the pairs of an object as a dict; raises Misread if a key is given twice. For json.loads."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = collections.Counter(key for key, _ in pairs)
        raise Misread(f'{show(next(key for key, count in counts.items() if count > 1))} is given twice')
    return found
