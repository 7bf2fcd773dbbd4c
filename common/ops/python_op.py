"""Python functions as ops with custom gradients."""

from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.debug import assert_shape
from estimator_trainer.common.ops.shapes import get_shape


def python_op(
    fn: Callable[..., np.ndarray], grad_fn: Callable, output_spec: Callable[..., tf.TensorSpec] | None = None
) -> Callable[..., tf.Tensor]:
    """Creates a differentiable op from two Python functions of NumPy arrays.

    It runs on the CPU, only in the process that built the graph, so it cannot be exported. Useful for prototyping an op
    before writing its kernel. (After the guide Effective TensorFlow, chapter "Prototyping kernels and advanced visualization
    with Python ops".)

    Args:
      fn: function of arrays that returns an array.
      grad_fn: function (*inputs, output gradient) that returns the gradients with respect to the inputs: an array of the
        input's shape and dtype for each, as a tuple or list if there are several inputs. None stands for 0.
      output_spec: function of the input tensors that returns the output's tf.TensorSpec; by default that of the first input.

    Returns:
      Function of tensors; raises tf.errors.InvalidArgumentError, when run, if a function returns a wrong dtype or shape.
    """

    @tf.custom_gradient
    def op(*inputs):
        spec = output_spec(*inputs) if output_spec else tf.TensorSpec(inputs[0].shape, inputs[0].dtype)
        output = tf.ensure_shape(tf.numpy_function(fn, inputs, spec.dtype), spec.shape)

        def grad(output_gradient):
            gradients = tf.numpy_function(_as_list(grad_fn), [*inputs, output_gradient], [x.dtype for x in inputs])
            return [assert_shape(gradient, get_shape(x)) for x, gradient in zip(inputs, gradients)]

        return output, grad

    return lambda *inputs: op(*map(tf.convert_to_tensor, inputs))


def _as_list(grad_fn):
    def call(*arrays):
        gradients = grad_fn(*arrays)
        gradients = gradients if isinstance(gradients, (tuple, list)) else [gradients]
        return [np.zeros_like(x) if gradient is None else gradient for x, gradient in zip(arrays, gradients)]

    return call
