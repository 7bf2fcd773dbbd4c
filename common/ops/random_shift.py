"""Image augmentation by small random shifts."""

import tensorflow.compat.v1 as tf

from common.ops.shape import get_shape
from common.ops.step_seed import step_seed


def random_shift(images: tf.Tensor, max_shift: int, is_training: bool) -> tf.Tensor:
    """Shifts each image vertically and horizontally by up to max_shift pixels, padding with 0.

    The shifts are a function of the graph's seed, the op's name and the global step, as in `dropout`.

    Args:
      images: [batch, height, width, channels], any dtype.
      max_shift: in pixels; 0 does nothing.
      is_training: False does nothing.

    Returns:
      Tensor of the shape and dtype of `images`.
    """
    if not is_training or max_shift == 0:
        return images
    with tf.name_scope('random_shift'):
        batch, height, width, _ = get_shape(images)
        padded = tf.pad(images, [[0, 0], [max_shift, max_shift], [max_shift, max_shift], [0, 0]])
        first = tf.random.stateless_uniform([batch, 2], step_seed(), 0, 2 * max_shift + 1, tf.int32)
        rows = first[:, :1] + tf.range(height)
        columns = first[:, 1:] + tf.range(width)
        shifted = tf.gather(tf.gather(padded, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)
        return tf.ensure_shape(shifted, images.shape)
