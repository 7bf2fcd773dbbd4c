"""Pictures of any size in records, as `picture_files.read_picture` makes them, and their decoding to squares of one size."""

from collections.abc import Mapping
import functools
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.formats import encoded, images
from estimator_trainer.common.formats.picture_files import decode

# Of a picture in a serialized tf.train.Example.
SIZES = {
    'height': tf.io.FixedLenFeature([], tf.int64, 0),
    'width': tf.io.FixedLenFeature([], tf.int64, 0),
    'orientation': tf.io.FixedLenFeature([], tf.int64, 1),
}
_RATIOS = (1, 2, 4, 8)  # Reductions at which JPEG files can be decoded.


def spec(prefix: str = '') -> dict[str, Any]:
    """Returns {name: tf.io.FixedLenFeature} of a picture in a serialized tf.train.Example; a prefix begins the names."""
    return {
        f'{prefix}image': tf.io.FixedLenFeature([], tf.string),
        **{f'{prefix}{name}': feature for name, feature in SIZES.items()},
    }


def to_square(example: Mapping[str, tf.Tensor], size: int, num_channels: int, prefix: str = '') -> tf.Tensor:
    """Returns the picture of an example, parsed by `spec`, as float32 [size, size, num_channels] in [0, 1], upright."""
    content, height, width = (example[f'{prefix}{name}'] for name in ('image', 'height', 'width'))
    image = _resized(content, height, width, size, num_channels)
    return encoded.turn(image, example[f'{prefix}orientation']) / 255


def files_to_squares(contents: tf.Tensor, size: int, num_channels: int) -> tf.Tensor:
    """Returns image files, string [batch], as `to_square` does, [batch, size, size, num_channels]."""

    def prepare_one(content):
        height, width = encoded.size(content)
        image = tf.cond(
            height > 0,
            lambda: _resized(content, height, width, size, num_channels),
            lambda: images.squash(_decoded(content, num_channels), size),
        )
        return encoded.turn(image, encoded.orientation(content)) / 255

    return tf.map_fn(prepare_one, contents, fn_output_signature=tf.TensorSpec([size, size, num_channels], tf.float32))


def _decoded(content, num_channels):
    """Returns a file that is no JPEG file, gray as TensorFlow makes it of the PNG files that `read_picture` keeps or writes."""
    color = encoded.decode(content, 3)
    if num_channels == 3:
        return color
    return tf.cast(tf.io.decode_png(tf.io.encode_png(tf.cast(color, tf.uint8)), num_channels), tf.float32)


def _resized(content, height, width, size, num_channels):
    """Returns an image file, squashed to a square, as float32 [size, size, num_channels] from 0 to 255.

    For speed, decodes a JPEG file at the largest reduction with enough pixels. Its size is then rounded up, which moves its
    content by less than a pixel.

    Args:
      content: string, the file.
      height: int64, of the file's image; 0 if unknown.
      width: like height.
    """
    short_side = tf.minimum(height, width)
    index = tf.reduce_sum([tf.cast(short_side >= size * ratio, tf.int32) for ratio in _RATIOS[1:]])
    image = tf.switch_case(index, [functools.partial(decode, content, ratio, num_channels) for ratio in _RATIOS])
    return images.squash(tf.ensure_shape(image, [None, None, num_channels]), size)
