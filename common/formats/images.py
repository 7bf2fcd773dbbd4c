"""Image files decoded by Pillow, upright, with 8 bits, without transparency; resizing in TensorFlow and Pillow."""

import contextlib
import importlib
import io

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from estimator_trainer.common.files import MAX_BYTES, check_readable
from estimator_trainer.common.formats.image_kinds import describe_kind, is_heif
from estimator_trainer.common.paths import is_remote

FORMATS = ('AVIF', 'BMP', 'GIF', 'HEIF', 'JPEG', 'PNG', 'TIFF', 'WEBP')  # Pillow's names; HEIF by the package pillow-heif.
SUFFIXES = ('.avif', '.bmp', '.gif', '.heic', '.heif', '.jfif', '.jpe', '.jpeg', '.jpg', '.png', '.tif', '.tiff', '.webp')
_IN_GRAPHS = ('JPEG', 'MPO', 'PNG', 'WEBP')
_MODES = ('1', 'L', 'LA', 'La', 'P', 'PA', 'RGB', 'RGBA', 'RGBX', 'RGBa', 'CMYK', 'YCbCr')
_DARK = 4096  # Of 65536: a 16th of the brightness, at most 16 levels of 256.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class ImageError(Exception):
    """A file is not a readable image. The message gives the reason, to follow the file's path."""


def read(path: str) -> bytes:
    """Returns the content of a file, local or remote.

    Raises:
      ImageError: it cannot be read, or is no file, or of more than 1 GiB.
    """
    try:
        check_readable(path, MAX_BYTES)
        with tf.io.gfile.GFile(path, 'rb') if is_remote(path) else open(path, 'rb') as file:
            return file.read()
    except OSError as error:
        raise ImageError(f'cannot be read: {error.strerror}') from None
    except tf.errors.OpError as error:
        raise ImageError(f'cannot be read: {error.message}') from None


def decode(content: bytes) -> Image.Image:
    """Decodes an image completely, by its content, whatever its name; of an animation or of several pages, the first.

    Only those of FORMATS: for an EPS file, for example, Pillow would run the PostScript program that it is.

    Raises:
      ImageError: it has another format, or one that this Pillow lacks, is corrupt or truncated, or so large that it may be a
        decompression bomb; the message names the format, where it is known.
    """
    _register(content)
    try:
        image = Image.open(io.BytesIO(content), formats=[name for name in FORMATS if name in Image.OPEN])
        image.load()
    except UnidentifiedImageError:
        raise ImageError(describe_kind(content) or 'is not an image of a kind that Pillow reads') from None
    except Image.DecompressionBombError:
        raise ImageError(f'has more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels: scale it down') from None
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises errors of many types if an image is corrupt.
        raise ImageError(f'is not an image that can be read: {error}') from None
    return image


def _register(content):
    """Lets Pillow know all its formats, and for a HEIC file that of the package pillow-heif, if it is installed."""
    Image.init()
    if is_heif(content):
        with contextlib.suppress(ImportError):
            importlib.import_module('pillow_heif').register_heif_opener()


def orientation(image: Image.Image) -> int:
    """Returns an image's EXIF orientation, 1 to 8; 1, which is upright, if it is absent or corrupt.

    Of the formats that `encoded` reads in graphs, no other that Pillow finds, as in XMP.
    """
    try:
        exif = Image.Exif() if image.format in _IN_GRAPHS else image.getexif()
        if image.format == 'PNG' and 'exif' not in image.info:
            image.load()  # It may be at the end.
        if image.format in _IN_GRAPHS:
            exif.load(image.info.get('exif', b''))
        value = exif.get(ExifTags.Base.Orientation, 1)
        return value if value in range(1, 9) else 1
    except Exception:  # As in `decode`.
        return 1


def upright(image: Image.Image) -> Image.Image:
    """Returns an image turned as its EXIF orientation says."""
    turn = _UPRIGHT.get(orientation(image))
    return image if turn is None else image.transpose(turn)


def normalize(image: Image.Image, num_channels: int = 0) -> Image.Image:
    """Returns an image upright, with 8 bits and without transparency.

    16 bits are scaled down, and transparent pixels are blended with white.

    Args:
      image: of any mode.
      num_channels: 1 for gray, 3 for RGB, 0 for gray if the image is, and for RGB otherwise.

    Raises:
      ImageError: its pixels are of 32 bits, or of another color space, or cannot be read.
    """
    try:
        image.load()  # Pillow turns TIFF files itself, but only now.
    except (OSError, SyntaxError, ValueError) as error:
        raise ImageError(f'is not an image that can be read: {error}') from None
    has_16_bits = _has_16_bits(image)  # By its format, which is lost when it is turned.
    if not has_16_bits and image.mode not in _MODES:
        raise ImageError(f'has pixels of the mode {image.mode}: save it with 8 or 16 bits, in gray or RGB')
    image = upright(image)
    if has_16_bits:
        image = Image.fromarray(np.uint8(np.asarray(image) >> 8))
    if image.has_transparency_data:
        image = image.convert('RGBA')
        image = Image.alpha_composite(Image.new('RGBA', image.size, 'white'), image)
    is_gray = num_channels == 1 or not num_channels and image.mode in ('1', 'L')
    return image.convert('L' if is_gray else 'RGB')


def _has_16_bits(image):
    # Older versions of Pillow read PNG files of 16 bits as 32 bits.
    return image.mode.startswith('I;16') or image.mode == 'I' and image.format == 'PNG'


def max_of_dark(image: Image.Image) -> int | None:
    """Returns the maximum of an image of 16 bits that `normalize` makes black, or nearly so; None for others."""
    if not _has_16_bits(image):
        return None
    maximum = int(np.asarray(image).max())
    return maximum if 0 < maximum < _DARK else None


def is_plain(content: bytes, image: Image.Image) -> bool:
    """Whether TensorFlow decodes an image file like Pillow, to 8 bits per channel; ignores the EXIF orientation."""
    if image.mode not in ('L', 'RGB') or image.has_transparency_data:
        return False
    if image.format == 'PNG':  # The byte is the bit depth.
        return content[24] == 8 and not getattr(image, 'is_animated', False)
    return image.format in ('JPEG', 'MPO')


def to_pixels(image: Image.Image, size: int, num_channels: int) -> np.ndarray:
    """Returns an image, normalized and squashed to a square, as uint8 [size, size, num_channels].

    Raises:
      ImageError: num_channels is neither 1 nor 3.
    """
    if num_channels not in (1, 3):
        raise ImageError(f'is gray or in color, not of {num_channels} channels')
    image = normalize(image, num_channels).resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(size, size, num_channels)


def squash(image: tf.Tensor, size: int) -> tf.Tensor:
    """Resizes an image to a square: averages pixels; enlarges small images bilinearly.

    Args:
      image: [height, width, channels], the number of channels known.
      size: of the square, in pixels.

    Returns:
      float32 [size, size, channels], in the range of the image.
    """
    # Takes a third of the time of tf.image.resize with antialias=True.
    resized = tf.cond(
        tf.reduce_all(tf.shape(image)[:2] >= size),
        lambda: tf.image.resize_area(image[None], [size, size]),
        lambda: tf2.image.resize(image[None], [size, size], antialias=True),
    )
    return tf.ensure_shape(resized[0], [size, size, image.shape[2]])


def to_png(image: Image.Image) -> bytes:
    """Returns an image as the content of a PNG file."""
    content = io.BytesIO()
    image.save(content, 'PNG', compress_level=1)  # A tenth larger than by default, in a quarter of the time.
    return content.getvalue()
