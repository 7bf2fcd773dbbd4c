"""Parts of texts and pictures without which a probability falls are told from the others."""

import numpy as np
import pytest

from estimator_trainer.common.inference import occlusion


def test_each_word_is_left_out_once():
    assert occlusion.without_each(['a', 'b', 'a'], 2) == ['b a', 'a a']
    assert occlusion.without_each(['a', 'b', 'a']) == ['b a', 'a a', 'a b'] and occlusion.without_each(['a']) == ['']


@pytest.mark.parametrize('shape', [(8, 8, 1), (28, 30, 3), (5, 5, 1)])
def test_each_patch_is_covered_once(shape):
    image = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    copies = occlusion.behind_patches(image)
    changed = (copies != image).any(axis=3)
    mean_differs = (image != image.mean(axis=(0, 1))).any(axis=2)
    assert (changed.sum(axis=0) == mean_differs).all() and copies.shape == (64, *shape)


def test_weights_are_shares_of_the_largest_fall():
    assert occlusion.weights(0.9, np.array([0.5, 0.7, 0.95])).tolist() == pytest.approx([1, 0.5, 0])
    assert occlusion.weights(0.9, np.array([0.899, 0.9])).tolist() == [0, 0]  # No part matters.
    assert occlusion.weights(0.9, np.zeros(0)).tolist() == []
    assert occlusion.weights(0, np.array([-0.004, 0]), least=0).tolist() == [1, 0]
    assert occlusion.weights(0, np.zeros(2), least=0).tolist() == [0, 0]


@pytest.mark.parametrize(
    'place, expected', [(0, 'upper left'), (63, 'lower right'), (8 * 3 + 4, 'center'), (8 * 4, 'middle left'), (None, '')]
)
def test_the_tint_is_where_the_weight_is(place, expected):
    heat = np.zeros(64)
    if place is not None:
        heat[place] = 1
    assert occlusion.strongest(heat) == expected
    found = occlusion.tinted(np.zeros([80, 80, 1], np.uint8), heat)
    row, column = divmod(place or 0, 8)
    assert found.shape == (80, 80, 3) and bool(found[10 * row + 5, 10 * column + 5, 0] > 100) == bool(expected)
    assert not found[10 * ((row + 4) % 8) + 5, 10 * ((column + 4) % 8) + 5].any()
