"""Stopping on signals."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import tensorflow.compat.v1 as tf

from common.runs.stop import StopInProgram, StopOnSignal
from tests import forked
from tests.shared import ROOT

pytestmark = pytest.mark.slow


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


def as_type_error(fn):
    """Calls `fn` as TensorFlow's C++ code does when Python's exception is not what it expects."""
    try:
        fn()
    except (SystemExit, KeyboardInterrupt) as error:
        raise TypeError from error


@pytest.mark.parametrize('context, exit_type', [(StopOnSignal, SystemExit), (StopInProgram, KeyboardInterrupt)])
def test_a_signal_ends_the_process_even_if_its_exit_becomes_another_exception(context, exit_type):
    with pytest.raises(exit_type), context():
        as_type_error(send(signal.SIGINT))


def test_an_error_after_a_signal_that_the_training_has_heeded_is_not_hidden():
    with pytest.raises(TypeError), StopOnSignal() as stop:
        train_until(stop, 3, send(signal.SIGTERM))
        raise TypeError


def test_an_evaluation_that_a_signal_ends_with_another_exception_does_not_fail_the_training():
    with StopOnSignal() as stop:
        assert train_until(stop, 3, lambda: stop.call_outside_training(lambda: as_type_error(send(signal.SIGTERM)))) in (3, 4)


def test_a_second_signal_does_not_wait_for_the_step():
    def twice():
        send(signal.SIGINT)()
        send(signal.SIGINT)()

    with StopOnSignal() as stop, pytest.raises(SystemExit):
        train_until(stop, 3, twice)


def test_a_run_under_nohup_resumes_when_its_terminal_closes():
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


def test_a_signal_ends_an_evaluation_during_the_training_at_once_and_the_training_after_the_step():
    ended = []

    def evaluate():
        send(signal.SIGTERM)()
        ended.append(True)

    with StopOnSignal() as stop:
        assert train_until(stop, 3, lambda: stop.call_outside_training(evaluate)) in (3, 4)
        assert stop.received == signal.SIGTERM
    assert not ended


def test_after_a_signal_nothing_is_evaluated():
    calls = []

    def act():
        send(signal.SIGTERM)()
        stop.call_outside_training(lambda: calls.append(1))

    with StopOnSignal() as stop:
        train_until(stop, 3, act)
    assert not calls


def test_the_previous_signal_handlers_come_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopOnSignal():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.skipif(not os.path.exists('/proc/self/maps'), reason='what a process has imported is looked up in /proc')
@pytest.mark.parametrize('command', [['trainer.py'], ['sweep.py', '--space=space.json']])
@pytest.mark.parametrize('delay', [0, 0.2, 0.4, 0.8])
def test_ctrl_c_during_the_imports_ends_a_command_without_a_word(tmp_path, command, delay):
    script, *flags = command
    process = subprocess.Popen(
        [sys.executable, os.path.join(ROOT, script), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    while 'numpy' not in pathlib.Path(f'/proc/{process.pid}/maps').read_text():
        assert process.poll() is None
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ('', '')
    assert process.returncode == -signal.SIGINT


BLOCKED = """
import itertools, time
import tensorflow.compat.v1 as tf

def get_params():
    return {{'blocked_after': {blocked_after}}}

def prepare(data_dir, params):
    pass

def read(split, data_dir, params):
    def generate():
        for i in itertools.count():
            if i == params.blocked_after:
                print('blocked', flush=True)
                time.sleep(1000)
            yield float(i)
    numbers = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.float32))
    return numbers{endless}

def parse(mode, params, x):
    return {{'x': x}}, {{'y': x}}
