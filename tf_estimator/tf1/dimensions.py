"""Shapes of TensorFlow 1: it takes whole floats, and numbers in texts, as sizes."""

from tf_estimator.mending import around

import numpy as np
from tensorflow.python.framework import tensor_shape


def mend() -> None:
    """Lets shapes have such sizes: programs divide sizes by `/`, and split them from flags."""

    @around(tensor_shape.Dimension, '__init__')
    def of_number(init, self, value):
        return init(self, whole(value) if isinstance(value, (float, np.floating, str, bytes)) else value)


def whole(value):
    """Returns a number, or a text of one, as an int; raises ValueError if that would change it."""
    found = int(value)
    if not isinstance(value, (str, bytes)) and found != value:
        raise ValueError(f'Ambiguous dimension: {value}')
    return found
