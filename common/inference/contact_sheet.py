"""A picture of many predictions: the images in a grid, each with what was predicted."""

from collections.abc import Sequence
import io
import os
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
import tensorflow.compat.v1 as tf

from common.errors import UsageError
from common.files import write
from common.inference.prediction import Prediction
from common.ops import image_grid
from common.ops.images import enlarge, to_pil_images

_MAX_IMAGES = 100
_SIDE = 128  # Pixels of an image; larger ones are scaled down.
_LINE = 18


class ContactSheet:
    """Collects the first 100 predictions of images, and saves them as one PNG file.

    Args:
      path: of the file.
      class_names: the names of the classes, if known.

    Raises:
      UsageError: there is no such directory.
    """

    def __init__(self, path: str, class_names: Sequence[str] | None = None):
        directory = os.path.dirname(path) or '.'
        if not tf.io.gfile.isdir(directory):
            raise UsageError(f'--visualize={path}: there is no directory {directory}')
        self._path = path
        self._class_names = class_names
        self._tiles: list[np.ndarray] = []

    def add(self, prediction: Prediction) -> None:
        """Adds a prediction, unless there are 100.

        Raises:
          UsageError: it has no image.
        """
        if len(self._tiles) == _MAX_IMAGES:
            return
        image = prediction.image
        if image is None or image.ndim != 3 or image.shape[2] not in (1, 3):
            raise UsageError('--visualize: the dataset has no feature image of shape [height, width, 1 or 3]')
        self._tiles.append(_draw(image, _caption(prediction, self._class_names)))

    def save(self) -> None:
        content = io.BytesIO()
        Image.fromarray(image_grid.draw(np.stack(self._tiles), gap=6)[0]).save(content, 'png')
        write(self._path, content.getvalue())


def _caption(prediction: Prediction, class_names: Sequence[str] | None) -> list[str]:
    """Returns two lines: the class with its probability, or else the first predictions, and the name of the example."""
    values = prediction.to_json(list(class_names or ()))
    lines = [str(values[name]) for name in ('class_name', 'class') if name in values][:1]
    probabilities = prediction.values.get('probabilities')
    if lines and probabilities is not None and probabilities.ndim == 1:
        lines[0] += f' {100 * probabilities.max():.0f}%'
    if not lines:
        scalars = [(name, value) for name, value in values.items() if isinstance(value, (int, float, str))]
        lines = [f'{name} {value}' for name, value in scalars if name not in prediction.fields][:1]
    names = [str(value) for value in prediction.fields.values()]
    return [' '.join(line.split()) for line in [*lines, *(os.path.basename(name) for name in names[:1])]]


def _draw(image: np.ndarray, lines: list[str]) -> np.ndarray:
    """Returns uint8 [_SIDE + 2 lines, _SIDE, 3]."""
    canvas = Image.new('RGB', (_SIDE, _SIDE + 2 * _LINE), 'white')
    (picture,) = to_pil_images(image[None])
    picture = enlarge(picture, _SIDE // 2)
    picture.thumbnail((_SIDE, _SIDE))
    canvas.paste(picture, ((_SIDE - picture.width) // 2, (_SIDE - picture.height) // 2))
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(13)
    for i, line in enumerate(lines[:2]):
        pen.text((2, _SIDE + i * _LINE), _fit(line, pen, font), fill='black' if i == 0 else 'gray', font=font)
    return np.asarray(canvas)


def _fit(text: str, pen: Any, font: Any) -> str:
    """Shortens a text from its beginning until it fits into a tile."""
    while pen.textlength(text, font=font) > _SIDE - 4:
        text = '…' + text[2:]
    return text
