"""Debugging of graphs: assertions, printed tensors, summaries of variables, numerical gradient checks, Jacobians."""

from collections.abc import Callable, Sequence
import sys

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.shapes import get_shape, reshape


def assert_shape(tensor: tf.Tensor, shape: Sequence[int | tf.Tensor | None]) -> tf.Tensor:
    """Checks the shape of a tensor: static sizes immediately, dynamic ones whenever the result is computed.

    In a graph, an assertion op without dependents never runs. The returned tensor depends on the check, so use that one.

    Args:
      tensor: any tensor.
      shape: the sizes: ints, int32 scalar tensors such as `get_shape` returns, or None for any.

    Returns:
      `tensor`, with the static shape that `shape` adds.

    Raises:
      ValueError: the static shape does not match.
      tf.errors.InvalidArgumentError: the dynamic shape does not match, when run.
    """
    static = [None if tf.is_tensor(size) else size for size in shape]
    with tf.name_scope('assert_shape'):
        tensor = tf.ensure_shape(tensor, static)
        checks = [
            tf.debugging.assert_equal(tf.shape(tensor)[i], size, message=f'Dimension {i} of {tensor.name}')
            for i, size in enumerate(shape)
            if tf.is_tensor(size)
        ]
        with tf.control_dependencies(checks):
            return tf.identity(tensor)


def assert_finite(tensor: tf.Tensor, message: str | None = None) -> tf.Tensor:
    """Checks, whenever the result is computed, that a tensor contains no NaN or infinity.

    Args:
      tensor: float tensor of any shape.
      message: for the error; by default the tensor's name.

    Returns:
      `tensor`; use it, as otherwise the check does not run.

    Raises:
      tf.errors.InvalidArgumentError: a value is not finite, when run.
    """
    tensor = tf.convert_to_tensor(tensor)
    return tf.debugging.check_numerics(tensor, message or f'{tensor.name} is not finite')


def print_tensor(tensor: tf.Tensor, message: str | None = None, summarize: int = 3) -> tf.Tensor:
    """Prints a tensor's shape and values to stderr whenever the result is computed.

    Args:
      tensor: any tensor.
      message: printed before them; by default the tensor's name.
      summarize: number of elements to print at each end of each dimension; -1 prints all.

    Returns:
      `tensor`; use it, as otherwise nothing is printed.
    """
    tensor = tf.convert_to_tensor(tensor)
    with tf.name_scope('print_tensor'):
        printed = tf.print(message or tensor.name, tf.shape(tensor), tensor, output_stream=sys.stderr, summarize=summarize)
        with tf.control_dependencies([printed]):
            return tf.identity(tensor)


def variable_summaries(variable: tf.Variable) -> None:
    """Adds summaries of a variable: mean, standard deviation, minimum, maximum and a histogram.

    Args:
      variable: float variable or tensor of any shape; the tags are NAME/mean, /stddev, /min, /max and /histogram.
    """
    name = variable.op.name
    with tf.name_scope(None):
        tf.summary.scalar(f'{name}/mean', tf.reduce_mean(variable))
        tf.summary.scalar(f'{name}/stddev', tf.math.reduce_std(variable))
        tf.summary.scalar(f'{name}/min', tf.reduce_min(variable))
        tf.summary.scalar(f'{name}/max', tf.reduce_max(variable))
        tf.summary.histogram(f'{name}/histogram', variable)


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


def jacobian(outputs: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """Returns the derivatives of all outputs with respect to all inputs.

    The gradient is vectorized over the elements of `outputs` (tf.vectorized_map) instead of computed in a loop.

    Args:
      outputs: float tensor of any shape, computed from `inputs`.
      inputs: float tensor of any shape.

    Returns:
      Tensor of shape outputs.shape + inputs.shape; 0 if an output does not depend on an input.
    """
    rows = _gradients(tf.reshape(outputs, [-1]), inputs)
    return tf.reshape(rows, get_shape(outputs) + get_shape(inputs))


def batch_jacobian(outputs: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """Returns the derivatives of each example's outputs with respect to its own inputs.

    Correct only if an example's outputs do not depend on other examples' inputs, unlike with batch norm in training. The cost
    is one gradient per element of one example's outputs.

    Args:
      outputs: float tensor [batch, ...], computed from `inputs`.
      inputs: float tensor [batch, ...].

    Returns:
      Tensor of shape [batch] + outputs.shape[1:] + inputs.shape[1:]; 0 if an output does not depend on an input.
    """
    columns = _gradients(reshape(outputs, [0, list(range(1, outputs.shape.rank))]), inputs)
    by_example = tf.transpose(columns, [1, 0, *range(2, columns.shape.rank)])
    return tf.reshape(by_example, get_shape(outputs) + get_shape(inputs)[1:])


def _gradients(outputs, inputs):
    """Returns the gradients of outputs[..., i] for each i, of shape [i] + inputs.shape."""

    def gradient(i):
        return tf.gradients(padded[..., i], inputs, unconnected_gradients='zero')[0]

    count = tf.shape(outputs)[-1]
    padded = tf.pad(outputs, [[0, 0]] * (outputs.shape.rank - 1) + [[0, 1]])  # tf.vectorized_map needs at least one element.
    return tf.vectorized_map(gradient, tf.range(tf.maximum(count, 1)))[:count]
