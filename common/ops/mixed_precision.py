"""What stays in float32 between products in bfloat16, where that takes less time."""

from collections.abc import Iterator
import contextlib
import contextvars

import tensorflow.compat.v1 as tf

from estimator_trainer.common import processor

_is_used = contextvars.ContextVar('_is_used', default=False)


@contextlib.contextmanager
def training_in(precision: str) -> Iterator[None]:
    """Within the context, the layers of a network that is trained in `precision` are made for it."""
    token = _is_used.set(precision == 'bfloat16' and processor.has_amx())
    try:
        yield
    finally:
        _is_used.reset(token)


def relu(biased: tf.Tensor) -> tf.Tensor:
    """Returns the ReLU of a dense layer's output, of its dtype and shape.

    Fused with its bias, a product in bfloat16 is not computed by AMX; and alone, bias and ReLU with their gradients take two to
    seven times the time that they take in float32. Casts take less than that.

    Args:
      biased: float32 [..., units], the output of tf.layers.dense with a bias and without an activation.
    """
    return _in_float32(*biased.op.inputs) if _is_used.get() else tf.nn.relu(biased)


@tf.custom_gradient
def _in_float32(product, bias):
    activations = _keep(tf.nn.relu(tf.nn.bias_add(_keep(product), bias)))

    def gradients(gradient):
        gradient = tf.raw_ops.ReluGrad(gradients=_keep(gradient), features=activations)
        return _keep(gradient), tf.raw_ops.BiasAddGrad(out_backprop=gradient)

    return activations, gradients


def _keep(tensor):
    """Returns the tensor, and keeps mixed precision from going on beyond it."""
    return tf.bitcast(tensor, tensor.dtype)
