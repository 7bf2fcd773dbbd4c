"""Image augmentation: random flips, crops, shifts, rotations, cutout, colors and mixup; and seeds of random ops.

The random numbers are a function of the graph's seed, the op's name and the global step, as in `dropout`, and differ for each
image of a batch. Pixels need not be in [0, 1], and are not clipped.
"""

import math
import zlib

import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.shapes import get_shape

_RATIOS = 3 / 4, 4 / 3  # The aspect ratios of crops.
_LUMA = 0.299, 0.587, 0.114  # The weights of red, green and blue in a gray value (ITU-R BT.601).


def random_flip(images: tf.Tensor) -> tf.Tensor:
    """Mirrors half of the images, left to right.

    Args:
      images: [batch, height, width, channels], any dtype.

    Returns:
      Tensor of the shape and dtype of `images`.
    """
    with tf.name_scope('random_flip'):
        is_flipped = _uniform([get_shape(images)[0]]) < 0.5
        return tf.where(is_flipped, tf.reverse(images, [2]), images)  # Copies whole images: where_v2 would broadcast.


def random_crop(images: tf.Tensor, min_area: float) -> tf.Tensor:
    """Cuts a rectangle out of each image, and resizes it to the image's size with bilinear interpolation.

    The rectangle's share of the area is uniform in [min_area, 1]. The logarithm of its aspect ratio is uniform between those of
    3/4 and 4/3, or in the part of that range for which the rectangle fits. (C. Szegedy et al.: Going Deeper with Convolutions,
    2015; they redraw rectangles that do not fit.)

    Args:
      images: float32 [batch, height, width, channels].
      min_area: in (0, 1].

    Returns:
      Tensor of the shape and dtype of `images`.
    """
    with tf.name_scope('random_crop'):
        batch, height, width, _ = get_shape(images)
        area = _uniform([batch], min_area, 1.0)
        # Relative to the image's own aspect ratio, a rectangle fits if its ratio is from area to 1 / area.
        aspect = tf.cast(width, tf.float32) / tf.cast(height, tf.float32)
        low, high = (tf.maximum(tf.log(area), tf.minimum(tf.log(ratio / aspect), -tf.log(area))) for ratio in _RATIOS)
        ratio = tf.exp(low + (high - low) * _uniform([batch]))
        size = tf.minimum(tf.stack([tf.sqrt(area / ratio), tf.sqrt(area * ratio)], 1), 1.0)
        first = (1 - size) * _uniform([batch, 2])
        boxes = tf.concat([first, tf.minimum(first + size, 1.0)], 1)
        cropped = tf.image.crop_and_resize(images, boxes, tf.range(batch), [height, width])
        return tf.ensure_shape(cropped, images.shape)


def random_rotation(images: tf.Tensor, max_degrees: float) -> tf.Tensor:
    """Rotates each image by an angle that is uniform in [-max_degrees, max_degrees]; see `rotate`."""
    with tf.name_scope('random_rotation'):
        return rotate(images, _uniform([get_shape(images)[0]], -max_degrees, max_degrees))


def rotate(images: tf.Tensor, degrees: tf.Tensor) -> tf.Tensor:
    """Rotates images around their centers, counterclockwise, with bilinear interpolation; pads with 0.

    Args:
      images: float32 [batch, height, width, channels].
      degrees: float32 [batch].

    Returns:
      Tensor of the shape and dtype of `images`.
    """
    _, height, width, _ = get_shape(images)
    angle = degrees * (math.pi / 180)
    cos, sin, zero = tf.cos(angle), tf.sin(angle), tf.zeros_like(angle)
    x, y = (tf.cast(size - 1, tf.float32) / 2 for size in (width, height))
    # Row by row: maps a pixel of the output, as (x, y, 1), to the input.
    transforms = tf.stack([cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y, zero, zero], 1)
    rotated = tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=transforms,
        output_shape=tf.stack([height, width]),
        fill_value=0.0,
        interpolation='BILINEAR',
        fill_mode='CONSTANT',
    )
    return tf.ensure_shape(rotated, images.shape)


