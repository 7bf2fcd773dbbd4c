"""Facts about images in users' tf.train.Examples: encoded files or pixels, size, channels."""

from collections.abc import Mapping, Sequence
import io
import itertools
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.formats.images import orientation
from estimator_trainer.common.own_data.examples.image_formats import BMP, DECODED, GIF, PNG, format_of, is_decoded

AS_PICTURES = 2  # Of 1, or true, which older versions wrote, transparent GIF files are black.
_COLORED = (GIF, BMP)  # TensorFlow decodes these only in color.
_GRAY = ('1', 'L')  # Pillow's modes.
_WITH_ALPHA = (b'\x04', b'\x06')  # Color types of PNG.


def describe_images(name: str, images: Sequence[bytes], given: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Returns the given or actual 'size' and 'channels' of images, and whether they are pixels, 'is_raw'.

    If some are transparent, or turned by their EXIF data, 'is_picture' is AS_PICTURES: all are taken upright, on white.

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
    sizes, modes, have_alpha, are_turned = zip(*(_open(image, name, source) for image in images))
    size = given.get('size') or _find_size(name, sizes, source)
    channels = _find_channels(name, formats, modes, given.get('channels'), source)
    facts = {'size': size, 'channels': channels, 'is_raw': False}
    if channels == 4 or not (any(are_turned) or any(map(_is_transparent, itertools.compress(images, have_alpha)))):
        return facts
    return {**facts, **as_pictures(name, source)}


def as_pictures(name: str, source: str) -> dict[str, Any]:
    """Warns that images are taken as pictures, upright and on white, and returns this as a fact about them."""
    text = '%s: some of the images %s are transparent, or turned by EXIF data: they are taken upright, on white.'
    tf.logging.warning(text, source, name)
    return {'is_picture': AS_PICTURES}


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
            _, _, has_alpha, self.found = _open(image, '', '')
        except RunError:  # It is named when it is parsed.
            return
        if has_alpha and self._remaining and not self.found:
            self._remaining -= 1
            self.found = _is_transparent(image)


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


def _open(image, name, source):
    """Returns the size and mode of an image file, whether it has transparency data that count, and whether it is turned."""
    try:
        with Image.open(io.BytesIO(image)) as opened:  # Reads only its header.
            is_png = opened.format == PNG
            # Pillow decodes a PNG to find EXIF data at its end.
            is_turned = (not is_png or b'eXIf' in image) and orientation(opened) != 1
            may_be_transparent = opened.format in (PNG, GIF) and opened.has_transparency_data
            return opened.size, opened.mode, may_be_transparent, is_turned
    except UnidentifiedImageError:
        raise RunError(f'{source}: the image {name} is not an image of a kind that Pillow reads') from None
    except Exception as error:  # Pillow raises errors of many types.
        raise RunError(f'{source}: the image {name} cannot be read: {error}') from None


def _is_transparent(image):
    """Whether a pixel of an image file is; a damaged one is named when it is parsed."""
    try:
        with Image.open(io.BytesIO(image)) as opened:
            return np.asarray(opened.convert('RGBA'))[..., 3].min() < 255
    except Exception:  # As in `_open`.
        return False
