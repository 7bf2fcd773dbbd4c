"""A contact sheet: a grid of images, each with its prediction, and with its class if that is wrong."""

from collections.abc import Sequence
import io
import os
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import write
from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.ops.images import RIGHT, WRONG, class_text, draw_grid, shorten, to_pil_images
from estimator_trainer.common.ops.segmentation import overlay
from estimator_trainer.common.plugins.dataset_contract import EXAMPLE_ID
from estimator_trainer.common.unicode_forms import composed

MAX_IMAGES = 100
_SIDE = 128  # Pixels of an image; larger ones are scaled down.
_FRAME = 4
_LINE = 17
_LARGEST = 2  # Classes of a mask that a caption names.
_GRAY = (110, 110, 110)


class _Tile(NamedTuple):
    image: np.ndarray
    predicted: str
    probability: str  # Of the prediction, if known.
    label: str  # The class, if the prediction is wrong.
    is_right: bool | None  # None if the class is unknown.
    name: str


class ContactSheet:
    """Collects the first MAX_IMAGES predictions of images and saves them as one PNG file.

    Wrong predictions have a red frame, and their class in the caption. The class is the label, or that after which a file's
    folder is named. Pictures with a predicted mask are tinted by it.

    Args:
      class_names: the names of the classes, if known; else their numbers are shown.
      label_names: those of labels that apply or not, of which the sheet then shows the predicted ones.

    Raises:
      UsageError: there is no such directory.
    """

    def __init__(self, path: str, class_names: Sequence[str] | None = None, label_names: Sequence[str] = ()):
        directory = os.path.dirname(path) or '.'
        if not tf.io.gfile.isdir(directory):
            raise UsageError(f'--visualize={path}: there is no directory {directory}')
        self._path = path
        self._class_names = class_names
        self._label_names = label_names
        self._tiles: list[_Tile] = []

    def add(self, prediction: Prediction) -> None:
        """Adds a prediction, unless there are MAX_IMAGES.

        Raises:
          UsageError: it has no image.
        """
        if len(self._tiles) == MAX_IMAGES:
            return
        image = prediction.image
        if image is None or image.ndim != 3 or image.shape[2] not in (1, 3):
            raise UsageError('--visualize: the dataset has no feature image of shape [height, width, 1 or 3]')
        number, label = _class_of(prediction.values.get('class')), _class_of(prediction.label)
        if self._label_names:
            found = prediction.to_json(label_names=self._label_names)
            predicted, label = found['predicted'], found.get('label')
            is_right = None if label is None else predicted == label
            shown = '' if is_right in (None, True) else _listed(label)
            tile = _Tile(image, _listed(predicted), '', shown, is_right, _name(prediction, len(self._tiles)))
        elif (classes := prediction.values.get('class')) is not None and np.ndim(classes) == 2:
            name, shown = _name(prediction, len(self._tiles)), _largest(classes, self._class_names)
            tile = _Tile(overlay(image, classes), shown, '', '', None, name)
        elif number is None:
            tile = _Tile(image, _first_value(prediction), '', '', None, _name(prediction, len(self._tiles)))
        else:
            label = _folder_label(prediction, self._class_names) if label is None else label
            probabilities: Any = prediction.values.get('probabilities')
            is_known = probabilities is not None and probabilities.ndim == 1 and number < len(probabilities)
            tile = _Tile(
                image,
                class_text(number, self._class_names),
                f' {100 * probabilities[number]:.0f}%' if is_known else '',
                '' if label in (None, number) else class_text(label, self._class_names),
                None if label is None else label == number,
                _name(prediction, len(self._tiles)),
            )
        self._tiles.append(tile)

    def save(self) -> None:
        """Writes the file."""
        num_lines = 3 if any(tile.label for tile in self._tiles) else 2
        grid = draw_grid(np.stack([_draw(tile, num_lines) for tile in self._tiles]), gap=8)[0]
        height, width = grid.shape[:2]
        sheet = Image.new('RGB', (width + 16, height + 16), 'white')
        sheet.paste(Image.fromarray(grid), (8, 8))
        content = io.BytesIO()
        sheet.save(content, 'png')
        write(self._path, content.getvalue())


def _listed(labels):
    return ', '.join(labels) or 'none'


def _largest(classes, class_names):
    """Returns the classes of most pixels of a mask with their shares; 0, mostly the background, only if it is alone."""
    numbers, counts = np.unique(classes, return_counts=True)
    order = [i for i in np.argsort(-counts) if numbers[i] or len(numbers) == 1][:_LARGEST]
    return ', '.join(f'{class_text(numbers[i], class_names)} {100 * counts[i] / classes.size:.0f}%' for i in order)


def _class_of(value):
    """Returns a class, a NumPy scalar, as its number; None for any other value."""
    return int(value) if value is not None and np.ndim(value) == 0 and np.asarray(value).dtype.kind in 'iu' else None


def _first_value(prediction):
    """Returns name and value of the first prediction that is a number or text."""
    values = Prediction({}, prediction.values).to_json()
    scalars = [(name, value) for name, value in values.items() if isinstance(value, (int, float, str))]
    return ' '.join(f'{name} {f"{value:.4g}" if isinstance(value, float) else value}' for name, value in scalars[:1])


def _name(prediction, position):
    """Returns the id of an example, its file and position there, or its position in the split."""
    fields = prediction.fields
    if EXAMPLE_ID in fields:
        return os.path.basename(str(fields[EXAMPLE_ID]))
    if 'input' not in fields:
        return f'example {fields.get("example", position)}'
    return ' '.join(os.path.basename(str(value)) for value in fields.values())


def _folder_label(prediction, class_names):
    """Returns the class named by a file's folder, or None."""
    folder = os.path.basename(os.path.dirname(str(prediction.fields.get('input', ''))))
    probabilities = prediction.values.get('probabilities', np.zeros(0))
    names = [*map(composed, class_names or map(str, range(probabilities.size)))]
    return names.index(composed(folder)) if composed(folder) in names else None


def _draw(tile: _Tile, num_lines: int) -> np.ndarray:
    """Returns uint8 [height, width, 3], of one size for all tiles."""
    side = _SIDE + 2 * _FRAME
    canvas = Image.new('RGB', (side, side + num_lines * _LINE + 2), 'white')
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(13)
    (picture,) = to_pil_images(tile.image[None])
    scale = _SIDE / max(picture.size)
    # Small images keep visible pixels.
    scale, method = (int(scale), Image.Resampling.NEAREST) if scale >= 1 else (scale, Image.Resampling.LANCZOS)
    picture = picture.resize([max(1, round(length * scale)) for length in picture.size], method)
    left, top = (side - picture.width) // 2, (side - picture.height) // 2
    if tile.is_right is False:
        box = (left - _FRAME, top - _FRAME, left + picture.width + _FRAME - 1, top + picture.height + _FRAME - 1)
        pen.rectangle(box, fill=WRONG)
    canvas.paste(picture, (left, top))
    color = {None: (0, 0, 0), True: RIGHT, False: WRONG}[tile.is_right]
    lines = [(tile.predicted, tile.probability, color), (tile.name, '', _GRAY)]
    if tile.label:
        lines.insert(1, (f'label {tile.label}', '', WRONG))
    for i, (line, end, color) in enumerate(lines):
        text = shorten(' '.join(line.split()), side - font.getlength(end), font) + end
        pen.text((side / 2, side + (i + 0.5) * _LINE), text, fill=color, font=font, anchor='mm')
    return np.asarray(canvas)
