"""Facts about images in users' tf.train.Examples: encoded files or pixels, size, channels."""

from collections.abc import Mapping, Sequence
import io
from typing import Any

from PIL import Image, UnidentifiedImageError

from estimator_trainer.common.errors import RunError, UsageError

_JPEG, _PNG, _GIF, _BMP = _MAGIC = (b'\xff\xd8\xff', b'\x89PNG', b'GIF8', b'BM')
_COLORED = (_GIF, _BMP)  # TensorFlow decodes these only in color.
_GRAY = ('1', 'L')  # Pillow's modes.


def is_file(value: bytes) -> bool:
    """Whether a value begins like an image file that TensorFlow decodes."""
    return value.startswith(_MAGIC)


def describe_images(name: str, images: Sequence[bytes], given: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Returns the given or actual 'size' and 'channels' of images, and whether they are pixels, 'is_raw'.

    Raises:
      UsageError: the schema contradicts the images, or is required.
      RunError: an image cannot be decoded.
    """
    empty = sum(not image for image in images)
    if empty:
        raise RunError(f'{source}: the image {name} is empty in {empty} of the first {len(images)} examples that have it')
    if not all(map(is_file, images)):
        return _describe_pixels(name, images, given, source)
    sizes, modes = zip(*(_open(image, name, source) for image in images))
    size = given.get('size') or _find_size(name, sizes, source)
    channels = _find_channels(name, images, modes, given.get('channels'), source)
    if any(image.startswith(_BMP) and mode in (*_GRAY, 'P') for image, mode in zip(images, modes)):
        raise RunError(f'{source}: the image {name} is a BMP file, gray or with a palette, which cannot be decoded: use PNG')
    return {'size': size, 'channels': channels, 'is_raw': False}


def _describe_pixels(name, images, given, source):
    lengths = {len(image) for image in images}
    size, channels = given.get('size'), given.get('channels') or 1
    if not size or lengths != {size * size * channels}:
        raise UsageError(
            f'{source}: the images {name} are of {min(lengths)} to {max(lengths)} bytes, neither JPEG, PNG, GIF nor BMP: '
            'give their "size" and "channels" in the schema, if they are pixels'
        )
    return {'size': size, 'channels': channels, 'is_raw': True}


def _find_size(name, sizes, source):
    width, height = sizes[0]
    if len(set(sizes)) > 1 or width != height:
        raise UsageError(f'{source}: the images {name} are of different sizes, or not square: give a "size" in the schema')
    return width


def _find_channels(name, images, modes, given, source):
    is_colored = any(image.startswith(_COLORED) for image in images)
    known = (3,) if is_colored else (1, 3, 4)
    channels = given or (1 if {*modes} <= {*_GRAY} and not is_colored else 3)
    if channels not in known:
        kinds = 'GIF and BMP files are' if is_colored else 'an image file is'
        wanted = ' or '.join(map(str, known))
        raise UsageError(f'{source}: {channels} channels of the image {name}: {kinds} decoded to {wanted} channels')
    return channels


def _open(image, name, source):
    try:
        with Image.open(io.BytesIO(image)) as opened:  # Reads only its header.
            return opened.size, opened.mode
    except UnidentifiedImageError:
        raise RunError(f'{source}: the image {name} is not an image of a kind that Pillow reads') from None
    except Exception as error:  # Pillow raises errors of many types.
        raise RunError(f'{source}: the image {name} cannot be read: {error}') from None