def random_cutout(images: tf.Tensor, size: int) -> tf.Tensor:
    """Sets a square of each image to 0. Its center is uniform among the pixels, so part of it may lie outside the image.

    (T. DeVries, G. Taylor: Improved Regularization of Convolutional Neural Networks with Cutout, 2017.)

    Args:
      images: float [batch, height, width, channels].
      size: side of the square, in pixels.

    Returns:
      Tensor of the shape and dtype of `images`.
    """
    with tf.name_scope('random_cutout'):
        batch, height, width, _ = get_shape(images)

        def is_cut(length):
            center = tf.random.stateless_uniform([batch, 1], step_seed(), 0, length, tf.int32)
            distance = tf.range(length) - (center - size // 2)
            return (distance >= 0) & (distance < size)

        is_inside = is_cut(height)[:, :, None, None] & is_cut(width)[:, None, :, None]
        return tf.where_v2(is_inside, tf.zeros([], images.dtype), images)


def random_color(images: tf.Tensor, strength: float) -> tf.Tensor:
    """Changes brightness, contrast and, with three channels, saturation, each by a factor in [1 - strength, 1 + strength].

    Brightness scales the image, contrast its difference from its mean gray value, and saturation the difference of each pixel
    from its own gray value. Without three channels, a pixel's gray value is the mean of its channels.

    Args:
      images: float32 [batch, height, width, channels].
      strength: in [0, 1].

    Returns:
      Tensor of the shape and dtype of `images`.
    """
    with tf.name_scope('random_color'):
        batch = get_shape(images)[0]
        is_rgb = images.shape[3] == 3

        def to_gray(net):
            return tf.reduce_sum(net * tf.constant(_LUMA), 3, True) if is_rgb else tf.reduce_mean(net, 3, True)

        def factor():
            return _uniform([batch, 1, 1, 1], 1 - strength, 1 + strength)

        net = images * factor()
        mean = tf.reduce_mean(to_gray(net), [1, 2], True)
        net = mean + (net - mean) * factor()
        if is_rgb:
            gray = to_gray(net)
            net = gray + (net - gray) * factor()
        return net


def _uniform(shape, low=0.0, high=1.0):
    return tf.random.stateless_uniform(shape, step_seed(), low, high)


def random_shift(images: tf.Tensor, max_shift: int, is_training: bool) -> tf.Tensor:
    """Shifts each image vertically and horizontally by up to max_shift pixels, padding with 0.

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


def mixup(images: tf.Tensor, alpha: float) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Averages each image of a batch with another one, or itself: share * image + (1 - share) * other.

    The others are a random permutation of the batch. Each image draws its own share from Beta(alpha, alpha); the paper draws
    one per batch. (H. Zhang et al.: mixup: Beyond Empirical Risk Minimization, 2018.)

    Args:
      images: float32 [batch, ...].
      alpha: positive; small values move most shares closer to 0 or 1.

    Returns:
      The averages, of the shape and dtype of `images`; the index of each image's other one, int32 [batch]; the share of the
      image itself, float32 [batch].
    """
    with tf.name_scope('mixup'):
        batch = get_shape(images)[0]
        others = tf.argsort(_uniform([batch]))
        share = tf.sigmoid(_log_gamma(batch, alpha) - _log_gamma(batch, alpha))
        factor = tf.reshape(share, [-1] + [1] * (images.shape.rank - 1))
        return factor * images + (1 - factor) * tf.gather(images, others), others, share


def _log_gamma(batch, alpha):
    """Draws logarithms of Gamma(alpha) variables: for small alphas, the variables themselves are often 0 in float32.

    If G is Gamma(alpha + 1) and U is uniform in (0, 1], G * U^(1 / alpha) is Gamma(alpha). (G. Marsaglia, W. Tsang: A Simple
    Method for Generating Gamma Variables, 2000.)
    """
    gamma = tf.random.stateless_gamma([batch], step_seed(), alpha + 1)
    return tf.log(gamma) + tf.log(1 - _uniform([batch])) / alpha


def step_seed() -> tf.Tensor:
    """Returns a seed for stateless random ops: a function of the graph's seed, the name scope and the global step.

    Every call returns a different seed. In a loop body it is the same for all iterations.

    Stateful random ops keep their state in the process, so a run resumed from a checkpoint would differ from an uninterrupted
    one.

    Returns:
      int64 [2].
    """
    graph = tf.get_default_graph()
    seed = graph.seed or 0
    while hasattr(graph, 'outer_graph'):  # A loop body is a separate graph, with its own unique names.
        graph = graph.outer_graph
    key = zlib.crc32(graph.unique_name('seed').encode()) ^ seed
    return tf.stack([tf.constant(key, tf.int64), tf.cast(tf.train.get_or_create_global_step(), tf.int64)])
