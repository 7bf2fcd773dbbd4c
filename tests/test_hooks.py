"""Stopping on signals, evaluating after checkpoints, progress on a terminal."""

import os
import signal

import pytest
import tensorflow.compat.v1 as tf

from common import hooks


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
    with hooks.StopOnSignal() as stop:
        assert train_until(stop, 3, send(number)) in (3, 4)
        with pytest.raises(SystemExit) as exit:
            stop.exit_if_received()
        assert exit.value.code == code


def test_without_a_signal_the_training_runs_to_its_end():
    with hooks.StopOnSignal() as stop:
        assert train_until(stop, 3, lambda: None) == 10
        stop.exit_if_received()


@pytest.mark.parametrize('number, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_outside_the_training_a_signal_ends_the_process_at_once(number, code):
    with hooks.StopOnSignal():
        with pytest.raises(SystemExit) as exit:
            send(number)()
        assert exit.value.code == code


def test_a_second_signal_does_not_wait():
    def twice():
        send(signal.SIGINT)()
        send(signal.SIGINT)()

    with hooks.StopOnSignal() as stop, pytest.raises(SystemExit):
        train_until(stop, 3, twice)


def test_a_run_under_nohup_goes_on_when_its_terminal_closes():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with hooks.StopOnSignal():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_sigterm_does_not_keep_the_checkpoint_from_being_saved():
    def twice():
        send(signal.SIGTERM)()
        send(signal.SIGTERM)()

    with hooks.StopOnSignal() as stop:
        assert train_until(stop, 2, twice) in (2, 3)


def test_an_evaluation_amid_the_training_ends_at_once():
    with hooks.StopOnSignal() as stop, pytest.raises(SystemExit):
        train_until(stop, 3, lambda: stop.call_outside_training(send(signal.SIGTERM)))


def test_after_a_signal_nothing_is_evaluated():
    calls = []

    def act():
        send(signal.SIGTERM)()
        stop.call_outside_training(lambda: calls.append(1))

    with hooks.StopOnSignal() as stop:
        train_until(stop, 3, act)
    assert not calls


def test_the_previous_handlers_come_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with hooks.StopOnSignal():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def evaluated_steps(saved, end, every_steps=1, enough_at=None):
    """Returns the steps that are evaluated if checkpoints are saved at these, and whether each ended the training."""
    steps = []
    with hooks.StopOnSignal() as stop:
        listener = hooks.EvaluateAfterSave(lambda: steps.append(current) or current, lambda: steps[-1] == enough_at, stop,
                                           every_steps)
        ends = []
        for current in saved:
            ends.append(bool(listener.after_save(None, current)))
        current = end
        listener.end(None, end)
        assert listener.result == (steps[-1] if steps else None)
    return steps, ends


def test_every_checkpoint_but_the_first_is_evaluated_and_the_last_once():
    assert evaluated_steps([5, 10, 15], 15)[0] == [10, 15]
    assert evaluated_steps([0, 10, 15], 15)[0] == [10, 15]


def test_evaluations_are_at_the_multiples_and_at_the_end():
    assert evaluated_steps([0, 4, 5, 8, 10, 12], 12, every_steps=5)[0] == [5, 10, 12]
    assert evaluated_steps([7, 8, 10], 10, every_steps=5)[0] == [10]
    assert evaluated_steps([0], 0, every_steps=5)[0] == []


def test_an_evaluation_may_end_the_training():
    assert evaluated_steps([0, 5, 10], 10, enough_at=10) == ([5, 10], [False, False, True])


def saved_steps(tmp_path, periods, start, end):
    """Returns the steps at which checkpoints are saved in a training from `start` to `end`."""
    steps = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            steps.append(global_step_value)

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        saver = hooks.CheckpointSaver(str(tmp_path), periods)
        saver._listeners = [Listener()]
        scaffold = tf.train.Scaffold(init_op=tf.assign(step, start))
        with tf.train.SingularMonitoredSession([saver], scaffold=scaffold) as session:
            for _ in range(start, end):
                session.run(count)
    return steps


def test_checkpoints_are_saved_at_multiples_wherever_the_training_starts(tmp_path):
    assert saved_steps(tmp_path, [4], 0, 9) == [0, 4, 8, 9]
    assert saved_steps(tmp_path, [4], 3, 9) == [3, 4, 8, 9]
    assert saved_steps(tmp_path, [4, 6], 0, 12) == [0, 4, 6, 8, 12]


def test_the_progress_bar_counts_from_the_global_step(monkeypatch):
    bars = []
    monkeypatch.setattr(hooks.tqdm, 'tqdm', lambda **options: bars.append(Bar(options)) or bars[-1])

    class Bar:
        disable, format_dict = False, {'rate': 2.5}

        def __init__(self, options):
            self.options, self.n, self.closed = options, options['initial'], False

        def update(self, count):
            self.n += count

        def set_postfix(self, values, refresh):
            self.postfix = values

        def close(self):
            self.closed = True

    class Train(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            run_context.session.run(count)

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 4)
        scaffold = tf.train.Scaffold(init_op=tf.assign(step, 7))
        bar_hooks = [hooks.ProgressBar(tf.constant(0.12345), 16, epoch_steps, 32) for epoch_steps in (4.0, 0)]
        with tf.train.SingularMonitoredSession([*bar_hooks, Train()], scaffold=scaffold) as session:
            for _ in range(3):
                session.run(step)
    assert [(bar.options['desc'], bar.options['total'], bar.n) for bar in bars] == [('Training', 16, 16)] * 2
    assert bars[0].postfix == {'epoch': '4.00', 'examples/sec': '80', 'loss': '0.1235'}
    assert 'epoch' not in bars[1].postfix
    assert all(bar.closed and bar.options['disable'] is None for bar in bars)  # None: only on a terminal.
