"""Shapes of TensorFlow 1: it takes whole floats, and numbers in texts, as sizes, and knows more of them."""

from tf_estimator.mending import around

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_shape, tensor_util


def mend() -> None:
    """Lets shapes have such sizes: programs divide sizes by `/`, and split them from flags."""

    @around(tensor_shape.Dimension, '__init__')
    def of_number(init, self, value):
        return init(self, whole(value) if isinstance(value, (float, np.floating, str, bytes)) else value)

    @around(tf.nn, 'conv2d_transpose')
    def of_constants(transpose, *args, **options):
        found = transpose(*args, **options)
        if not tf.executing_eagerly():  # TensorFlow 2 forgets a known batch size for inputs of an unknown one.
            sizes = tensor_util.constant_value_as_shape(found.op.inputs[0])
            found.set_shape(sizes if sizes.rank == 4 else None)
        return found


def whole(value):
    """Returns a number, or a text of one, as an int; raises ValueError if that would change it."""
    found = int(value)
    if not isinstance(value, (str, bytes)) and found != value:
        raise ValueError(f'Ambiguous dimension: {value}')
    return found
