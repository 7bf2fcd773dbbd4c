"""A model in numbers."""

import tensorflow.compat.v1 as tf

from common.monitoring.model_summary import describe


def test_the_model_summary_lists_inputs_variables_and_their_sum(session):
    features = {'image': tf.placeholder(tf.float32, [None, 28, 28, 1]), 'a': tf.placeholder(tf.string, [8])}
    variables = [tf.get_variable('conv/kernel', [3, 3, 1, 200]), tf.get_variable('b', [])]
    assert describe(features, {'label': tf.placeholder(tf.int64, [None])}, variables) == [
        'Input a: string (8,)',
        'Input image: float32 (None, 28, 28, 1)',
        'Input label: int64 (None,)',
        'conv/kernel  (3, 3, 1, 200)         1,800',
        'b            ()                         1',
        'total                               1,801',
    ]
    assert describe({}, None, [])[-1].split() == ['total', '0']
