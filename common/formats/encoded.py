"""Image files decoded in TensorFlow ops, for exported models: as `images` does, in Pillow, for training and --input."""

import tensorflow as tf2
import tensorflow.compat.v1 as tf

PICTURE = 'picture'  # The name of a tf.TensorSpec of strings that are the contents of image files.
_GIF_HEADER = 13  # Bytes.
_GRAY = (0.299, 0.587, 0.114)
_ORIENTATION, _SHORT = 0x0112, 3  # A tag of TIFF, and the type of its value.
_SEARCHED = 1 << 17  # Bytes of a file in which EXIF data and transparent colors begin.
# EXIF orientations, and the operations, in order, that make such images upright.
_TURNS = (
    ((5, 6, 7, 8), lambda image: tf.transpose(image, [1, 0, 2])),
    ((2, 3, 6, 7), lambda image: image[:, ::-1]),
    ((3, 4, 7, 8), lambda image: image[::-1]),
)


def decode(content: tf.Tensor, num_channels: int, is_gif_on_white: bool = True) -> tf.Tensor:
    """Decodes a JPEG, PNG, GIF or BMP file, or one of a later kind that TensorFlow knows; transparency becomes white.

    Args:
      content: a string scalar.
      num_channels: 1 or 3.
      is_gif_on_white: whether this holds for GIF files; else these are black where they are transparent.

    Returns:
      float32 [height, width, num_channels], from 0 to 255, not turned by its EXIF orientation.
    """
    start = tf.strings.substr(content, 0, 4)
    color_type = tf.strings.substr(content, 25, 1)  # Of a PNG file: 4 and 6 have an alpha channel.
    is_png = tf.equal(start, b'\x89PNG')
    has_alpha = tf.reduce_any(tf.equal(color_type, [b'\x04', b'\x06'])) | (_end_of(b'tRNS', _bytes(content)) > 0)
    is_plain = is_png | tf.equal(tf.strings.substr(content, 0, 3), b'\xff\xd8\xff')
    image = tf.cond(
        is_png & has_alpha,
        lambda: _on_white(tf.io.decode_png(content, 4), num_channels),
        lambda: tf.cond(
            is_plain,
            lambda: tf.cast(tf.io.decode_jpeg(content, num_channels), tf.float32),  # The op also decodes PNG files.
            lambda: _of_channels(tf.cast(_decode_other(content, is_gif_on_white), tf.float32), num_channels),
        ),
    )
    return tf.ensure_shape(image, [None, None, num_channels])


def _decode_other(content, is_gif_on_white):
    """Decodes a GIF, BMP or WebP file; of a BMP file with a palette, TensorFlow returns the indices of the colors."""
    data = _bytes(content)

    def colored(image):
        header = tf.reduce_sum(data[14:18] * [1, 1 << 8, 1 << 16, 1 << 24])
        blue = 14 + header + 4 * tf.cast(image[..., :1], tf.int64)
        places = tf.concat([blue + 2, blue + 1, blue], -1)
        return tf.gather(tf.cast(data, tf.uint8), tf.clip_by_value(places, 0, tf.size(data, out_type=tf.int64) - 1))

    def decode_plain():
        image = tf.io.decode_image(content, 3, expand_animations=False)
        is_indexed = tf.reduce_all(tf.equal(tf.gather(data, [0, 1, 28, 29]), [ord('B'), ord('M'), 8, 0]))  # 8 bits per pixel.
        return tf.cond(is_indexed, lambda: colored(image), lambda: image)

    if not is_gif_on_white:
        return decode_plain()
    is_gif = tf.equal(tf.strings.substr(content, 0, 4), b'GIF8')
    return tf.cond(is_gif, lambda: _gif_on_white(content, data), decode_plain)


def _gif_on_white(content, data):
    """Returns the first image of a GIF file, uint8 [height, width, 3], white where it is transparent, on its canvas.

    TensorFlow leaves transparent pixels black, and the canvas out. Where the image does not cover it, this is white, or of the
    first color, as Pillow has it. See the blocks of https://www.w3.org/Graphics/GIF/spec-gif89a.txt.
    """

    def byte(at):
        return tf.gather(data, tf.minimum(at, tf.size(data, out_type=tf.int64) - 1))

    def short(at):
        at = tf.cast(at, tf.int64)
        return byte(at) + 256 * byte(at + 1)

    def table_size(packed):
        return tf.where(packed >= 128, 3 * tf.bitwise.left_shift(tf.constant(2, tf.int64), packed % 8), 0)

    def skip(at, control):  # An extension is of blocks, each after its length, up to an empty one.
        end = tf.while_loop(lambda block: byte(block) > 0, lambda block: [block + 1 + byte(block)], [at + 2])
        return end + 1, tf.where(tf.equal(byte(at + 1), 0xF9), at, control)

    start = _GIF_HEADER + table_size(data[10])
    is_extension = [lambda at, _: tf.equal(byte(at), ord('!')), skip]
    descriptor, control = tf.while_loop(*is_extension, [start, tf.zeros([], tf.int64)])
    colors = tf.where(byte(descriptor + 9) >= 128, descriptor + 10, _GIF_HEADER)
    is_transparent = (control > 0) & tf.equal(byte(control + 3) % 2, 1)

    def replaced(content, at, new):
        length = tf.cast(tf.strings.length(content), tf.int64)  # A damaged file may be shorter.
        rest = tf.strings.substr(content, tf.minimum(at + len(new), length), length)
        return tf.strings.join([tf.strings.substr(content, tf.zeros_like(at), at), new, rest])

    def opaque():
        return replaced(replaced(content, control + 3, b'\0'), colors + 3 * byte(control + 6), b'\xff\xff\xff')

    def on_canvas():
        left, top, width, height = (short(descriptor + at) for at in (1, 3, 5, 7))
        at_corner = replaced(tf.cond(is_transparent, opaque, lambda: content), descriptor + 1, bytes(4))
        image = tf.io.decode_image(at_corner, 3, expand_animations=False)[:height, :width]
        around = [[top, tf.maximum(short(8) - top - height, 0)], [left, tf.maximum(short(6) - left - width, 0)], [0, 0]]
        is_image = tf.equal(tf.pad(tf.ones_like(image), around), 1)
        first = tf.where(is_transparent, tf.fill([3], tf.constant(255, tf.int64)), byte(colors + tf.range(3, dtype=tf.int64)))
        return tf.where(is_image, tf.pad(image, around), tf.broadcast_to(tf.cast(first, tf.uint8), tf.shape(is_image)))

    is_found = tf.equal(byte(descriptor), ord(','))  # Not if much else precedes it.
    return tf.cond(is_found, on_canvas, lambda: tf.io.decode_image(content, 3, expand_animations=False))


