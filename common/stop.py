"""Ending on a signal, with a checkpoint."""

import contextlib
import signal
import sys

import tensorflow.compat.v1 as tf


class StopOnSignal(tf.train.SessionRunHook):
    """Ends the training after the current step on SIGINT, SIGTERM or SIGHUP, so that a checkpoint of it is saved.

    Outside the training, where there is nothing to save, the signal ends the process at once with exit code 128 + signal;
    so does a second Ctrl-C. Used as a context manager around everything, and as a hook of the training.
    """

    def __init__(self):
        self._received = None
        self._training = False

    def __enter__(self):
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # As it is under nohup.
            numbers.append(signal.SIGHUP)
        self._previous = {number: signal.signal(number, self._handle) for number in numbers}
        return self

    def __exit__(self, *unused_exception):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number, unused_frame):
        is_impatient = self._received is not None and number == signal.SIGINT
        self._received = number
        if is_impatient or not self._training:
            sys.exit(128 + number)

    def begin(self):
        self._training = True

    def after_run(self, run_context, run_values):
        if self._received:
            tf.logging.info('%s: stopping after a checkpoint; the same command goes on from there.',
                            signal.Signals(self._received).name)
            run_context.request_stop()

    def end(self, session):
        self._training = False

    def exit_if_received(self):
        """Ends the process if a signal came."""
        if self._received:
            sys.exit(128 + self._received)

    @contextlib.contextmanager
    def noting(self):
        """In its block a signal is only noted, for `exit_if_received`."""
        self._training = True
        try:
            yield
        finally:
            self._training = False

    def call_outside_training(self, fn):
        """Calls `fn` amid the training, right after a checkpoint; a signal then need not wait for `fn` to finish."""
        if self._received:
            return None
        self._training = False
        result = fn()
        self._training = True
        return result
