"""Pictures of a Python program: paths, contents of files, PIL images, or arrays of any size."""

from collections.abc import Callable, Mapping
import io
import os
import re
import tempfile
from typing import Any

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError, describe, in_one_line
from estimator_trainer.common.formats import images
from estimator_trainer.common.inference.arrays import cast
from estimator_trainer.common.pipeline.data_source import DataSource

_PIXELS = tf.TensorSpec(None, tf.uint8)


class PictureError(Exception):
    """A value is not a picture. The message gives the reason, to follow its number."""


def to_file(value: Any) -> bytes:
    """Returns a picture as the content of an image file.

    Args:
      value: a path, the content of an image file, a PIL image, or uint8 [height, width] or [height, width, 1, 3 or 4].

    Raises:
      PictureError: it is none of these, or cannot be read.
    """
    try:
        if isinstance(value, (str, os.PathLike)):
            value = images.read(os.path.expanduser(os.fspath(value)))
        if isinstance(value, bytes):
            images.decode(value)
            return value
        return images.to_png(images.normalize(value if isinstance(value, Image.Image) else _of_pixels(value)))
    except images.ImageError as error:
        raise PictureError(str(error)) from None


def to_plain_file(value: Any) -> bytes:
    """Returns a picture, as in `to_file`, as a file that TensorFlow decodes alike; the content of a file is left as it is."""
    content = to_file(value)
    if isinstance(value, bytes):
        return content
    picture = images.decode(content)
    is_plain = images.is_plain(content, picture) and images.orientation(picture) == 1
    return content if is_plain else images.to_png(images.normalize(picture))


def named(number: int, value: Any) -> str:
    """Returns what a message calls one of several pictures: its number and, if it is a path, this."""
    return (
        f'picture {number}, {in_one_line(os.fsdecode(value))},'
        if isinstance(value, (str, os.PathLike))
        else f'picture {number}'
    )


def count_pixels(content: bytes) -> int:
    """Returns the number of pixels that the head of an image file declares; 0 if it is none."""
    try:
        width, height = Image.open(io.BytesIO(content)).size
    except Image.DecompressionBombError as error:  # "Image size (N pixels) exceeds limit".
        return int(re.search(r'\d+', str(error))[0])  # type: ignore[index]
    except Exception:  # Pillow raises errors of many types; `to_file` explains them.
        return 0
    return width * height


def _of_pixels(value):
    pixels = np.asarray(value)
    is_gray = pixels.ndim == 2 or pixels.ndim == 3 and pixels.shape[2] == 1
    if (
        pixels.dtype.kind not in 'biuf'
        or not pixels.size
        or not is_gray
        and (pixels.ndim != 3 or pixels.shape[2] not in (3, 4))
    ):
        raise PictureError(f'must be a path, bytes, a PIL image or pixels [height, width, 1 or 3], not {describe(value)}')
    try:
        pixels = cast('image', _PIXELS, pixels)
    except ValueError as error:
        raise PictureError(f'must have pixels from 0 to 255: {error}') from None
    return Image.fromarray(pixels[..., 0] if pixels.ndim == 3 and is_gray else pixels)


def batch_maker(source: DataSource) -> Callable[[Any], tuple[dict[str, np.ndarray], bool]]:
    """Returns a function from pictures to a batch for a Predictor of a dataset module with `image_features`.

    It takes one picture or several: a list, or an array [batch, height, width, channels], perhaps in a dict as its only item.
    Arrays of the dataset's own size are {'image': uint8 [batch, image_size, image_size, num_channels]}, as are others, resized,
    unless the module has `read_input`: they are {'examples': string [batch]} then, read as files of --input.

    Raises:
      ValueError: something is not a picture.
    """
    shape, reads_input = tuple(source.image_shape()), source.reads_input()
    spec = tf.TensorSpec([None, *shape], tf.uint8)

    def make_batch(inputs):
        value = listed(_unwrapped(inputs))
        array = _pixels_of(value)
        value = value if array is None else array
        if array is not None and array.shape[-3:] == shape and array.ndim in (3, 4):
            pixels, records = cast('image', spec, array if array.ndim == 4 else array[None]), np.zeros(0, object)
            is_single = array.ndim == 3
        else:
            is_single = not isinstance(value, (list, tuple)) and (array is None or array.ndim < 4)
            items = [value] if is_single else [_unwrapped(item) for item in value]
            found = [_prepared(source, number, item) for number, item in enumerate(items)]
            pixels = np.zeros([0, *shape], np.uint8) if reads_input else np.array(found, np.uint8).reshape([-1, *shape])
            records = np.array(found if reads_input else [], object)
        return {'image': pixels, **({'examples': records} if reads_input else {})}, is_single

    return make_batch


def listed(value: Any) -> Any:
    """Returns a column of paths, or of other objects, of NumPy, pandas, polars or Arrow as a list; any other value as it is."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim == 1 and value.dtype.kind in 'OSU' else value
    to_list = getattr(value, 'to_list', None) or getattr(value, 'to_pylist', None)
    return to_list() if callable(to_list) else value


def _unwrapped(value):
    """Returns the only item of a dict, or any other value."""
    if isinstance(value, Mapping) and len(value) == 1:
        return next(iter(value.values()))
    return value


def _pixels_of(value):
    """Returns nested lists of numbers, a tensor, or a list of arrays of one size as an array; None for anything else."""
    if isinstance(value, (str, bytes, os.PathLike, Image.Image)):
        return None
    are_arrays = isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], np.ndarray)
    if isinstance(value, (list, tuple)) and not are_arrays and not (value and isinstance(value[0], (list, tuple))):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # Of different sizes.
        return None
    if are_arrays and array.ndim != 4:  # Each is a picture.
        return None
    return array if array.dtype.kind in 'biuf' else None


def _prepared(source, number, value):
    """Returns a picture as a record of `read_input`, if the module has it, else as pixels."""
    try:
        content = to_file(value)
        if not source.reads_input():
            return images.to_pixels(images.decode(content), source.params.image_size, source.params.num_channels)
        return _record(source, content)
    except (PictureError, images.ImageError) as error:
        raise ValueError(f'{named(number, value)} {error}') from None


def _record(source, content):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'picture.png')  # Whatever its kind is.
        with open(path, 'wb') as file:
            file.write(content)
        try:
            ((_, record),) = source.module.read_input(path, source.params)
        except (RunError, UsageError) as error:
            record = error
    if isinstance(record, Exception):
        raise PictureError(str(record).removeprefix(path).removeprefix(':').strip())
    return record
