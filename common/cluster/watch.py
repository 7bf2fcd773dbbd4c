"""Notices that another task has ended or hangs, even while this process waits for it in TensorFlow."""

from collections.abc import Callable, Iterable, Sequence
import concurrent.futures
import math
import socket
import threading
import time

ANSWERS, SILENT, LOST, UNREACHABLE = 'answers', 'silent', 'lost', 'unreachable'

_SECONDS = 1
_ANSWER_SECONDS = 2
_STOP_SECONDS = 5


def probe(address: str) -> str:
    """Returns what is at an address, 'host:port'.

    ANSWERS is a task; it is SILENT if it hangs; it is LOST if nothing listens there; the host may be UNREACHABLE.
    """
    host, _, port = address.rpartition(':')
    try:
        connection = socket.create_connection((host.strip('[]'), int(port)), _ANSWER_SECONDS)
    except ConnectionRefusedError:
        return LOST
    except OSError:
        return UNREACHABLE
    try:
        with connection:
            return ANSWERS if connection.recv(1) else LOST  # A gRPC server begins with its settings.
    except TimeoutError:
        return SILENT
    except OSError:  # It has just ended.
        return LOST


def probe_all(addresses: Iterable[str]) -> dict[str, str]:
    """Returns what is at each address, see `probe`."""
    found = list(addresses)
    with concurrent.futures.ThreadPoolExecutor(max(len(found), 1)) as pool:
        return dict(zip(found, pool.map(probe, found)))


class Watch:
    """Calls a function when a task is lost, does not answer for long, or a step takes too long.

    TensorFlow reports a lost task to those that receive from it, but not to those that wait for it to take what they have for
    it.

    Args:
      addresses: of the tasks, 'host:port'.
      timeout: seconds after which a task that does not answer, or a step that does not end, has failed.
      on_loss: called in a thread of its own, every second until `stop`: what this process waits for may have begun since.
    """

    def __init__(self, addresses: Sequence[str], timeout: float, on_loss: Callable[[], None]):
        self._last_answers = dict.fromkeys(addresses, time.monotonic())
        self._timeout = timeout
        self._on_loss = on_loss
        self._deadline = math.inf
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def set_deadline(self, steps: int) -> None:
        """Bounds the time that this process waits for others from now on by the timeout for each step; 0: no longer."""
        self._deadline = time.monotonic() + steps * self._timeout if steps else math.inf

    @property
    def is_late(self) -> bool:
        """Whether what this process waits for has not come in time."""
        return time.monotonic() > self._deadline

    def stop(self) -> None:
        """Ends the watch; waits for the end of `on_loss`: a thread within TensorFlow would abort the process as it ends."""
        self._is_over.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self):
        lost: set[str] = set()
        while not self._is_over.wait(_SECONDS):
            states = probe_all(self._last_answers)
            now = {address for address, state in states.items() if state == LOST}
            self._last_answers |= {address: time.monotonic() for address, state in states.items() if state == ANSWERS}
            is_silent = time.monotonic() > min(self._last_answers.values()) + self._timeout
            if (now & lost or is_silent or self.is_late) and not self._is_over.is_set():
                self._on_loss()
            lost = now
