"""Printing, and summaries of variables, while the graph runs."""

import numpy as np
import tensorflow.compat.v1 as tf

from common.ops.print_tensor import print_tensor
from common.ops.variable_summaries import variable_summaries
from common.training.parallel import make_parallel
from tests.evaluated import CPUS

VALUES = np.random.RandomState(0).normal(size=[30, 4]).astype(np.float32)


def test_print_tensor_prints_when_the_result_is_used_and_only_then(session, capfd):
    x = tf.placeholder(tf.float32, [None, 2], name='x')
    printed = print_tensor(x, 'hidden units')
    session.run(x, {x: [[1, 2]]})
    assert capfd.readouterr() == ('', '')
    assert session.run(2 * printed, {x: [[1, 2], [3, 4]]}).tolist() == [[2, 4], [6, 8]]
    out, err = capfd.readouterr()
    assert out == '' and err.split() == ['hidden', 'units', '[2', '2]', '[[1', '2]', '[3', '4]]']


def test_print_tensor_says_the_tensors_name_for_want_of_a_message_and_shortens_it(session, capfd):
    session.run(print_tensor(tf.constant([7], name='seven')))
    assert capfd.readouterr().err == 'seven:0 [1] [7]\n'
    session.run(print_tensor(tf.range(100), 'x'))
    assert capfd.readouterr().err == 'x [100] [0 1 2 ... 97 98 99]\n'
    session.run(print_tensor(tf.range(100), 'x', summarize=-1))
    assert capfd.readouterr().err.count(' ') == 101


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
