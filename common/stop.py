"""Graceful stopping on signals, after saving a checkpoint."""

from collections.abc import Callable, Iterator
import contextlib
import math
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import print_error
from estimator_trainer.common.processes import SIGNALS

_SECOND_SIGNAL_SECONDS = 1
_POLL_SECONDS = 0.1
_CHILD_POLL_SECONDS = 0.02

# The phases of a process. They determine what its first signal does, and how long it may take to exit.
_OUTSIDE, _STEPPING, _SAVING, _DEFERRING = range(4)


class StopOnSignal(tf.train.SessionRunHook):
    """Stops training after the current step on SIGINT, SIGTERM or SIGHUP, so that its checkpoint is saved.

    Outside of training, with nothing to save, the signal ends the process immediately with exit code 128 + signal; so does a
    second signal, such as another Ctrl-C. Python handles signals only between its own instructions, not while TensorFlow reads
    data or computes: a thread ends the process if that takes too long, as when a step waits for data that never arrives. Use it
    as a context manager around everything, in the main thread, and as a hook of training.

    Args:
      step_seconds: time limit of the current step after a signal, if longer than three times the longest step. Kubernetes kills
          30 seconds after SIGTERM: a step that waited longer for its input would also lose the exit code.
      exit_seconds: time limit of the exit, before the process is forced to end.
    """

    def __init__(self, step_seconds: float = 20, exit_seconds: float = 3):
        self._step_seconds, self._exit_seconds = step_seconds, exit_seconds
        self._received: int | None = None
        self._is_exiting = False
        self._since = math.inf
        self._longest_step: float = 0
        self._enter(_OUTSIDE)

    def __enter__(self) -> 'StopOnSignal':
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup ignores it.
            numbers.append(signal.SIGHUP)
        self._previous = {number: signal.signal(number, self._handle) for number in numbers}
        receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._previous_fd = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, args=(receiver,), daemon=True)
        self._watcher.start()
        _active.append(self)
        return self

    def __exit__(self, unused_type, error, unused_traceback):
        _active.remove(self)
        signal.set_wakeup_fd(self._previous_fd)
        self._restore()
        self._sender.close()
        self._watcher.join()
        self._exit_instead_of(error)

    def leave_in_child(self) -> None:
        """Lets signals end this forked process."""
        signal.set_wakeup_fd(-1)
        self._restore()

    def _restore(self):
        for number, handler in self._previous.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, handler)

    def _enter(self, phase):
        self._phase = phase, time.monotonic()

    def _handle(self, number, unused_frame):
        is_second = self._received is not None and _is_second(number, self._since)
        if self._received is None:
            self._received, self._since = number, time.monotonic()
        if is_second or self._phase[0] == _OUTSIDE:
            self._is_exiting = True
            self._exit(number)

    def _exit_instead_of(self, error):
        # Interrupted C++ code of TensorFlow replaces the exit with its own exception.
        if self._is_exiting and isinstance(error, Exception):
            self._exit(self._received)

    def _exit(self, number):
        sys.exit(128 + number)

    def _watch(self, receiver):
        """Ends the process if the main thread does not end it in time after a signal."""
        with receiver, contextlib.suppress(EOFError):
            number = self._receive(receiver)
            first = last = time.monotonic()
            second, suspended = None, 0.0
            receiver.settimeout(_POLL_SECONDS)
            while True:
                another = self._receive(receiver)
                now = time.monotonic()
                # Time in which the whole process rests, as on a suspended machine, does not count.
                suspended += max(now - last - 2 * _POLL_SECONDS, 0)
                last = now
                if another:
                    number = another
                    second = second or (now if _is_second(number, first) else None)
                if now > self._deadline(first, second) + suspended:
                    self._end_process(number)

    def _receive(self, receiver):
        """Returns the next handled signal; None if none comes within the receiver's timeout; EOFError at its end."""
        while True:
            try:
                numbers = receiver.recv(1)
            except TimeoutError:
                return None
            if not numbers:
                raise EOFError
            if signal.getsignal(numbers[0]) == self._handle:  # A model or dataset may have installed its own handler.
                return numbers[0]

    def _deadline(self, first, second):
        phase, since = self._phase
        if second and phase != _DEFERRING:
            return second + _SECOND_SIGNAL_SECONDS
        grace = {_OUTSIDE: self._exit_seconds, _STEPPING: max(self._step_seconds, 3 * self._longest_step)}
        return max(first, since) + grace.get(phase, math.inf)

    def _end_process(self, number):
        if self._phase[0] in (_STEPPING, _SAVING):
            print_error(
                sys.argv[0],
                f'{signal.Signals(number).name}: ended before the step finished; the steps since the last checkpoint '
                'are not saved: rerun the command to resume from it',
            )
        sys.stderr.flush()
        os._exit(128 + number)

    def begin(self):
        self._enter(_STEPPING)

    def after_run(self, run_context, run_values):
        self.finish_step(run_context, self._received)

    @property
    def received(self) -> int | None:
        """The number of the first signal."""
        return self._received

    def hear(self, number: int) -> None:
        """Stops this process, too, on a signal to another process of the cluster."""
        self._received = self._received or number

    def finish_step(self, run_context: tf.train.SessionRunContext, number: int | None) -> None:
        """Ends a step; call it after each, with the signal to stop on, received here or by another process of a cluster."""
        _, since = self._phase
        self._longest_step = max(self._longest_step, time.monotonic() - since)
        self._enter(_STEPPING)
        if number:
            self.hear(number)
            tf.logging.info('%s: stopping after saving a checkpoint; rerun the command to resume.', signal.Signals(number).name)
            self._enter(_SAVING)
            run_context.request_stop()

    def end(self, session):
        self._enter(_OUTSIDE)

    def exit_if_received(self) -> None:
        """Ends the process if a signal was received."""
        if self._received:
            self._exit(self._received)

    def wait_for(self, process: Any, meanwhile: Callable[[], Any] = lambda: None) -> int:
        """Waits until a child process has ended, and returns its exit code; use it where signals are deferred.

        A signal, and any other exit, ends the child first.

        Args:
          process: subprocess.Popen, or alike.
          meanwhile: is called first, while the child runs.
        """
        try:
            meanwhile()
            while process.poll() is None:
                time.sleep(_CHILD_POLL_SECONDS)
                self.exit_if_received()
        finally:
            process.terminate()
            code = process.wait()
        return code

    @contextlib.contextmanager
    def defer_signals(self) -> Iterator[None]:
        """Within the block, a signal is only recorded, for `exit_if_received`."""
        phase, _ = self._phase
        self._enter(_DEFERRING)
        try:
            yield
        finally:
            self._enter(phase)

    def call_outside_training(self, fn: Callable[[], Any]) -> Any:
        """Calls `fn` during training, right after a checkpoint; returns None if a signal interrupts it."""
        if self._received:
            return None
        self._enter(_OUTSIDE)
        try:
            return fn()
        except BaseException:
            if not self._received:
                raise
            return None
        finally:
            self._enter(_STEPPING)


