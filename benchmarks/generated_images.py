"""Generates pictures of geometric shapes in files of many kinds, in a folder per class, five in all.

    python -m benchmarks.generated_images DIRECTORY COUNT

Shapes vary in color, size, position and angle, backgrounds in color, gradient and noise, files in format, size and mode.
"""

from collections.abc import Callable
import math
import os
import sys
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageDraw

_SIDES = (60, 320)  # Of a picture, in pixels.
_SCALE = 2  # Shapes are drawn larger, for smooth edges.


def _polygon(radii, angle):
    """Returns the corners of a polygon around the origin."""
    angles = angle + 2 * math.pi * np.arange(len(radii)) / len(radii)
    return np.stack([np.cos(angles), np.sin(angles)], 1) * np.asarray(radii)[:, None]


def _plus(angle):
    corners = np.array([(1, 0.35), (0.35, 0.35), (0.35, 1), (-0.35, 1), (-0.35, 0.35), (-1, 0.35)]) * 0.94
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return np.concatenate([corners, -corners]) @ turn


SHAPES: dict[str, Callable[[float], np.ndarray]] = {
    'circle': lambda angle: _polygon([1] * 60, angle),
    'plus': _plus,
    'square': lambda angle: _polygon([1] * 4, angle),
    'star': lambda angle: _polygon([1, 0.45] * 5, angle),
    'triangle': lambda angle: _polygon([1] * 3, angle),
}


def draw(shape: str, random: np.random.RandomState) -> Image.Image:
    """Returns a random picture of a shape, in RGB."""
    width, height = size = random.randint(*_SIDES, 2)
    width, height = size = np.clip(size, max(size) // 2, None)  # At most twice as wide as high.
    radius = random.uniform(0.2, 0.45) * min(size)
    center = [random.uniform(radius, side - radius) for side in size]
    mask = Image.new('L', (width * _SCALE, height * _SCALE))
    corners = (SHAPES[shape](random.uniform(0, 2 * math.pi)) * radius + center) * _SCALE
    ImageDraw.Draw(mask).polygon([tuple(corner) for corner in corners], 255)
    share = np.asarray(mask.resize((width, height), Image.Resampling.BOX), np.float32)[:, :, None] / 255

    color, *background = random.uniform(0, 255, [3, 3])
    while abs((color - background) @ [0.299, 0.587, 0.114]).min() < 50:  # Also distinct in gray.
        color = random.uniform(0, 255, 3)
    ramp = np.linspace(0, 1, width, dtype=np.float32)[:, None]
    pixels = share * color + (1 - share) * (ramp * background[0] + (1 - ramp) * background[1])
    pixels = pixels + random.normal(0, random.uniform(0, 20), pixels.shape)
    return Image.fromarray(np.uint8(np.clip(pixels, 0, 255)))


def _rotated(picture):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    return picture.transpose(Image.Transpose.ROTATE_90), {'exif': exif}


def _transparent(picture):
    picture.putalpha(230)
    return picture, {}


# Ways of saving pictures: (suffix, function from a picture to the image and options to save).
KINDS: tuple[tuple[str, Callable[[Image.Image], tuple[Image.Image, dict[str, Any]]]], ...] = (
    ('.jpg', lambda picture: (picture, {'quality': 85})),
    ('.jpg', lambda picture: (picture, {'quality': 60, 'progressive': True})),
    ('.jpeg', _rotated),
    ('.JPG', lambda picture: (picture.convert('L'), {})),
    ('.jpg', lambda picture: (picture.convert('CMYK'), {})),
    ('.png', lambda picture: (picture, {})),
    ('.png', lambda picture: (picture.convert('P'), {})),
    ('.png', _transparent),
    ('.webp', lambda picture: (picture, {})),
    ('.bmp', lambda picture: (picture, {})),
    ('.gif', lambda picture: (picture, {})),
)


def generate(directory: str, count: int, seed: int = 1) -> None:
    """Writes `count` pictures as DIRECTORY/CLASS/NUMBER.SUFFIX, cycling through classes and kinds."""
    random = np.random.RandomState(seed)
    names = list(SHAPES)
    for name in names:
        os.makedirs(os.path.join(directory, name), exist_ok=True)
    for i in range(count):
        name = names[i % len(names)]
        suffix, convert = KINDS[i // len(names) % len(KINDS)]
        picture, options = convert(draw(name, random))
        picture.save(os.path.join(directory, name, f'{i:05d}{suffix}'), **options)


if __name__ == '__main__':
    generate(sys.argv[1], int(sys.argv[2]))
