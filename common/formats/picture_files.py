"""Files of pictures as the examples of a split: kept if TensorFlow decodes them, converted to PNG otherwise."""

from collections.abc import Callable, Sequence
import functools
import os
import re
import threading
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.formats import images, masks
from estimator_trainer.common.formats.class_folders import ClassFolders

_MAX_LOGGED = 5


class FileList:
    """A list of pictures, in a file written immediately, so that an interrupted conversion can resume.

    Args:
      path: of the file. Its paths are relative to `root`, which may be moved; older versions wrote absolute ones.
      root: the directory of the pictures.
    """

    def __init__(self, path: str, root: str):
        self.path, self._root = path, root
        self._lock = threading.Lock()
        self._added: set[str] = set()

    def add(self, path: str, reason: str) -> None:
        line = ' '.join(f'{path}: {reason}'.splitlines())
        with self._lock:
            if line in self._added:  # Some pictures are read before the conversion, for their sizes.
                return
            self._added.add(line)
            with tf.io.gfile.GFile(self.path, 'ab') as file:
                file.write(os.fsencode(line) + b'\n')
            if len(self._added) <= _MAX_LOGGED:
                tf.logging.warning('%s', os.path.join(self._root, line))

    def lines(self) -> list[str]:
        """Returns the pictures with the reasons, sorted."""
        if not tf.io.gfile.exists(self.path):
            return []
        with tf.io.gfile.GFile(self.path, 'rb') as file:
            lines = map(os.fsdecode, file.read().splitlines())
        return sorted({line.removeprefix(os.path.join(self._root, '')) for line in lines})

    def paths(self) -> set[str]:
        """Returns the paths of the pictures, and other texts that are none."""
        return {line[: colon.start()] for line in self.lines() for colon in re.finditer(': ', line)}


class Pictures(Sequence):
    """The examples of a split for `records.write`, created on access; None for unreadable pictures."""

    def __init__(self, folders: ClassFolders, split: str, unreadable: FileList, dark: FileList):
        self._root = folders.root
        self._files = folders.splits[split]
        self._unreadable = unreadable
        self._dark = dark

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, i) -> Any:
        file = self._files[i]
        path = os.path.join(self._root, file.path)
        try:
            picture = read_picture(path, lambda text: self._dark.add(file.path, text))
        except images.ImageError as error:
            self._unreadable.add(file.path, str(error))
            return None
        if not file.mask:
            return {**picture, 'label': file.label, 'id': os.fsencode(file.path)}
        try:
            mask = masks.read_mask(os.path.join(self._root, file.mask), *masks.upright_size(picture))
        except images.ImageError as error:
            self._unreadable.add(file.mask, str(error))
            return None
        return {**picture, **masks.to_record(mask), 'id': os.fsencode(file.path), 'mask_id': os.fsencode(file.mask)}


def read_picture(path: str, on_dark: Callable[[str], None]) -> dict[str, Any]:
    """Returns {'image': a JPEG or PNG file that TensorFlow decodes, 'height', 'width', 'orientation'}; raises ImageError.

    Calls on_dark with a text if a picture of 16 bits is left black, or nearly so.

    Keeps JPEG and PNG files that TensorFlow decodes; converts others to PNG. The orientation is the EXIF orientation of the
    kept file: rotating it here would turn a JPEG file into a PNG file of five times the size.
    """
    content = images.read(path)
    picture = images.decode(content)
    orientation = images.orientation(picture)
    maximum = images.max_of_dark(picture)
    if maximum is not None:
        on_dark(f'has 16 bits, but no value above {maximum} of 65535')
    if not _is_kept(content, picture):
        picture, orientation = images.normalize(picture), 1
        content = images.to_png(picture)
    return {'image': content, 'height': picture.height, 'width': picture.width, 'orientation': orientation}


def to_kept_file(content: bytes) -> bytes:
    """Returns a picture file as `read_picture` keeps it, not turned; raises ImageError."""
    picture = images.decode(content)
    return content if _is_kept(content, picture) else images.to_png(images.normalize(picture))


def _is_kept(content, picture):
    return images.is_plain(content, picture) and _decodes(content)


def _decodes(content):
    try:
        _decoder()(content)
        return True
    except (tf.errors.OpError, UnicodeDecodeError):
        return False


@functools.cache
def _decoder():
    """Returns a function that decodes an image file with TensorFlow; threads may share it."""
    with tf.Graph().as_default() as graph:
        content = tf.placeholder(tf.string, [])
        size = tf.size(decode(content, ratio=8, num_channels=3))
    return tf.Session(graph=graph).make_callable(size, [content])


def decode(content: Any, ratio: int, num_channels: int) -> tf.Tensor:
    """Returns an image file, string, as uint8 [height, width, num_channels], a JPEG file at 1 / ratio of its size."""
    # This op also decodes PNG files, always to their full size.
    return tf.io.decode_jpeg(content, channels=num_channels, ratio=ratio)
