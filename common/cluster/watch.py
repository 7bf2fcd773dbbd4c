"""Detection of tasks that have ended or hang, even while this process waits for them in TensorFlow."""

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
    """Returns the state of the task at an address, 'host:port'.

    ANSWERS: it runs; SILENT: it hangs; LOST: nothing listens there; UNREACHABLE: its host does not answer.
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
    except OSError:  # It just ended.
        return LOST


def probe_all(addresses: Iterable[str]) -> dict[str, str]:
    """Returns the state at each address, see `probe`."""
    found = list(addresses)
    with concurrent.futures.ThreadPoolExecutor(max(len(found), 1)) as pool:
        return dict(zip(found, pool.map(probe, found)))


class Watch:
    """Calls a function when a task is lost or silent, or a step exceeds its deadline.

    TensorFlow reports a lost task to its receivers, but not to tasks that wait for it to fetch.

    Args:
      addresses: of the tasks, 'host:port'.
      timeout: seconds after which a silent task or an unfinished step counts as failed.
      on_loss: called in its own thread, every second until `stop`, as a new wait may have begun since.
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
        """Limits this process's wait for others, from now on, to the timeout times the steps; 0 removes the limit."""
        self._deadline = time.monotonic() + steps * self._timeout if steps else math.inf

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self._deadline

    def stop(self) -> None:
        """Ends the watch and waits for `on_loss`: a thread still in TensorFlow would abort the process at exit."""
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
