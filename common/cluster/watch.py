"""Detection of tasks that have ended or hang, even while this process waits for them in TensorFlow."""

from collections.abc import Callable, Collection
import math
import threading
import time

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.members import Members
from estimator_trainer.common.cluster.probe import probe_all
from estimator_trainer.common.cluster.sightings import Sightings

_SECONDS = 1
_STOP_SECONDS = 5
_GRACE_SECONDS = 5  # Those who know which task is at fault end first.


class Watch:
    """Calls a function when a task is lost or silent, or a step exceeds its deadline.

    TensorFlow reports a lost task to its receivers, but not to tasks that wait for it to fetch.

    Args:
      members: for the messages.
      timeout: seconds after which a silent task or an unfinished step counts as failed.
      on_loss: called in its own thread, every second until `stop`, as a new wait may have begun since.

    Attributes:
      sightings: what has been seen.
    """

    def __init__(self, members: Members, timeout: float, on_loss: Callable[[], None]):
        self._members = members
        self._addresses: Collection[str] = ()
        self._has_told = False  # Of an outage.
        self._timeout = timeout
        self._on_loss = on_loss
        self.sightings = Sightings()
        self._lock = threading.Lock()
        self._step_start = 0.0
        self._deadline = math.inf
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, addresses: Collection[str]) -> None:
        """Begins to ask the tasks at these addresses, 'host:port'."""
        self._addresses = addresses
        self._thread.start()

    def set_deadline(self, steps: int) -> None:
        """Limits this process's wait for others, from now on, to the timeout times the steps; 0 removes the limit."""
        self._step_start = time.monotonic()
        self._deadline = self._step_start + steps * self._timeout if steps else math.inf

    def complete_step(self) -> None:
        """Notes that all tasks have run a step, for which `set_deadline` was called. It removes the limit."""
        with self._lock:
            now = time.monotonic()
            self.sightings.complete_step(now, now - self._step_start)
        self._deadline = math.inf

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self._deadline

    def look(self, addresses: Collection[str]) -> Sightings:
        """Asks the tasks at these addresses, and returns what has been seen."""
        asked = time.monotonic()
        states = probe_all(addresses)
        with self._lock:
            self.sightings.see(states, asked, time.monotonic())
        return self.sightings

    def stop(self) -> None:
        """Ends the watch and waits for `on_loss`: a thread still in TensorFlow would abort the process at exit."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def is_failing(self) -> bool:
        """Whether a task is lost or silent, or the step exceeds its deadline. Asks the tasks if no steps complete."""
        is_quiet = self.sightings.is_quiet(time.monotonic())
        has_loss = not is_quiet and self.look(self._addresses).has_loss(time.monotonic(), self._timeout)
        self._tell_of_outage()
        return has_loss or time.monotonic() > self._deadline + _GRACE_SECONDS

    def _tell_of_outage(self):
        is_cut_off = self.sightings.is_long_cut_off(time.monotonic())
        if is_cut_off and not self._has_told:
            culprits = self._members.describe_troubles(self.sightings.culprits())
            tf.logging.warning('%s; waiting for up to %g seconds (--cluster_timeout).', culprits, self._timeout)
        self._has_told = is_cut_off

    def _run(self):
        while not self._is_over.wait(_SECONDS):
            if self.is_failing() and not self._is_over.is_set():
                self._on_loss()
