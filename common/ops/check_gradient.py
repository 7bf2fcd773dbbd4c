"""Checking gradients against differences of the function's values."""

import numpy as np
import tensorflow.compat.v1 as tf

from common.ops.jacobian import jacobian


def check_gradient(fn, inputs, delta=1e-3):
    """Returns the largest error of the gradients that TensorFlow computes, near 0 if they are right.

    Compares every derivative of every output with a central difference. A gradient that is missing, as the one of
    tf.nn.softmax_cross_entropy_with_logits with respect to its labels, counts as 0. The check has a graph and a session
    of its own, where variables have their initial values. (After the guide Effective TensorFlow, chapter "Debugging
    TensorFlow models".)

    Args:
      fn: function of tensors, one for each of `inputs`, that returns a float tensor.
      inputs: list of float arrays; float64 ones give the finest differences.
      delta: float, half the width of the differences. `fn` must be smooth so far around the inputs.

    Returns:
      float, the largest absolute difference; NaN if a gradient or a value is NaN.

    Raises:
      ValueError: an input is not of a float dtype, or so large in its dtype that delta is lost in it.
    """
    inputs = [np.asarray(array) for array in inputs]
    for i, array in enumerate(inputs):
        if not np.issubdtype(array.dtype, np.floating):
            raise ValueError(f'inputs[{i}] has the dtype {array.dtype}: only floats have gradients')
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = [tf.placeholder(array.dtype, array.shape) for array in inputs]
        output = fn(*tensors)
        symbolic = [jacobian(output, tensor) for tensor in tensors]
        session.run(tf.global_variables_initializer())
        feed = dict(zip(tensors, inputs))
        values = session.run(symbolic, feed)
        errors = [
            _largest_error(lambda array, tensor=tensor: session.run(output, {**feed, tensor: array}), array, value, delta)
            for tensor, array, value in zip(tensors, inputs, values)
        ]
    return float(np.max(errors))


def _largest_error(fn, array, symbolic, delta):
    errors = [0.0]  # Of an empty array.
    for index in np.ndindex(array.shape):
        above, below = array.copy(), array.copy()
        above[index] += delta
        below[index] -= delta
        width = above[index] - below[index]  # What floating point made of 2 * delta.
        if not width:
            raise ValueError(f'delta={delta} is lost in {array[index]} of the dtype {array.dtype}: scale the inputs down')
        with np.errstate(invalid='ignore'):  # Of infinities.
            difference = (fn(above).astype(np.float64) - fn(below)) / width
            errors.append(np.abs(symbolic[(..., *index)] - difference).max(initial=0.0))
    return np.max(errors)
