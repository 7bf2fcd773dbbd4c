"""Random shifts: where images go, and what that depends on."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.check_gradient import check_gradient
from common.ops.random_shift import random_shift
from common.training.parallel import make_parallel
from tests.evaluated import CPUS

IMAGES = np.random.RandomState(0).randint(1, 255, [200, 6, 5, 2]).astype(np.uint8)


def draw(max_shift=2, step=0, is_training=True, seed=1, shape=IMAGES.shape):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(seed)
        images = tf.placeholder(tf.uint8, shape)
        shifted = random_shift(images, max_shift, is_training)
        session.run(tf.assign(tf.train.get_or_create_global_step(), step))
        return session.run(shifted, {images: IMAGES})


def shift_of(image, shifted, max_shift):
    """Returns (down, right) of the one shift that makes `shifted`, by trying all of them in NumPy."""
    padded = np.pad(image, [(max_shift, max_shift), (max_shift, max_shift), (0, 0)])
    found = [
        (max_shift - y, max_shift - x)
        for y in range(2 * max_shift + 1)
        for x in range(2 * max_shift + 1)
        if np.array_equal(padded[y : y + image.shape[0], x : x + image.shape[1]], shifted)
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize('shape', [IMAGES.shape, [None, 6, 5, 2], [None] * 4])
def test_random_shift_moves_each_image_by_up_to_max_shift(shape):
    shifted = draw(shape=shape)
    assert shifted.shape == IMAGES.shape and shifted.dtype == np.uint8
    shifts = [shift_of(image, moved, 2) for image, moved in zip(IMAGES, shifted)]
    assert set(shifts) == {(y, x) for y in range(-2, 3) for x in range(-2, 3)}


def test_random_shift_moves_nothing_outside_training_or_at_zero():
    np.testing.assert_array_equal(draw(is_training=False), IMAGES)
    np.testing.assert_array_equal(draw(max_shift=0), IMAGES)


def test_random_shifts_are_a_function_of_seed_and_step():
    np.testing.assert_array_equal(draw(step=3), draw(step=3))
    assert (draw(step=3) != draw(step=4)).any()
    assert (draw(seed=1) != draw(seed=2)).any()


def test_two_random_shifts_of_one_graph_and_of_two_towers_differ(session):
    shifted = make_parallel(
        lambda images: [random_shift(images, 2, True), random_shift(images, 2, True)],
        CPUS[:2],
        images=tf.constant(np.repeat(IMAGES[:1], 200, axis=0)),
    )
    session.run(tf.global_variables_initializer())
    first, second = session.run(shifted)
    for a, b in ((first, second), (first[:100], first[100:])):
        assert (a != b).any((1, 2, 3)).mean() > 0.8  # One in 25 moves alike by chance.


def test_the_gradient_of_random_shift():
    assert check_gradient(lambda images: random_shift(images, 1, True), [IMAGES[:2, :3, :3].astype(np.float64)]) < 1e-6
