"""Static and dynamic shapes."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.check_gradient import check_gradient
from common.ops.shape import get_shape, reshape
from tests.evaluated import evaluate

IMAGES = np.arange(5 * 2 * 3 * 4, dtype=np.float32).reshape(5, 2, 3, 4)


def test_a_known_shape_is_a_list_of_ints():
    assert get_shape(IMAGES) == [5, 2, 3, 4]
    assert get_shape(1.0) == []


def test_an_unknown_size_is_a_tensor_and_the_known_ones_stay_ints(session):
    tensor = tf.placeholder(tf.float32, [None, 2, None])
    batch, two, length = get_shape(tensor)
    assert two == 2 and isinstance(two, int)
    assert session.run([batch, length], {tensor: np.zeros([5, 2, 7])}) == [5, 7]


def test_an_unknown_rank_is_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError):
        get_shape(tf.placeholder(tf.float32))


@pytest.mark.parametrize(
    'dims_list, expected',
    [
        ([0, [1, 2], 3], [5, 6, 4]),
        ([0, [1, 2, 3]], [5, 24]),
        ([[0, 1], [2, 3]], [10, 12]),
        ([[0, 1, 2, 3]], [120]),
        ([0, 1, 2, 3], [5, 2, 3, 4]),
    ],
)
def test_reshape_merges_listed_dimensions(session, dims_list, expected):
    np.testing.assert_array_equal(session.run(reshape(tf.constant(IMAGES), dims_list)), IMAGES.reshape(expected))


def test_reshape_keeps_what_is_known_and_finds_the_rest_when_it_runs(session):
    tensor = tf.placeholder(tf.float32, [None, 2, None, 4])
    merged = reshape(tensor, [0, [1, 3 - 1], 3])
    assert merged.shape.as_list() == [None, None, 4]
    assert reshape(tf.placeholder(tf.float32, [None, 2, 3, 4]), [0, [1, 2, 3]]).shape.as_list() == [None, 24]
    np.testing.assert_array_equal(session.run(merged, {tensor: IMAGES}), IMAGES.reshape(5, 6, 4))
    assert session.run(merged, {tensor: IMAGES[:0]}).shape == (0, 6, 4)


@pytest.mark.parametrize('dims_list', [[0, 1, 2], [0, [1, 3], 2], [1, 0, 2, 3], [0, 1, 2, 3, 3], [0, [1, 2], 3, 4]])
def test_reshape_refuses_dimensions_that_are_missing_or_out_of_order(dims_list):
    with tf.Graph().as_default(), pytest.raises(ValueError, match='dimensions 0 to 3'):
        reshape(tf.constant(IMAGES), dims_list)


def test_reshape_for_any_batch_and_in_towers():
    np.testing.assert_array_equal(evaluate(lambda x: reshape(x, [0, [1, 2], 3]), IMAGES), IMAGES.reshape(5, 6, 4))


def test_the_gradient_of_reshape():
    assert check_gradient(lambda x: tf.square(reshape(x, [0, [1, 2]])), [IMAGES[0] / 10.0]) < 1e-2
