"""Printing while the graph runs."""

import numpy as np
import tensorflow.compat.v1 as tf

from common.ops.check_gradient import check_gradient
from common.ops.print_tensor import print_tensor
from tests.evaluated import evaluate


def test_print_tensor_prints_when_the_result_is_used_and_only_then(session, capfd):
    x = tf.placeholder(tf.float32, [None, 2], name='x')
    printed = print_tensor(x, 'hidden units')
    session.run(x, {x: [[1, 2]]})
    assert capfd.readouterr() == ('', '')
    assert session.run(2 * printed, {x: [[1, 2], [3, 4]]}).tolist() == [[2, 4], [6, 8]]
    out, err = capfd.readouterr()
    assert out == '' and err.split() == ['hidden', 'units', '[2', '2]', '[[1', '2]', '[3', '4]]']


def test_print_tensor_says_the_tensors_name_for_want_of_a_message(session, capfd):
    session.run(print_tensor(tf.constant([7], name='seven')))
    assert capfd.readouterr().err == 'seven:0 [1] [7]\n'


def test_print_tensor_shortens_long_tensors(session, capfd):
    session.run(print_tensor(tf.range(100), 'x'))
    assert capfd.readouterr().err == 'x [100] [0 1 2 ... 97 98 99]\n'
    session.run(print_tensor(tf.range(100), 'x', summarize=-1))
    assert capfd.readouterr().err.count(' ') == 101


def test_print_tensor_takes_any_batch_towers_and_gradients(capfd):
    x = np.ones([4, 3])
    np.testing.assert_array_equal(evaluate(print_tensor, x), x)
    assert check_gradient(lambda x: tf.square(print_tensor(x)), [x]) < 1e-6
    assert capfd.readouterr().err.count('[1 1 1]') > 0
