"""Stopping on signals."""

import os
import signal

import pytest
import tensorflow.compat.v1 as tf

from common.stop import StopOnSignal


def train_until(stop, at_step, act, max_steps=10):
    """Runs a training loop whose step `at_step` calls `act`; returns the steps that ran."""
    class Act(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            nonlocal steps
            steps += 1
            if steps == at_step:
                act()

    steps = 0
    with tf.Graph().as_default():
        increment = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        with tf.train.SingularMonitoredSession([stop, Act(), tf.train.StopAtStepHook(max_steps)]) as session:
            while not session.should_stop():
                session.run(increment)
    return steps


def send(number):
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize('number, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_training_after_the_step(number, code):
    with StopOnSignal() as stop:
        assert train_until(stop, 3, send(number)) in (3, 4)
        with pytest.raises(SystemExit) as exit:
            stop.exit_if_received()
        assert exit.value.code == code


def test_without_a_signal_the_training_runs_to_its_end():
    with StopOnSignal() as stop:
        assert train_until(stop, 3, lambda: None) == 10
        stop.exit_if_received()


@pytest.mark.parametrize('number, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_outside_the_training_a_signal_ends_the_process_at_once(number, code):
    with StopOnSignal():
        with pytest.raises(SystemExit) as exit:
            send(number)()
        assert exit.value.code == code


def test_a_second_signal_does_not_wait():
    def twice():
        send(signal.SIGINT)()
        send(signal.SIGINT)()

    with StopOnSignal() as stop, pytest.raises(SystemExit):
        train_until(stop, 3, twice)


def test_a_run_under_nohup_goes_on_when_its_terminal_closes():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopOnSignal():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_sigterm_does_not_keep_the_checkpoint_from_being_saved():
    def twice():
        send(signal.SIGTERM)()
        send(signal.SIGTERM)()

    with StopOnSignal() as stop:
        assert train_until(stop, 2, twice) in (2, 3)


def test_an_evaluation_amid_the_training_ends_at_once():
    with StopOnSignal() as stop, pytest.raises(SystemExit):
        train_until(stop, 3, lambda: stop.call_outside_training(send(signal.SIGTERM)))


def test_after_a_signal_nothing_is_evaluated():
    calls = []

    def act():
        send(signal.SIGTERM)()
        stop.call_outside_training(lambda: calls.append(1))

    with StopOnSignal() as stop:
        train_until(stop, 3, act)
    assert not calls


def test_the_previous_handlers_come_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopOnSignal():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