class StopInProgram(StopOnSignal):
    """StopOnSignal for a program that trains among other things, in any thread.

    In the main thread, handles the signals that have Python's default handlers. Never ends the process by force; Ctrl-C becomes
    a KeyboardInterrupt, after the checkpoint.
    """

    def __enter__(self) -> 'StopInProgram':
        numbers = []
        if threading.current_thread() is threading.main_thread():
            defaults = (signal.SIG_DFL, signal.default_int_handler)
            numbers = [number for number in SIGNALS if signal.getsignal(number) in defaults]
        self._previous = {number: signal.signal(number, self._handle) for number in numbers}
        _active.append(self)
        return self

    def __exit__(self, unused_type, error, unused_traceback):
        _active.remove(self)
        self._restore()
        self._exit_instead_of(error)

    def leave_in_child(self) -> None:
        self._restore()

    def _exit(self, number):
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        super()._exit(number)


_active: list[StopOnSignal] = []


def received() -> int | None:
    """Returns the number of the first signal to this process, if a StopOnSignal has received one."""
    return next((stop.received for stop in _active if stop.received), None)


def _restore_in_child():
    """Lets signals end a process forked by a model or dataset, without reaching the parent's watcher."""
    for stop in _active:
        stop.leave_in_child()


os.register_at_fork(after_in_child=_restore_in_child)


def _is_second(number, since):
    """Whether a signal counts as a second request to stop: process managers may send the same SIGTERM twice in a row."""
    return number == signal.SIGINT or time.monotonic() > since + 1
