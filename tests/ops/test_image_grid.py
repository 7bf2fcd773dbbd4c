"""Grids of images."""

import io

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

from common.ops import image_grid
from common.training.parallel import make_parallel
from tests.evaluated import CPUS

IMAGES = np.random.RandomState(0).randint(0, 256, [5, 4, 6, 3]).astype(np.uint8)


def test_images_of_an_image_grid_stand_row_after_row_with_white_lines_between():
    (grid,) = image_grid.draw(IMAGES)
    assert grid.shape == (2 * 4 + 2, 3 * 6 + 2 * 2, 3)
    for i, image in enumerate(IMAGES):
        y, x = i // 3 * 6, i % 3 * 8
        np.testing.assert_array_equal(grid[y : y + 4, x : x + 6], image)
    assert (grid[4:6] == 255).all() and (grid[:, 6:8] == 255).all() and (grid[6:, 16:] == 255).all()


def test_columns_of_an_image_grid_may_be_given():
    (grid,) = image_grid.draw(IMAGES, columns=5)
    assert grid.shape == (4, 5 * 6 + 4 * 2, 3)
    np.testing.assert_array_equal(grid[:, 32:], IMAGES[4])


def test_an_image_grid_takes_grey_and_float_images():
    grey = IMAGES[:, :, :, :1]
    np.testing.assert_array_equal(image_grid.draw(grey)[0, :4, :6], np.repeat(grey[0], 3, axis=2))
    shades = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    for error in (-0.4, 0, 0.4):  # Values between two shades are drawn as the nearer one.
        np.testing.assert_array_equal(image_grid.draw(np.float32(shades + error) / 255), image_grid.draw(shades))


def test_the_image_grid_of_an_empty_batch_is_an_empty_picture():
    assert (image_grid.draw(IMAGES[:0]) == 255).all()


def test_the_summary_of_an_image_grid_has_a_bare_tag_for_any_batch_and_is_drawn_only_when_asked_for(session, monkeypatch):
    calls = []
    draw = image_grid.draw
    monkeypatch.setattr(image_grid, 'draw', lambda *args: calls.append(len(args[0])) or draw(*args))
    images = tf.placeholder(tf.uint8, [None, 4, 6, 3])

    def tower(images):
        image_grid.image_grid('inputs', images)
        return tf.cast(images, tf.int32)

    output = make_parallel(tower, CPUS[:2], images=images)
    session.run(output, {images: IMAGES})
    assert not calls
    summary = tf.Summary.FromString(session.run(tf.summary.merge_all(), {images: IMAGES}))
    assert calls == [3]  # The first tower's share.
    assert [value.tag for value in summary.value] == ['inputs/image']
    picture = np.asarray(Image.open(io.BytesIO(summary.value[0].image.encoded_image_string)))
    np.testing.assert_array_equal(picture, draw(IMAGES[:3])[0])
