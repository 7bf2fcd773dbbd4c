"""Summaries of variables."""

import numpy as np
import tensorflow.compat.v1 as tf

from common.ops.variable_summaries import variable_summaries
from common.training.parallel import make_parallel
from tests.evaluated import CPUS

VALUES = np.random.RandomState(0).normal(size=[30, 4]).astype(np.float32)


def values_of(session):
    summary = tf.Summary.FromString(session.run(tf.summary.merge_all()))
    return {value.tag: value.histo if value.HasField('histo') else value.simple_value for value in summary.value}


def test_variable_summaries_are_the_moments_the_extremes_and_a_histogram(session):
    with tf.variable_scope('layer'):
        variable = tf.get_variable('kernel', initializer=VALUES)
    with tf.name_scope('elsewhere'):
        variable_summaries(variable)
    session.run(tf.global_variables_initializer())
    values = values_of(session)
    histogram = values.pop('layer/kernel/histogram')
    assert list(values) == [f'layer/kernel/{name}' for name in ('mean', 'stddev', 'min', 'max')]
    np.testing.assert_allclose(list(values.values()), [VALUES.mean(), VALUES.std(), VALUES.min(), VALUES.max()], rtol=1e-4)
    assert histogram.num == 120
    np.testing.assert_allclose([histogram.min, histogram.max], [VALUES.min(), VALUES.max()], rtol=1e-6)
    edges = np.array([-np.inf, *histogram.bucket_limit])
    expected = [((VALUES >= low) & (VALUES < high)).sum() for low, high in zip(edges, edges[1:])]
    np.testing.assert_array_equal(histogram.bucket, expected)


def test_variable_summaries_of_a_tensor_of_any_batch_come_once_for_all_towers(session):
    def tower(x):
        variable_summaries(tf.identity(x, name='hidden'))
        return x

    x = tf.placeholder_with_default(VALUES, [None, 4])
    make_parallel(tower, CPUS, x=x)
    assert sorted(values_of(session)) == [f'hidden/{name}' for name in ('histogram', 'max', 'mean', 'min', 'stddev')]
