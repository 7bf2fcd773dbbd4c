"""Direct calls of a session."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.session_calls import make_call


@pytest.mark.parametrize('in_caller', [False, True])
def test_a_call_gives_the_arrays_of_session_run_in_the_thread_asked_for(in_caller):
    threads = []
    with tf.Graph().as_default(), tf.Session() as session:
        x, text = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.string, [None])
        seen = tf.py_func(lambda value: threads.append(threading.get_ident()) or value, [x], tf.float32)
        seen.set_shape([None, 2])
        total = tf.while_loop(lambda i, _: i < 3, lambda i, value: (i + 1, value + seen), [0, tf.zeros_like(x)])[1]
        fetches = {'sum': tf.reduce_sum(total, 1), 'text': tf.strings.join([text, '!'])}
        call = make_call(session, fetches, [x, text], in_caller)
        for size in (2, 0, 1):
            values = np.arange(2 * size, dtype=np.float32).reshape(size, 2), np.array([b'a\0', 'ä'.encode()][:size], object)
            found, expected = call(*values), session.run(fetches, {x: values[0], text: values[1]})
            for name in fetches:
                np.testing.assert_array_equal(found[name], expected[name])
        np.testing.assert_array_equal(call(np.float32([[1, 2]]), np.array([b''], object))['sum'], [9])
        threads.clear()
        call(*values)
    assert (threads == [threading.get_ident()]) == in_caller