def _on_white(image, num_channels):
    """Blends uint8 [height, width, 4] with white."""
    color, opacity = tf.cast(image[..., :3], tf.float32), tf.cast(image[..., 3:], tf.float32) / 255
    return _of_channels(tf.round(color * opacity + 255 * (1 - opacity)), num_channels)


def _of_channels(color, num_channels):
    return color if num_channels == 3 else tf.round(tf.reduce_sum(color * _GRAY, -1, keepdims=True))


def size(content: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the height and width of a JPEG file's image, int64; 0 for a file of another kind."""
    is_jpeg = tf.equal(tf.strings.substr(content, 0, 3), b'\xff\xd8\xff')
    shape = tf.cond(is_jpeg, lambda: tf2.io.extract_jpeg_shape(content, tf.int64), lambda: tf.zeros([3], tf.int64))
    return shape[0], shape[1]


def orientation(content: tf.Tensor) -> tf.Tensor:
    """Returns the EXIF orientation of a JPEG, PNG or WebP file, int64 from 1 to 8; 1, upright, if it is absent or corrupt."""
    is_png = tf.equal(tf.strings.substr(content, 0, 4), b'\x89PNG')
    is_webp = tf.reduce_all(tf.equal(_bytes(tf.strings.substr(content, 0, 12))[8:12], [*b'WEBP']))
    at_end = tf.maximum(tf.strings.length(content) - _SEARCHED, 0)  # Where WebP files have it.
    data = _bytes(tf.strings.substr(content, tf.where(is_webp, at_end, 0), _SEARCHED))
    start = tf.where(is_png, _end_of(b'eXIf', data), _end_of(b'Exif\0\0', data))  # There a TIFF header begins.
    chunk = _end_of(b'EXIF', data)
    start = tf.where(is_webp & (chunk > 0) & tf.equal(start, 0), chunk + 4, start)  # After the length of the chunk.
    is_little = tf.equal(data[start], ord('I'))

    def number(at, length):
        parts = [tf.gather(data, tf.clip_by_value(at + i, 0, tf.size(data, out_type=tf.int64) - 1)) for i in range(length)]
        little, big = (sum(part * 256**i for i, part in enumerate(order)) for order in (parts, parts[::-1]))
        return tf.where(is_little, little, big)

    directory = start + number(start + 4, 4)
    entries = directory + 2 + 12 * tf.range(tf.minimum(number(directory, 2), 1000))
    is_found = tf.equal(number(entries, 2), _ORIENTATION) & tf.equal(number(entries + 2, 2), _SHORT)
    values = tf.boolean_mask(number(entries + 8, 2), is_found & tf.fill(tf.shape(entries), start > 0))
    value = tf.concat([values, [1]], 0)[0]
    return tf.where((value >= 1) & (value <= 8), value, tf.ones_like(value))


def _bytes(content):
    """Returns the first bytes of a file, and some zeros, int64."""
    data = tf.io.decode_raw(tf.strings.substr(content, 0, _SEARCHED), tf.uint8)
    return tf.pad(tf.cast(data, tf.int64), [[0, 32]])


def _end_of(text, data):
    """Returns the place after the first occurrence of some bytes; 0 if there is none."""
    count = tf.size(data) - len(text) + 1
    is_here = tf.reduce_all([tf.equal(data[i : count + i], byte) for i, byte in enumerate(text)], 0)
    return tf.concat([tf.where(is_here)[:, 0] + len(text), [0]], 0)[0]


def turn(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Makes a square image, [size, size, channels], of this EXIF orientation, int64, upright."""

    def turned():
        result = image
        for orientations, turn in _TURNS:
            applies = tf.reduce_any(tf.equal(orientation, tf.constant(orientations, tf.int64)))
            result = tf.where(applies, turn(result), result)
        return result

    return tf.cond(orientation > 1, turned, lambda: image)
