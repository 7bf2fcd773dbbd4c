"""Augmentation: where pixels go and what they become, and what the draws depend on."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops import augmentation
from common.ops.mixup import mixup
from common.training.parallel import make_parallel
from tests.evaluated import CPUS, evaluate

IMAGES = np.random.RandomState(0).uniform(0.1, 1, [200, 6, 8, 3]).astype(np.float32)
OPS = {
    'flip': augmentation.random_flip,
    'crop': lambda images: augmentation.random_crop(images, 0.25),
    'rotation': lambda images: augmentation.random_rotation(images, 30.0),
    'cutout': lambda images: augmentation.random_cutout(images, 3),
    'color': lambda images: augmentation.random_color(images, 0.5),
    'mixup': lambda images: mixup(images, 0.5)[0],
}


def draw(op, images=IMAGES, step=0, seed=1, shape=None):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(seed)
        inputs = tf.placeholder(tf.float32, images.shape if shape is None else shape)
        outputs = op(inputs)
        session.run(tf.assign(tf.train.get_or_create_global_step(), step))
        return session.run(outputs, {inputs: images})


@pytest.mark.parametrize('name', OPS)
def test_draws_are_a_function_of_seed_and_step(name):
    first = draw(OPS[name], step=3)
    assert first.shape == IMAGES.shape and first.dtype == np.float32
    np.testing.assert_array_equal(draw(OPS[name], step=3), first)
    for other in (draw(OPS[name], step=4), draw(OPS[name], step=3, seed=2)):
        assert (other != first).any((1, 2, 3)).mean() > 0.4


@pytest.mark.parametrize('name', OPS)
def test_unknown_sizes_give_what_known_ones_do(name):
    expected = draw(OPS[name])
    for shape in ([None, 6, 8, 3], [None, None, None, 3]):
        np.testing.assert_allclose(draw(OPS[name], shape=shape), expected, atol=1e-6)


@pytest.mark.parametrize('name', OPS)
def test_two_ops_and_two_towers_draw_different_numbers(session, name):
    images = tf.constant(np.repeat(IMAGES[:4], 50, axis=0).reshape(4, 50, 6, 8, 3).swapaxes(0, 1).reshape(IMAGES.shape))
    outputs = make_parallel(lambda images: [OPS[name](images), OPS[name](images)], CPUS[:2], images=images)
    session.run(tf.global_variables_initializer())
    first, second = session.run(outputs)
    for a, b in ((first, second), (first[:100], first[100:])):
        assert (a != b).any((1, 2, 3)).mean() > 0.4


def test_half_of_the_images_are_mirrored():
    is_flipped = [np.array_equal(found, image[:, ::-1]) for found, image in zip(draw(OPS['flip']), IMAGES)]
    is_same = [np.array_equal(found, image) for found, image in zip(draw(OPS['flip']), IMAGES)]
    assert all(np.logical_xor(is_flipped, is_same))
    assert 70 < sum(is_flipped) < 130


@pytest.mark.parametrize('height, width', [(8, 8), (6, 13), (13, 6)])
def test_a_crop_of_the_whole_area_is_the_image(height, width):
    images = np.random.RandomState(0).uniform(size=[5, height, width, 2]).astype(np.float32)
    np.testing.assert_allclose(draw(lambda images: augmentation.random_crop(images, 1.0), images), images, atol=1e-6)


@pytest.mark.parametrize('height, width', [(21, 21), (11, 31)])
def test_crops_have_the_areas_and_aspect_ratios_that_are_drawn(height, width):
    # The value of a pixel is its position, as a share of height and width, which bilinear interpolation keeps.
    rows, columns = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing='ij')
    images = np.repeat(np.stack([rows, columns], 2)[None], 2000, 0).astype(np.float32)
    found = draw(OPS['crop'], images)
    first, last = found[:, 0, 0], found[:, -1, -1]
    expected = np.linspace(first[:, 0], last[:, 0], height, axis=1)[:, :, None].repeat(width, 2)
    np.testing.assert_allclose(found[:, :, :, 0], expected, atol=1e-5)
    assert first.min() > -1e-5 and last.max() < 1 + 1e-5
    size = last - first
    area, ratio = size.prod(1), size[:, 1] / size[:, 0] * width / height
    assert abs(area.mean() - 0.625) < 0.02 and area.min() < 0.26 and area.max() > 0.99
    fits = (size < 1 - 1e-5).all(1)
    assert fits.mean() > 0.25 and 0.749 < ratio[fits].min() < 0.77 and ratio[fits].max() < 1.334
    if height == width:  # A square image's crops are as often wide as high.
        assert ratio.max() > 1.3 and abs(np.log(ratio).mean()) < 0.02
    position = first[fits] / (1 - size[fits])
    np.testing.assert_allclose(position.mean(0), [0.5, 0.5], atol=0.05)


@pytest.mark.parametrize('turns', [-1, 0, 1, 2, 4])
def test_right_angles_rotate_as_numpy_does(turns):
    images = np.random.RandomState(0).uniform(size=[5, 7, 7, 2]).astype(np.float32)
    found = evaluate(augmentation.rotate, images, np.full([5], 90.0 * turns, np.float32))
    np.testing.assert_allclose(found, np.rot90(images, turns, (1, 2)), atol=1e-5)


def test_half_a_turn_rotates_an_image_that_is_no_square():
    found = evaluate(augmentation.rotate, IMAGES, np.full([200], 180.0, np.float32))
    np.testing.assert_allclose(found, IMAGES[:, ::-1, ::-1], atol=1e-5)


def test_what_a_rotation_brings_in_from_outside_is_zero():
    found = evaluate(augmentation.rotate, np.ones([1, 9, 9, 1], np.float32), np.array([45.0], np.float32))
    assert found[0, 0, 0, 0] == found[0, 8, 8, 0] == 0 and abs(found[0, 4, 4, 0] - 1) < 1e-6


def test_rotations_have_angles_of_both_signs_up_to_the_maximum():
    # A dot right of the center, at a radius of 20.
    images = np.zeros([500, 61, 61, 1], np.float32)
    images[:, 30, 50] = 1
    rows, columns = np.meshgrid(np.arange(61.0) - 30, np.arange(61.0) - 30, indexing='ij')
    found = draw(lambda images: augmentation.random_rotation(images, 40.0), images)[:, :, :, 0]
    total = found.sum((1, 2))
    angles = np.degrees(np.arctan2(-(found * rows).sum((1, 2)) / total, (found * columns).sum((1, 2)) / total))
    assert -42 < angles.min() < -38 and 38 < angles.max() < 42 and abs(angles.mean()) < 4


@pytest.mark.parametrize('size', [1, 3, 4, 20])
def test_cutout_blanks_a_square_around_any_pixel(size):
    found = draw(lambda images: augmentation.random_cutout(images, size), np.repeat(IMAGES, 5, 0))
    expected = {}  # The blank pixels of each center, by a loop.
    for y in range(6):
        for x in range(8):
            blank = np.zeros([6, 8], bool)
            top, left = y - size // 2, x - size // 2
            blank[max(0, top) : top + size, max(0, left) : left + size] = True
            expected[blank.tobytes()] = blank.sum()
    blanks = {(image == 0).all(2).tobytes() for image in found}
    assert blanks == set(expected)
    assert max((image == 0).all(2).sum() for image in found) == min(size, 6) * min(size, 8)
    is_kept = found != 0
    np.testing.assert_array_equal(found[is_kept], np.repeat(IMAGES, 5, 0)[is_kept])


def test_colors_of_gray_images_change_in_brightness_and_contrast():
    for channels in (1, 3):
        images = np.repeat(IMAGES[..., :1], channels, 3)
        found = draw(OPS['color'], images)
        np.testing.assert_allclose(found, found[..., :1].repeat(channels, 3), atol=1e-5)  # Saturation has no effect.
        brightness = found.mean((1, 2, 3)) / images.mean((1, 2, 3))
        contrast = found.std((1, 2, 3)) / images.std((1, 2, 3)) / brightness
        for factor in (brightness, contrast):
            assert 0.499 < factor.min() < 0.53 and 1.47 < factor.max() < 1.501 and abs(factor.mean() - 1) < 0.06
        mean = images.mean((1, 2, 3), keepdims=True)
        expected = brightness[:, None, None, None] * (mean + contrast[:, None, None, None] * (images - mean))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert abs(np.corrcoef(brightness, contrast)[0, 1]) < 0.2


def test_saturation_scales_the_distance_from_the_gray_value():
    found = draw(OPS['color'])
    luma = np.array([0.299, 0.587, 0.114])
    gray, found_gray = (images @ luma for images in (IMAGES, found))
    brightness = found_gray.mean((1, 2)) / gray.mean((1, 2))
    contrast = found_gray.std((1, 2)) / gray.std((1, 2)) / brightness
    chroma, found_chroma = IMAGES - gray[..., None], found - found_gray[..., None]
    saturation = np.linalg.norm(found_chroma, axis=(2, 3)).sum(1) / np.linalg.norm(chroma, axis=(2, 3)).sum(1)
    np.testing.assert_allclose(found_chroma, saturation[:, None, None, None] * chroma, atol=1e-5)
    saturation /= brightness * contrast
    assert 0.499 < saturation.min() < 0.53 and 1.47 < saturation.max() < 1.501 and abs(saturation.mean() - 1) < 0.06


@pytest.mark.parametrize('channels', [1, 2, 3, 4])
def test_no_strength_leaves_the_colors(channels):
    images = np.random.RandomState(0).uniform(-1, 2, [5, 6, 8, channels]).astype(np.float32)
    np.testing.assert_allclose(draw(lambda images: augmentation.random_color(images, 0.0), images), images, atol=1e-6)
