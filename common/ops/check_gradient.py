"""Checking gradients against finite differences."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from common.ops.jacobian import jacobian


def check_gradient(fn: Callable, inputs: Sequence[np.ndarray], delta: float = 1e-3) -> float:
    """Returns the largest error of TensorFlow's gradients, near 0 if they are correct.

    Compares the derivative of every output with respect to every input with a central difference. A missing gradient, such
    as that of tf.nn.softmax_cross_entropy_with_logits with respect to its labels, counts as 0. The check uses its own graph
    and session, where variables have their initial values. (After the guide Effective TensorFlow, chapter "Debugging
    TensorFlow models".)

    Args:
      fn: function of tensors, one for each of `inputs`, that returns a float tensor.
      inputs: float arrays; float64 is the most precise.
      delta: half the width of the differences. `fn` must be smooth within this distance of the inputs.

    Returns:
      The largest absolute difference; NaN if a gradient or a value is NaN.

    Raises:
      ValueError: the dtype of an input is not float, or adding delta to a value does not change it in that dtype.
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
    errors = [0.0]  # For an empty array.
    for index in np.ndindex(array.shape):
        above, below = array.copy(), array.copy()
        above[index] += delta
        below[index] -= delta
        width = above[index] - below[index]  # 2 * delta, after rounding.
        if not width:
            raise ValueError(f'delta={delta} is lost in {array[index]} of the dtype {array.dtype}: scale the inputs down')
        with np.errstate(invalid='ignore'):  # inf - inf
            difference = (fn(above).astype(np.float64) - fn(below)) / width
            errors.append(np.abs(symbolic[(..., *index)] - difference).max(initial=0.0))
    return np.max(errors)
