"""The outcome that predictions give for an example: a class, or a number."""

import math
from typing import Any, NamedTuple

import numpy as np

_LEAST = float(np.finfo(np.float32).tiny)
_CLASS_NAMES, _VALUE_NAMES = ('class', 'class_ids'), ('value', 'predictions')


class Outcome(NamedTuple):
    """What is predicted for one example: a class with the probabilities of all, if known; or a number; else nothing."""

    class_id: int | None = None
    probabilities: np.ndarray | None = None
    value: float | None = None

    def loss(self, label: Any) -> float:
        """Returns how wrong it is: -log of the probability of the label; 0 or 1 if that is unknown; or the absolute error."""
        if self.value is not None:
            return abs(self.value - float(label))
        if self.probabilities is None or not 0 <= label < len(self.probabilities):
            return float(self.class_id != label)
        return -math.log(max(float(self.probabilities[int(label)]), _LEAST))


def outcome(values: dict[str, np.ndarray]) -> Outcome:
    """Returns the outcome of one example's predictions, {name: array}.

    A class is an integer named class, or class_ids as of canned Estimators; a number is the float named value or predictions,
    or the only one.
    """
    for name in _CLASS_NAMES:
        if name in values and np.size(values[name]) == 1 and np.asarray(values[name]).dtype.kind in 'iu':
            probabilities = values.get('probabilities')
            is_known = probabilities is not None and np.ndim(probabilities) == 1 and np.size(probabilities) > 1
            return Outcome(int(np.ravel(values[name])[0]), probabilities if is_known else None)
    floats = {name: value for name, value in values.items() if np.size(value) == 1 and np.asarray(value).dtype.kind == 'f'}
    named = [name for name in _VALUE_NAMES if name in floats] or ([*floats] if len(floats) == 1 else [])
    return Outcome(value=float(np.ravel(floats[named[0]])[0])) if named else Outcome()
