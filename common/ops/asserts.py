"""Checks that run whenever what they checked is used."""

import tensorflow.compat.v1 as tf


def assert_shape(tensor, shape):
    """Returns `tensor`, having checked its shape: what is known at once, the rest whenever the result is computed.

    An assertion op of TensorFlow's that nothing depends on never runs; here it is the result that is checked, so go on
    with that.

    Args:
      tensor: any tensor.
      shape: list of the sizes: ints, int32 scalar tensors such as `get_shape` returns, or None for any.

    Returns:
      `tensor`, with the static shape that `shape` adds.

    Raises:
      ValueError: at once, where the static shape contradicts.
      tf.errors.InvalidArgumentError: when run.
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


def assert_finite(tensor, message=None):
    """Returns `tensor`, having checked whenever the result is computed that it holds no NaN or infinity.

    Args:
      tensor: float tensor of any shape.
      message: str for the error, by default the tensor's name.

    Returns:
      `tensor`; go on with this one, or the check does not run.

    Raises:
      tf.errors.InvalidArgumentError: when run.
    """
    tensor = tf.convert_to_tensor(tensor)
    return tf.debugging.check_numerics(tensor, message or f'{tensor.name} is not finite')
