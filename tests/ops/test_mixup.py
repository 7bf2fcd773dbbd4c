"""Mixup: what is averaged, and the distribution of the shares. tests/ops/test_augmentation.py has what the draws depend on."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.mixup import mixup

IMAGES = np.random.RandomState(0).uniform(size=[20, 4, 5, 2]).astype(np.float32)


def draw(images, alpha, step=0):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        outputs = mixup(tf.constant(images), alpha)
        session.run(tf.assign(tf.train.get_or_create_global_step(), step))
        return session.run(outputs)


def test_images_are_averaged_with_those_of_a_permutation():
    mixed, others, share = draw(IMAGES, 1.0)
    assert sorted(others) == list(range(20)) and list(others) != list(range(20))
    assert others.dtype == np.int32 and share.dtype == np.float32 and len(set(share)) == 20
    weight = share[:, None, None, None]
    np.testing.assert_allclose(mixed, weight * IMAGES + (1 - weight) * IMAGES[others], atol=1e-6)
    assert list(draw(IMAGES, 1.0, step=1)[1]) != list(others)


@pytest.mark.parametrize('alpha', [0.2, 1.0, 5.0])
def test_shares_have_the_moments_of_the_beta_distribution(alpha):
    _, _, share = draw(np.zeros([50000, 1], np.float32), alpha)
    assert abs(share.mean() - 0.5) < 0.01
    assert share.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)
    fourth = 3 / 16 / ((2 * alpha + 1) * (2 * alpha + 3))  # The fourth central moment.
    assert ((share - 0.5) ** 4).mean() == pytest.approx(fourth, rel=0.05)


def test_a_tiny_alpha_takes_one_of_the_two_images():
    mixed, others, share = draw(np.arange(50000.0, dtype=np.float32)[:, None], 1e-4)
    assert set(np.round(share, 3)) >= {0, 1} and np.isfinite(mixed).all()
    assert np.mean((share < 1e-3) | (share > 1 - 1e-3)) > 0.99 and abs(share.mean() - 0.5) < 0.01
