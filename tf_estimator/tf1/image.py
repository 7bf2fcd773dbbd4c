"""tf.contrib.image: projective transforms of images, [batch, height, width, channels] or without the batch or the channels."""

import tensorflow.compat.v1 as tf


def transform(images, transforms, interpolation='NEAREST', output_shape=None, name=None):
    """Returns images whose pixel (x, y) is that of ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), or 0 outside.

    Args:
      transforms: [a0, a1, a2, b0, b1, b2, c0, c1], of all images or of each; k = c0 x + c1 y + 1.
      output_shape: (height, width), by default that of the images.
    """
    images = tf.convert_to_tensor(images)
    rank = images.shape.rank
    batch = {2: lambda: images[None, :, :, None], 3: lambda: images[None]}.get(rank, lambda: images)()
    size = tf.shape(batch)[1:3] if output_shape is None else tf.convert_to_tensor(output_shape, tf.int32)
    transforms = tf.convert_to_tensor(transforms, tf.float32)
    transforms = transforms[None] if transforms.shape.rank == 1 else transforms
    moved = tf.raw_ops.ImageProjectiveTransformV2(
        images=batch, transforms=transforms, output_shape=size, interpolation=interpolation.upper()
    )
    moved = {2: lambda: moved[0, :, :, 0], 3: lambda: moved[0]}.get(rank, lambda: moved)()
    if output_shape is None:
        moved.set_shape(images.shape)
    return moved


def angles_to_projective_transforms(angles, image_height, image_width, name=None):
    """Returns the transforms that rotate about the center counterclockwise by angles in radians, a scalar or [batch]."""
    angles = tf.reshape(tf.convert_to_tensor(angles, tf.float32), [-1])
    height, width = (tf.cast(size, tf.float32) - 1 for size in (image_height, image_width))
    cos, sin, zeros = tf.cos(angles), tf.sin(angles), tf.zeros_like(angles)
    x = (width - (cos * width - sin * height)) / 2
    y = (height - (sin * width + cos * height)) / 2
    return tf.stack([cos, -sin, x, sin, cos, y, zeros, zeros], 1)


def rotate(images, angles, interpolation='NEAREST', name=None):
    images = tf.convert_to_tensor(images)
    height, width = tf.unstack(tf.shape(images)[:2] if images.shape.rank < 4 else tf.shape(images)[1:3])
    return transform(images, angles_to_projective_transforms(angles, height, width), interpolation)


def translations_to_projective_transforms(translations, name=None):
    """Returns the transforms that move images by (dx, dy), [2] or [batch, 2]."""
    moves = tf.reshape(tf.convert_to_tensor(translations, tf.float32), [-1, 2])
    ones, zeros = tf.ones_like(moves[:, 0]), tf.zeros_like(moves[:, 0])
    return tf.stack([ones, zeros, -moves[:, 0], zeros, ones, -moves[:, 1], zeros, zeros], 1)


def translate(images, translations, interpolation='NEAREST', name=None):
    return transform(images, translations_to_projective_transforms(translations), interpolation)
