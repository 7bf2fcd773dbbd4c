"""Signals: training stops after its step with a checkpoint, a process without anything to save ends immediately."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.stop import StopInProgram, StopOnSignal
from tests import forked
from tests.shared import ROOT


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


def send(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)


def as_type_error(fn):
    """Calls `fn` like TensorFlow's C++ code after an unexpected Python exception."""
    try:
        fn()
    except (SystemExit, KeyboardInterrupt) as error:
        raise TypeError from error


@pytest.mark.parametrize('number, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_training_after_the_step_and_otherwise_the_process_immediately(number, code):
    with StopOnSignal() as stop:
        assert train_until(stop, 3, lambda: send(number)) in (3, 4)
        assert stop.received == number
        with pytest.raises(SystemExit) as exit:
            stop.exit_if_received()
        assert exit.value.code == code
    with StopOnSignal(), pytest.raises(SystemExit) as exit:
        send(number)
    assert exit.value.code == code


def test_without_a_signal_training_completes_and_the_previous_handlers_are_restored():
    def handlers():
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # As under nohup, where training continues without its terminal.
    try:
        before = handlers()
        with StopOnSignal() as stop:
            assert [a == b for a, b in zip(handlers(), before)] == [False, False, True]
            assert train_until(stop, 3, lambda: None) == 10
            stop.exit_if_received()
        assert handlers() == before
        signal.signal(signal.SIGTERM, print)
        with StopInProgram():  # Takes only those of Python's own.
            assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == [print, signal.SIG_IGN]
    finally:
        signal.signal(signal.SIGTERM, before[1])
        signal.signal(signal.SIGHUP, previous)


@pytest.mark.parametrize('context, exit_type', [(StopOnSignal, SystemExit), (StopInProgram, KeyboardInterrupt)])
def test_a_signal_ends_the_process_even_if_its_exit_becomes_another_exception(context, exit_type):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # It is ignored where the tests run in the background.
    with pytest.raises(exit_type), context():
        as_type_error(lambda: send(signal.SIGINT))


def test_an_error_after_a_handled_signal_is_not_hidden():
    with pytest.raises(TypeError), StopOnSignal() as stop:
        train_until(stop, 3, lambda: send(signal.SIGTERM))
        raise TypeError


def test_a_second_ctrl_c_does_not_wait_for_the_step_but_sigterm_may_come_twice():
    with StopOnSignal() as stop, pytest.raises(SystemExit):
        train_until(stop, 3, lambda: send(signal.SIGINT, signal.SIGINT))
    with StopOnSignal() as stop:
        assert train_until(stop, 2, lambda: send(signal.SIGTERM, signal.SIGTERM)) in (2, 3)


@pytest.mark.parametrize('ends', [lambda fn: fn(), as_type_error])
def test_a_signal_ends_an_evaluation_immediately_and_training_after_the_step(ends):
    ended, stop = [], StopOnSignal()

    def evaluate():
        ends(lambda: send(signal.SIGTERM))
        ended.append(True)

    def act():
        assert stop.call_outside_training(lambda: 'result') == 'result'
        with pytest.raises(ZeroDivisionError):
            stop.call_outside_training(lambda: 1 / 0)
        stop.call_outside_training(evaluate)
        stop.call_outside_training(lambda: ended.append(True))

    with stop:
        assert train_until(stop, 3, act) in (3, 4)
        assert stop.received == signal.SIGTERM
    assert not ended


def test_a_deferred_signal_is_only_recorded():
    with StopOnSignal() as stop:
        with stop.defer_signals():
            send(signal.SIGTERM)
        with pytest.raises(SystemExit):
            stop.exit_if_received()


LOOP = """
import sys, time
from estimator_trainer.common.stop import StopOnSignal
import tensorflow.compat.v1 as tf

def wait():
    print('step', flush=True)
    time.sleep(steps.pop(0) if steps else 0)

is_training, steps, after, options = eval(sys.argv[1])
with StopOnSignal(**options) as on_signal, tf.Graph().as_default():
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([tf.py_func(wait, [], [])]):
        count = tf.assign_add(step, 1)
    with tf.train.SingularMonitoredSession([on_signal] if is_training else []) as session:
        while not session.should_stop():
            session.run(count)
    print('stopped', flush=True)
    time.sleep(after)
    print('ended', flush=True)
    on_signal.exit_if_received()
"""
UNSAVED = '-c: {}: ended before the step finished; the steps since the last checkpoint are not saved: rerun the command'


@contextlib.contextmanager
def in_third_step(steps, after=0.0, is_training=True, **options):
    """Yields a process in its third step: `steps` and `after`, what follows, are seconds."""
    arguments = [sys.executable, '-c', LOOP, repr((is_training, steps, after, options))]
    process = forked.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for _ in range(3):
            assert process.stdout.readline() == 'step\n'
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    'steps, options, outs',
    [
        ([0, 0, 1000], {'step_seconds': 0.2}, ['']),
        ([0, 0, 1000], {'exit_seconds': 0.2, 'is_training': False}, ['']),
        ([0, 0, 0.5], {'step_seconds': 100}, ['stopped\nended\n']),
        ([0, 3, 1], {'step_seconds': 0.1}, ['stopped\nended\n']),
        ([0, 0, 0], {'exit_seconds': 0.2, 'after': 1000}, ['stopped\n', '']),  # The session's end counts, too.
    ],
)
def test_a_step_and_the_exit_have_time_limits(steps, options, outs):
    with in_third_step(steps, **options) as process:
        process.send_signal(signal.SIGTERM)
        found, err = process.communicate(timeout=100)
        # On a busy machine, further steps may come before the signal.
        assert process.returncode == 143 and found.replace('step\n', '') in outs
        assert (UNSAVED.format('SIGTERM') in err) == (outs == [''] and 'step_seconds' in options)


@pytest.mark.parametrize('second, code', [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_does_not_wait_for_the_step(second, code):
    with in_third_step([0, 0, 1000], step_seconds=1000) as process:
        process.send_signal(signal.SIGTERM)
        for _ in range(1000):  # SIGTERM counts if it comes a second later.
            process.send_signal(second)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
                break
        out, err = process.communicate()
        assert (process.returncode, out) == (code, '') and UNSAVED.format(second.name) in err


FORK = """
import os, signal, sys, time
from estimator_trainer.common.stop import StopInProgram, StopOnSignal

with eval(sys.argv[1]):
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.write(sender, b'.')
        time.sleep(100)
    os.read(receiver, 1)  # A signal that comes before Python has begun there is lost.
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    time.sleep(0.5)
    signal.signal(signal.SIGTERM, lambda *_: print('mine'))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.5)
"""


@pytest.mark.parametrize('context', ['StopOnSignal(exit_seconds=0.1)', 'StopInProgram()'])
def test_a_signal_to_a_forked_process_or_to_a_handler_of_the_users_own_is_theirs_alone(context):
    process = forked.run([sys.executable, '-c', FORK, context], cwd=ROOT)
    assert (process.returncode, process.stdout) == (0, '-15\nmine\n'), process.stderr
