"""Static and dynamic shapes, merged dimensions, gathering by example, and runtime checks."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.ops.debug import assert_finite, assert_shape
from estimator_trainer.common.ops.shapes import batch_gather, get_shape, reshape
from tests.evaluated import evaluate
from tests.shared import raised

RANDOM = np.random.RandomState(0)
IMAGES = np.arange(5 * 2 * 3 * 4, dtype=np.float32).reshape(5, 2, 3, 4)
X = np.ones([4, 3])


def test_an_unknown_size_is_a_tensor_the_known_ones_are_ints_and_reshape_keeps_them(session):
    assert get_shape(IMAGES) == [5, 2, 3, 4] and get_shape(1.0) == []
    tensor = tf.placeholder(tf.float32, [None, 2, None])
    batch, two, length = get_shape(tensor)
    assert two == 2 and isinstance(two, int)
    assert session.run([batch, length], {tensor: np.zeros([5, 2, 7])}) == [5, 7]
    with pytest.raises(ValueError):
        get_shape(tf.placeholder(tf.float32))
    tensor = tf.placeholder(tf.float32, [None, 2, None, 4])
    merged = reshape(tensor, [0, [1, 2], 3])
    assert merged.shape.as_list() == [None, None, 4]
    assert reshape(tf.placeholder(tf.float32, [None, 2, 3, 4]), [0, [1, 2, 3]]).shape.as_list() == [None, 24]
    np.testing.assert_array_equal(session.run(merged, {tensor: IMAGES}), IMAGES.reshape(5, 6, 4))
    assert session.run(merged, {tensor: IMAGES[:0]}).shape == (0, 6, 4)
    np.testing.assert_array_equal(evaluate(lambda x: reshape(x, [0, [1, 2], 3]), IMAGES), IMAGES.reshape(5, 6, 4))


def test_reshape_merges_listed_dimensions_and_refuses_those_that_are_missing_or_out_of_order(session):
    for dims_list, expected in (([[0, 1], (2, 3)], [10, 12]), ([[0, 1, 2, 3]], [120]), ([0, 1, 2, 3], [5, 2, 3, 4])):
        np.testing.assert_array_equal(session.run(reshape(tf.constant(IMAGES), dims_list)), IMAGES.reshape(expected))
    for dims_list in ([0, 1, 2], [0, [1, 3], 2], [1, 0, 2, 3], [0, 1, 2, 3, 3], [0, [1, 2], 3, 4]):
        with pytest.raises(ValueError, match='dimensions 0 to 3'):
            reshape(tf.constant(IMAGES), dims_list)


@pytest.mark.parametrize('value_shape, index_shape', [([7, 4], [7]), ([7, 4, 5], [7, 3]), ([7, 4, 5, 2], [7, 2, 3])])
def test_batch_gather_takes_from_each_example_by_its_own_indices(session, value_shape, index_shape):
    values = RANDOM.normal(size=value_shape).astype(np.float32)
    indices = RANDOM.randint(0, 4, index_shape).astype(np.int32)
    expected = np.stack([value[index] for value, index in zip(values, indices)])
    np.testing.assert_array_equal(evaluate(batch_gather, values, indices), expected)
    raised(tf.errors.InvalidArgumentError, session.run, batch_gather(tf.constant(values), tf.constant(indices + 3)))


def test_an_asserted_shape_is_checked_at_once_or_if_it_is_unknown_when_the_result_is_used_as_are_finite_values(session):
    np.testing.assert_array_equal(evaluate(lambda x: assert_shape(assert_finite(x), [None, 3]), X), X)
    for shape in ([4, 2], [4, 3, 1]):
        with pytest.raises(ValueError):
            assert_shape(tf.constant(X), shape)
    x, y = tf.placeholder(tf.float32, None, 'any'), tf.placeholder(tf.float32, [None])
    checked = 2 * assert_shape(x, [None, 3])
    assert checked.shape.as_list() == [None, 3]
    assert session.run(checked, {x: X}).shape == (4, 3)
    raised(tf.errors.InvalidArgumentError, session.run, checked, {x: X[:, :2]})
    checked = assert_shape(x, [tf.shape(y)[0], 3])
    assert session.run(checked, {x: X, y: np.zeros(4)}).shape == (4, 3)
    assert 'Dimension 0 of ' in raised(tf.errors.InvalidArgumentError, session.run, checked, {x: X, y: np.zeros(5)})
    x = tf.placeholder(tf.float32, [None], name='x')
    for checked, name in ((assert_finite(x), 'x:0 is not finite'), (assert_finite(x, 'the loss'), 'the loss')):
        assert session.run(2 * checked, {x: [1, 2]}).tolist() == [2, 4]
        for bad in (np.nan, np.inf, -np.inf):
            assert name in raised(tf.errors.InvalidArgumentError, session.run, 2 * checked, {x: [1, bad]})
