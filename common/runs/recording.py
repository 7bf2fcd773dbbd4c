"""The record of a run: of its start, once its session stands, and in status.json, to its end."""

from collections.abc import Callable, Iterator
import contextlib
import signal

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.monitoring.status_file import StatusFile
from estimator_trainer.common.plugins.traceback_filter import in_a_line
from estimator_trainer.common.runs.diagnosis import find_cause
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage.status import State


@contextlib.contextmanager
def recorded(output_dir: str, is_resumed: bool, stop: StopOnSignal) -> Iterator[StatusFile]:
    """Yields the StatusFile of a run, which is the block, and records how it ends.

    Args:
      output_dir, is_resumed: see StatusFile.
    """
    file = StatusFile(output_dir, is_resumed)
    file.enter(State.PREPARING)
    try:
        yield file
    except BaseException as error:
        with contextlib.suppress(Exception):  # The disk may be full, or the directory gone, which `error` says.
            cause = find_cause(error) if isinstance(error, Exception) else None
            if stop.received:
                file.enter(State.STOPPED, signal.Signals(stop.received).name)
            elif isinstance(cause, UsageError):
                file.refuse(str(cause))
            else:
                file.enter(State.FAILED, str(cause) if cause else in_a_line(error))
        raise
    file.enter(State.FINISHED)


class AfterStart(tf.train.SessionRunHook):
    """Calls a function, once, when a session has started: the graph is built, and the checkpoint restored."""

    def __init__(self, call: Callable[[], None]):
        self._call = call

    def after_create_session(self, session, coord):
        self._call()
        self._call = lambda: None  # After an AbortedError, TensorFlow starts another session.