"""
COUNTING = {'blocked_after': 500, 'endless': ''}
TRAINING = {'blocked_after': 20000, 'endless': '.apply(tf.data.experimental.assert_cardinality(-1))'}  # INFINITE_CARDINALITY.


@pytest.fixture
def blocked(start, tmp_path):
    """Starts a training whose data stops coming, and waits until it does: blocked(where, flags) -> subprocess.Popen."""

    def call(where, *flags):
        (tmp_path / 'mine').mkdir()
        (tmp_path / 'mine' / 'data.py').write_text(BLOCKED.format(**where))
        process = start(
            '--model=polynomial',
            '--dataset=mine.data',
            '--schedule=train',
            '--train_steps=100000',
            '--hparams=learning_rate_schedule=constant',
            *flags,
        )
        assert process.stdout.readline() == 'blocked\n'
        time.sleep(1)
        return process

    return call


@pytest.mark.parametrize('number, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_process_that_waits_for_its_data(blocked, number, code):
    process = blocked(COUNTING)
    process.send_signal(number)
    _, err = process.communicate(timeout=15)
    assert process.returncode == code
    assert 'Traceback' not in err


@pytest.mark.parametrize(
    'first, second, code',
    [(signal.SIGINT, signal.SIGINT, 130), (signal.SIGTERM, signal.SIGTERM, 143), (signal.SIGTERM, signal.SIGINT, 130)],
)
def test_a_second_signal_ends_a_training_that_waits_for_its_data(blocked, tmp_path, first, second, code):
    process = blocked(TRAINING, '--save_checkpoints_steps=50')
    process.send_signal(first)
    time.sleep(2)
    assert process.poll() is None
    process.send_signal(second)
    _, err = process.communicate(timeout=15)
    assert process.returncode == code
    assert err.splitlines()[-1] == (
        f'trainer.py: {second.name}: ended before the step did; the steps since the last checkpoint are not saved: rerun the '
        'command to resume from it'
    )
    assert tf.train.latest_checkpoint(str(tmp_path / 'output'))


FORK = """
import multiprocessing, signal, time
from common.runs import stop

with stop.StopOnSignal() as on_signal:
    if {training}:
        on_signal.begin()
    child = multiprocessing.get_context('fork').Process(target=time.sleep, args=[100])
    child.start()
    time.sleep(1)
    child.terminate()
    child.join(10)
    time.sleep(stop._EXIT_SECONDS + 2)
    print(child.exitcode, flush=True)
"""


@pytest.mark.parametrize('training', [True, False])
def test_a_signal_to_a_forked_process_ends_that_process_alone(training):
    process = forked.run([sys.executable, '-c', FORK.format(training=training)], cwd=ROOT)
    assert (process.returncode, process.stdout) == (0, f'{-signal.SIGTERM}\n'), process.stderr


OWN = """
import os, signal, time
from common.runs import stop

with stop.StopOnSignal():
    signal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(stop._EXIT_SECONDS + 2)
print('end')
"""


def test_a_handler_of_the_users_own_is_left_alone():
    process = forked.run([sys.executable, '-c', OWN], cwd=ROOT)
    assert (process.returncode, process.stdout) == (0, 'mine\nend\n'), process.stderr


SCRIPT = """
import sys, time
from common.runs import stop
import tensorflow.compat.v1 as tf
stop._STEP_SECONDS = 1.0
seconds = {seconds}

def wait():
    print('step', flush=True)
    time.sleep(seconds.pop(0))

with stop.StopOnSignal() as on_signal, tf.Graph().as_default():
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([tf.py_func(wait, [], [])]):
        count = tf.assign_add(step, 1)
    with tf.train.SingularMonitoredSession([on_signal]) as session:
        while not session.should_stop():
            session.run(count)
    print('stopped', flush=True)
    for _ in range({after} * 10):
        time.sleep(0.1)
    print('ended', flush=True)
    on_signal.exit_if_received()
"""


def signal_in_third_step(seconds, after=0, stalled=0):
    """Returns the exit code of a training that gets SIGTERM in its third step, and what it printed then.

    Args:
      seconds: list of float, how long the steps take.
      after: int, how many seconds what follows takes.
      stalled: float, how many seconds the process rests during what follows.
    """
    process = forked.Popen(
        [sys.executable, '-c', SCRIPT.format(seconds=seconds, after=after)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    if stalled:
        assert process.stdout.readline() == 'stopped\n'
        process.send_signal(signal.SIGSTOP)
        time.sleep(stalled)
        process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_a_step_that_does_not_end_is_not_waited_for():
    code, out, err = signal_in_third_step([0, 0, 1000])
    assert (code, out) == (143, '')
    assert 'SIGTERM: ended before the step did; the steps since the last checkpoint are not saved' in err


@pytest.mark.parametrize('seconds', [[0, 0, 0.5], [0, 3, 4]], ids=['in time', 'like one before'])
def test_a_step_that_ends_in_time_or_takes_as_long_as_others_is_the_last(seconds):
    assert signal_in_third_step(seconds)[:2] == (143, 'stopped\nended\n')


def test_a_process_that_does_not_end_after_its_training_is_ended():
    assert signal_in_third_step([0, 0, 0.5], after=1000)[:2] == (143, 'stopped\n')


def test_a_process_that_rests_with_its_machine_is_not_ended_for_it():
    assert signal_in_third_step([0, 0, 0], after=1, stalled=3.5)[:2] == (143, 'ended\n')
