"""Ending on a signal, with a checkpoint."""

import contextlib
import math
import os
import select
import signal
import socket
import sys
import threading
import time

import tensorflow.compat.v1 as tf

from common.errors import print_error

# Seconds that the process may take to end, after which it is ended. Kubernetes kills 30 seconds after SIGTERM: a step that
# waits for its input longer than that would lose the exit code, too.
_TO_UNWIND = 3
_TO_END_A_STEP = 20
_TO_HEED_A_SECOND_SIGNAL = 1

# Where a process is: what its first signal does there, and how long it may take.
_OUTSIDE, _STEPPING, _SAVING, _NOTING = range(4)


class StopOnSignal(tf.train.SessionRunHook):
    """Ends the training after the current step on SIGINT, SIGTERM or SIGHUP, so that a checkpoint of it is saved.

    Outside the training, where there is nothing to save, the signal ends the process at once with exit code 128 + signal;
    so does a second one, such as Ctrl-C again. Python heeds signals between its own instructions only, not while TensorFlow
    reads data or computes: a thread ends the process where that takes too long, as when a step waits for data that does not
    come. Used as a context manager around everything, in the main thread, and as a hook of the training.
    """

    def __init__(self):
        self._received = None
        self._since = math.inf
        self._longest_step = 0
        self._enter(_OUTSIDE)

    def __enter__(self):
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # As it is under nohup.
            numbers.append(signal.SIGHUP)
        self._previous = {number: signal.signal(number, self._handle) for number in numbers}
        receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._previous_fd = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, args=(receiver,), daemon=True)
        self._watcher.start()
        _entered.append(self)
        return self

    def __exit__(self, *unused_exception):
        _entered.remove(self)
        self._restore(self._previous_fd)
        self._sender.close()
        self._watcher.join()

    def _restore(self, wakeup_fd):
        signal.set_wakeup_fd(wakeup_fd)
        for number, handler in self._previous.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, handler)

    def _enter(self, place):
        self._place = place, time.monotonic()

    def _handle(self, number, unused_frame):
        is_second = self._received is not None and _is_second(number, self._since)
        if self._received is None:
            self._received, self._since = number, time.monotonic()
        if is_second or self._place[0] == _OUTSIDE:
            sys.exit(128 + number)

    def _watch(self, receiver):
        """Ends the process if the main thread does not."""
        first, second = None, None  # When a signal came.
        with receiver:
            while True:
                has_come, _, _ = select.select([receiver], [], [], None if first is None else 0.1)
                now = time.monotonic()
                if has_come:
                    numbers = receiver.recv(1)
                    if not numbers:
                        return
                    if numbers[0] not in self._previous or signal.getsignal(numbers[0]) != self._handle:
                        continue  # A model or a dataset may have taken it over.
                    number = numbers[0]
                    if first is None:
                        first = now
                    elif _is_second(number, first):
                        second = second or now
                if first is not None and now > self._deadline(first, second):
                    self._end_process(number)

    def _deadline(self, first, second):
        place, since = self._place
        if second and place != _NOTING:
            return second + _TO_HEED_A_SECOND_SIGNAL
        patience = {_OUTSIDE: _TO_UNWIND, _STEPPING: max(_TO_END_A_STEP, 3 * self._longest_step)}.get(place, math.inf)
        return max(first, since) + patience

    def _end_process(self, number):
        if self._place[0] in (_STEPPING, _SAVING):
            print_error(
                sys.argv[0],
                f'{signal.Signals(number).name}: ended before the step did; the steps since the last checkpoint '
                'are not saved: rerun the command to resume from it',
            )
        sys.stderr.flush()
        os._exit(128 + number)

    def begin(self):
        self._enter(_STEPPING)

    def after_run(self, run_context, run_values):
        _, since = self._place
        self._longest_step = max(self._longest_step, time.monotonic() - since)
        self._enter(_STEPPING)
        if self._received:
            tf.logging.info(
                '%s: stopping after saving a checkpoint; rerun the command to resume.', signal.Signals(self._received).name
            )
            self._enter(_SAVING)
            run_context.request_stop()

    def end(self, session):
        self._enter(_OUTSIDE)

    def exit_if_received(self):
        """Ends the process if a signal came."""
        if self._received:
            sys.exit(128 + self._received)

    @contextlib.contextmanager
    def defer_signals(self):
        """In its block a signal is only noted, for `exit_if_received`."""
        self._enter(_NOTING)
        try:
            yield
        finally:
            self._enter(_OUTSIDE)

    def call_outside_training(self, fn):
        """Calls `fn` amid the training, right after a checkpoint; a signal then need not wait for `fn` to finish."""
        if self._received:
            return None
        self._enter(_OUTSIDE)
        result = fn()
        self._enter(_STEPPING)
        return result


_entered = []


def _leave_to_parent():
    """In a process that a model or a dataset forks, signals end that process, and do not reach this one's watcher."""
    for stop in _entered:
        stop._restore(-1)


os.register_at_fork(after_in_child=_leave_to_parent)


def _is_second(number, since):
    """Whether a signal is another one, by somebody impatient; what starts processes may send the same SIGTERM twice."""
    return number == signal.SIGINT or time.monotonic() > since + 1
