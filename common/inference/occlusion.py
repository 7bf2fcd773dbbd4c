"""Explains predictions by occlusion: how the probability of a class falls without a word, or behind a patch of a picture.

(M. Zeiler, R. Fergus: Visualizing and Understanding Convolutional Networks, 2014.)
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from estimator_trainer.common.ops.images import to_pil_images

GRID = 8  # Patches per side.
_LEAST = 0.01  # A fall of the probability by less is none.
_TINT, _STRENGTH = (255, 96, 0), 0.65
_ROWS, _COLUMNS = ('upper', 'middle', 'lower'), ('left', 'center', 'right')


def without_each(words: Sequence[str], count: int | None = None) -> list[str]:
    """Returns a text for each of the first `count` words: the others."""
    return [' '.join([*words[:i], *words[i + 1 :]]) for i in range(len(words))[:count]]


def behind_patches(image: np.ndarray) -> np.ndarray:
    """Returns copies of an image [height, width, channels], [GRID * GRID, ...]: each with one patch of its mean color."""
    copies = np.repeat(image[None], GRID * GRID, axis=0)
    mean = image.mean(axis=(0, 1)).astype(image.dtype)
    tops, lefts = (np.linspace(0, size, GRID + 1).astype(int) for size in image.shape[:2])
    for i, copy in enumerate(copies):
        row, column = divmod(i, GRID)
        copy[tops[row] : tops[row + 1], lefts[column] : lefts[column + 1]] = mean
    return copies


def weights(whole: float, parts: np.ndarray, least: float = _LEAST) -> np.ndarray:
    """Returns by how much the probability falls without each part, float [n], as a share of the largest fall; 0 where it rises.

    Args:
      whole: the probability, or another number, with all parts.
      parts: float [n], without each.
      least: a fall by less is none.
    """
    falls = np.maximum(whole - parts, 0)
    most = falls.max(initial=0)
    return falls / most if most and most >= least else np.zeros(len(parts))


def tinted(image: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """Returns an image [height, width, 1 or 3], uint8 or float in [0, 1], as uint8 RGB, tinted by weights [GRID * GRID]."""
    (picture,) = to_pil_images(image[None])
    grid = Image.fromarray(np.uint8(heat.reshape(GRID, GRID) * 255 * _STRENGTH))
    tint = Image.new('RGB', picture.size, _TINT)
    return np.asarray(Image.composite(tint, picture, grid.resize(picture.size, Image.Resampling.BILINEAR)))


def strongest(heat: np.ndarray) -> str:
    """Returns where in a picture the largest weight is, such as 'upper left'; '' if all are 0."""
    if not heat.any():
        return ''
    row, column = (3 * place // GRID for place in divmod(int(heat.argmax()), GRID))
    return 'center' if row == column == 1 else f'{_ROWS[row]} {_COLUMNS[column]}'
