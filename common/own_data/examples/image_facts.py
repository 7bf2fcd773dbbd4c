"""Facts about images in users' tf.train.Examples: encoded files or pixels, size, channels."""

from collections.abc import Mapping, Sequence
import io
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.formats.images import orientation
from estimator_trainer.common.own_data.examples.image_formats import BMP, DECODED, GIF, PNG, format_of, is_decoded

AS_PICTURES = 2  # Of 1, or true, which older versions wrote, transparent GIF files are black.
_COLORED = (GIF, BMP)  # TensorFlow decodes these only in color.
_GRAY = ('1', 'L')  # Pillow's modes.
_WITH_ALPHA = (b'\x04', b'\x06')  # Color types of PNG.


def describe_images(name: str, images: Sequence[bytes], given: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Returns the given or actual 'size' and 'channels' of images, and whether they are pixels, 'is_raw'.

    Raises:
      UsageError: the schema contradicts the images, or is required.
      RunError: an image cannot be decoded.
    """
    empty = sum(not image for image in images)
    if empty:
        raise RunError(f'{source}: the image {name} is empty in {empty} of the first {len(images)} examples that have it')
    formats = [format_of(image) for image in images]
    if not all(name in DECODED for name in formats):
        if given.get('size') and _are_pixels(images, given) or not any(formats):
            return _describe_pixels(name, images, given, source)
        wrong = [image for image in images if not is_decoded(image)]
        raise RunError(f'{source}: {explain(name, wrong[0])}; so are {len(wrong)} of the first {len(images)}')
    sizes, modes = zip(*(_size_and_mode(image, name, source) for image in images))
    size = given.get('size') or _find_size(name, sizes, source)
    return {'size': size, 'channels': _find_channels(name, formats, modes, given.get('channels'), source), 'is_raw': False}


def may_be_picture(feature: Mapping[str, Any]) -> bool:
    """Whether the images of a feature are files that are not yet known to be taken as pictures, but would be."""
    return not feature['is_raw'] and feature['channels'] != 4 and 'is_picture' not in feature


class PictureSearch:
    """Looks for an image that is transparent, or turned by its EXIF data, among those of a split; found is whether one is.

    Args:
      most: of those that may be transparent, how many are decoded.
    """

    def __init__(self, most: int) -> None:
        self.found = False
        self._remaining = most

    def add(self, image: bytes) -> None:
        """Looks at an image file of a format that TensorFlow decodes."""
        if self.found or not _is_doubtful(image):
            return
        try:
            with Image.open(io.BytesIO(image)) as opened:
                is_png = opened.format == PNG
                # Pillow decodes a PNG to find EXIF data at its end.
                self.found = (not is_png or b'eXIf' in image) and orientation(opened) != 1
                has_alpha = opened.format in (PNG, GIF) and opened.has_transparency_data
                if has_alpha and self._remaining and not self.found:
                    self._remaining -= 1
                    self.found = bool(np.asarray(opened.convert('RGBA'))[..., 3].min() < 255)
        except Exception:  # Pillow raises errors of many types; the parser names a damaged image.
            return


def _is_doubtful(image):
    """Whether the bytes of an image file leave it open whether it is transparent, or turned: much faster than Pillow."""
    kind = format_of(image)
    if kind == PNG:
        return image[25:26] in _WITH_ALPHA or b'tRNS' in image or b'eXIf' in image
    return kind == GIF or b'Exif\0\0' in image


def explain(name: str, content: bytes) -> str:
    """Explains why an image cannot be decoded: its format, and the cure."""
    found = format_of(content)
    kind = f'a file of {found}, which TensorFlow does not decode' if found else 'neither JPEG, PNG, GIF nor BMP'
    return f'the image {name} is {kind}: write PNG or JPEG, or ignore the feature in --hparams=schema=FILE'


def _are_pixels(images, given):
    return {len(image) for image in images} == {given['size'] ** 2 * (given.get('channels') or 1)}


def _describe_pixels(name, images, given, source):
    lengths = {len(image) for image in images}
    size, channels = given.get('size'), given.get('channels') or 1
    if not size or not _are_pixels(images, given):
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


def _find_channels(name, formats, modes, given, source):
    is_colored = any(kind in _COLORED for kind in formats)
    known = (3,) if is_colored else (1, 3, 4)
    channels = given or (1 if {*modes} <= {*_GRAY} and not is_colored else 3)
    if channels not in known:
        kinds = 'GIF and BMP files are' if is_colored else 'an image file is'
        wanted = ' or '.join(map(str, known))
        raise UsageError(f'{source}: {channels} channels of the image {name}: {kinds} decoded to {wanted} channels')
    return channels


def _size_and_mode(image, name, source):
    try:
        with Image.open(io.BytesIO(image)) as opened:  # Reads only its header.
            return opened.size, opened.mode
    except UnidentifiedImageError:
        raise RunError(f'{source}: the image {name} is not an image of a kind that Pillow reads') from None
    except Exception as error:  # As in `PictureSearch`.
        raise RunError(f'{source}: the image {name} cannot be read: {error}') from None
