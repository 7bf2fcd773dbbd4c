"""Gathering by example."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.ops.batch_gather import batch_gather
from common.ops.check_gradient import check_gradient
from tests.evaluated import evaluate

RANDOM = np.random.RandomState(0)


@pytest.mark.parametrize('index_shape', [[7], [7, 3], [7, 2, 3]])
@pytest.mark.parametrize('value_shape', [[7, 4], [7, 4, 5], [7, 4, 5, 2]])
def test_batch_gather_takes_from_each_example_by_its_own_indices(value_shape, index_shape):
    values = RANDOM.normal(size=value_shape).astype(np.float32)
    indices = RANDOM.randint(0, 4, index_shape).astype(np.int32)
    expected = np.stack([value[index] for value, index in zip(values, indices)])
    np.testing.assert_array_equal(evaluate(batch_gather, values, indices), expected)


def test_an_index_of_batch_gather_out_of_range_is_an_error(session):
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(batch_gather(tf.zeros([2, 3]), tf.constant([0, 3])))


def test_the_gradient_of_batch_gather_goes_where_the_values_came_from():
    indices = np.array([[0, 0], [2, 1]])
    assert check_gradient(lambda x: tf.square(batch_gather(x, tf.constant(indices))), [RANDOM.normal(size=[2, 3])]) < 1e-6
