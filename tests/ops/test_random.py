"""Random ops: their results, and the dependencies of their random numbers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops import random
from estimator_trainer.common.ops.layers import dropout
from estimator_trainer.common.training.parallel import make_parallel
from tests.evaluated import CPUS, evaluate

IMAGES = np.random.RandomState(0).uniform(0.1, 1, [200, 6, 8, 3]).astype(np.float32)
ONES = np.ones([1000, 10], np.float32)
OPS = {
    'flip': random.random_flip,
    'crop': lambda images: random.random_crop(images, 0.25),
    'rotation': lambda images: random.random_rotation(images, 30.0),
    'cutout': lambda images: random.random_cutout(images, 3),
    'color': lambda images: random.random_color(images, 0.5),
    'mixup': lambda images: random.mixup(images, 0.5)[0],
    'shift': lambda images: random.random_shift(images, 2, True),
    'dropout': lambda images: dropout(images, 0.1, True),
}


def draw(op, images=IMAGES, step=0, seed=1, shape=None, scope=None):
    """Returns the random numbers of a step; for several steps, a list."""
    with tf.Graph().as_default(), tf.Session() as session, tf.name_scope(scope):
        tf.set_random_seed(seed)
        inputs = tf.placeholder(images.dtype, images.shape if shape is None else shape)
        outputs, found = op(inputs), []
        for global_step in np.atleast_1d(step):
            tf.train.get_or_create_global_step().load(global_step, session)
            found.append(session.run(outputs, {inputs: images}))
        return found if isinstance(step, list) else found[0]


def agreement(first, second):
    return (first == second).all((1, 2, 3)).mean()


@pytest.mark.parametrize('name', OPS)
def test_draws_are_a_function_of_seed_step_and_name_and_not_of_what_is_known_of_the_shape(name):
    first, second, again = draw(OPS[name], step=[3, 4, 3])
    assert first.shape == IMAGES.shape and first.dtype == np.float32
    np.testing.assert_array_equal(again, first)
    np.testing.assert_allclose(draw(OPS[name], step=3, shape=[None, None, None, 3]), first, atol=1e-6)
    for other in (second, draw(OPS[name], step=3, seed=2), draw(OPS[name], step=3, scope='other')):
        assert agreement(other, first) < 0.6


@pytest.mark.parametrize('name', OPS)
def test_two_ops_and_two_towers_draw_different_numbers(session, name):
    images = tf.constant(np.repeat(IMAGES[:4], 50, axis=0).reshape(4, 50, 6, 8, 3).swapaxes(0, 1).reshape(IMAGES.shape))
    outputs = make_parallel(lambda images: [OPS[name](images), OPS[name](images)], CPUS[:2], images=images)
    session.run(tf.global_variables_initializer())
    first, second = session.run(outputs)
    assert agreement(first, second) < 0.6 and agreement(first[:100], first[100:]) < 0.6


def test_half_of_the_images_are_mirrored():
    found = draw(OPS['flip'])
    is_flipped, is_same = (found == IMAGES[:, :, ::-1]).all((1, 2, 3)), (found == IMAGES).all((1, 2, 3))
    assert (is_flipped ^ is_same).all() and 70 < is_flipped.sum() < 130


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


def test_right_angles_rotate_as_numpy_does_and_drawn_angles_are_of_both_signs_up_to_the_maximum():
    images = np.random.RandomState(0).uniform(size=[5, 7, 7, 2]).astype(np.float32)
    turns = np.array([-1, 0, 1, 2, 4])
    found = evaluate(random.rotate, images, np.float32(90 * turns))
    np.testing.assert_allclose(found, [np.rot90(image, turn) for image, turn in zip(images, turns)], atol=1e-5)
    found = evaluate(random.rotate, IMAGES, np.full([200], 180.0, np.float32))
    np.testing.assert_allclose(found, IMAGES[:, ::-1, ::-1], atol=1e-5)
    found = evaluate(random.rotate, np.ones([1, 9, 9, 1], np.float32), np.array([45.0], np.float32))
    assert found[0, 0, 0, 0] == found[0, 8, 8, 0] == 0 and abs(found[0, 4, 4, 0] - 1) < 1e-6
    # A dot right of the center, at a radius of 20.
    images = np.zeros([500, 61, 61, 1], np.float32)
    images[:, 30, 50] = 1
    rows, columns = np.meshgrid(np.arange(61.0) - 30, np.arange(61.0) - 30, indexing='ij')
    found = draw(lambda images: random.random_rotation(images, 40.0), images)[:, :, :, 0]
    total = found.sum((1, 2))
    angles = np.degrees(np.arctan2(-(found * rows).sum((1, 2)) / total, (found * columns).sum((1, 2)) / total))
    assert -42 < angles.min() < -38 and 38 < angles.max() < 42 and abs(angles.mean()) < 4


@pytest.mark.parametrize('size', [1, 3, 4, 20])
def test_cutout_blanks_a_square_around_any_pixel(size):
    found = draw(lambda images: random.random_cutout(images, size), np.repeat(IMAGES, 5, 0))
    expected = set()  # The blank pixels of each center.
    for y, x in np.ndindex(6, 8):
        blank = np.zeros([6, 8], bool)
        top, left = y - size // 2, x - size // 2
        blank[max(0, top) : top + size, max(0, left) : left + size] = True
        expected.add(blank.tobytes())
    assert {(image == 0).all(2).tobytes() for image in found} == expected
    is_kept = found != 0
    np.testing.assert_array_equal(found[is_kept], np.repeat(IMAGES, 5, 0)[is_kept])


@pytest.mark.parametrize('channels', [2, 3, 4])
def test_colors_change_in_brightness_and_contrast_and_rgb_in_saturation(channels):
    images = IMAGES[..., np.arange(channels) % 3]
    luma = np.array([0.299, 0.587, 0.114]) if channels == 3 else np.full([channels], 1 / channels)
    found = draw(OPS['color'], images)
    gray, found_gray = images @ luma, found @ luma
    brightness = found_gray.mean((1, 2)) / gray.mean((1, 2))
    contrast = found_gray.std((1, 2)) / gray.std((1, 2)) / brightness
    mean = gray.mean((1, 2), keepdims=True)
    expected = brightness[:, None, None] * (mean + contrast[:, None, None] * (gray - mean))
    np.testing.assert_allclose(found_gray, expected, atol=1e-5)
    chroma, found_chroma = images - gray[..., None], found - found_gray[..., None]
    scale = np.linalg.norm(found_chroma, axis=(2, 3)).sum(1) / np.linalg.norm(chroma, axis=(2, 3)).sum(1)
    np.testing.assert_allclose(found_chroma, scale[:, None, None, None] * chroma, atol=1e-5)
    saturation = scale / (brightness * contrast)
    for factor in (brightness, contrast, saturation)[: 3 if channels == 3 else 2]:
        assert 0.499 < factor.min() < 0.53 and 1.47 < factor.max() < 1.501 and abs(factor.mean() - 1) < 0.06
    assert channels == 3 or np.allclose(saturation, 1, rtol=1e-4)
    assert abs(np.corrcoef(brightness, contrast)[0, 1]) < 0.2


def test_mixup_averages_images_with_those_of_a_permutation_by_shares_of_the_beta_distribution():
    (mixed, others, share), (_, others_later, _) = draw(lambda images: random.mixup(images, 1.0), step=[0, 1])
    assert sorted(others) == list(range(200)) and list(others) != list(range(200)) and list(others) != list(others_later)
    assert others.dtype == np.int32 and share.dtype == np.float32 and len(set(share)) == 200
    weight = share[:, None, None, None]
    np.testing.assert_allclose(mixed, weight * IMAGES + (1 - weight) * IMAGES[others], atol=1e-6)
    for alpha in (0.2, 1.0, 5.0):  # The shares have the moments of the beta distribution.
        _, _, share = draw(lambda images, alpha=alpha: random.mixup(images, alpha), np.zeros([50000, 1], np.float32))
        assert abs(share.mean() - 0.5) < 0.01
        assert share.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)
        fourth = 3 / 16 / ((2 * alpha + 1) * (2 * alpha + 3))  # The fourth central moment.
        assert ((share - 0.5) ** 4).mean() == pytest.approx(fourth, rel=0.05)
    mixed, _, share = draw(lambda images: random.mixup(images, 1e-4), np.ones([50000, 1], np.float32))
    assert np.isfinite(mixed).all() and np.mean((share < 1e-3) | (share > 1 - 1e-3)) > 0.99 and abs(share.mean() - 0.5) < 0.01


def test_random_shift_moves_each_image_by_up_to_max_shift_in_training():
    images = np.uint8(255 * IMAGES)
    shifted = draw(OPS['shift'], images)
    assert shifted.dtype == np.uint8
    padded = np.pad(images, [(0, 0), (2, 2), (2, 2), (0, 0)])
    is_equal = [(padded[:, y : y + 6, x : x + 8] == shifted).all((1, 2, 3)) for y, x in np.ndindex(5, 5)]
    assert (np.sum(is_equal, 0) == 1).all() and np.any(is_equal, 1).all()
    np.testing.assert_array_equal(draw(lambda images: random.random_shift(images, 2, False), images), images)
    np.testing.assert_array_equal(draw(lambda images: random.random_shift(images, 0, True), images), images)


def test_dropout_drops_other_elements_in_each_tower_and_loop_but_not_in_its_iterations_or_after_a_restart(session):
    def tower(x):
        repeated = [tf.while_loop(lambda i, y: i < 1, lambda i, y: (i + 1, dropout(x, 0.5, True)), [0, x])[1] for _ in range(2)]
        return {'loops': repeated, 'plain': [dropout(x, 0.5, True), dropout(x, 0.5, True)]}

    dropped = make_parallel(tower, CPUS, x=tf.constant(ONES[:900]))
    session.run(tf.global_variables_initializer())
    masks = [part for mask in tf.nest.flatten(session.run(dropped)) for part in np.split(mask, 3)]
    assert len(masks) == 12
    for i, mask in enumerate(masks):
        for other in masks[:i]:
            assert abs((mask == other).mean() - 0.5) < 0.05  # As independent draws agree.
    first, again = (draw(lambda x: tf.map_fn(lambda row: dropout(row, 0.5, True), x), ONES[:4]) for _ in range(2))
    assert (first == first[:1]).all() and {*first.flat} == {0, 2}  # What is left is scaled up.
    np.testing.assert_array_equal(first, again)
