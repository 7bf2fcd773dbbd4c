"""Direct calls of a session, and the choice of the fastest."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference import session_calls
from estimator_trainer.common.inference.session_calls import Fastest, make_call


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


def test_the_fastest_call_is_chosen_by_its_shortest_time(monkeypatch):
    now, made = [0.0], []
    monkeypatch.setattr(session_calls.time, 'perf_counter', lambda: now[0])

    def taking(name, seconds):
        seconds = iter(seconds)

        def call(*arrays):
            made.append(name)
            now[0] += next(seconds, 0)
            return {'y': arrays}

        return call

    fastest = Fastest([taking('steady', [3, 3, 3, 3, 3]), taking('first slow', [100, 2, 9, 9, 9])])
    assert all(fastest(i, i) == {'y': (i, i)} for i in range(13))
    assert made == 5 * ['steady', 'first slow'] + 3 * ['first slow']


def test_a_lone_call_is_not_timed(monkeypatch):
    monkeypatch.setattr(session_calls.time, 'perf_counter', None)
    assert Fastest([lambda x: {'y': x}])(1) == {'y': 1}
