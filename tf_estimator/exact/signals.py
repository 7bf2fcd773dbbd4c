"""Signals that end a run after its step is saved."""

from collections.abc import Iterator
import contextlib
import signal
import threading
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


class Stop:
    """What a signal asks for.

    Attributes:
      number: of the signal that has arrived, or None.
      is_saved: whether there is nothing to save, as during an evaluation: then a signal ends the process at once.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.is_saved = False

    def exit(self) -> None:
        """Raises SystemExit with the exit code of the signal."""
        raise SystemExit(128 + (self.number or 0))


@contextlib.contextmanager
def watching() -> Iterator[Stop]:
    """Yields what a signal asks for within the block; a second signal does what it did before the block.

    A program's own handlers stay, and threads other than the main one have none.
    """
    stop = Stop()
    previous: dict[signal.Signals, Any] = {}

    def handle(number, frame):
        restore()
        stop.number = number
        if stop.is_saved:
            stop.exit()

    def restore():
        while previous:
            signal.signal(*previous.popitem())

    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if signal.getsignal(number) in _DEFAULTS:
                previous[number] = signal.signal(number, handle)
    try:
        yield stop
    finally:
        restore()
