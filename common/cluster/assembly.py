"""The assembly of an elastic cluster, before TensorFlow's servers start: its tasks agree on who trains.

Each task listens on its own port, and asks the others. Once enough are there, the one that will be the chief locks the
output_dir, and offers the others to train with it; each accepts once. A partition thus leaves one run at most: the chief
of another part finds the lock held.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import concurrent.futures
import contextlib
import dataclasses
import json
import queue
import socket
import socketserver
import threading
import time
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import json_text
from estimator_trainer.common.cluster.members import Members, check_alike
from estimator_trainer.common.cluster.membership import Formation, Hello, next_members
from estimator_trainer.common.cluster.probe import ANSWERS, FOREIGN, UNREACHABLE, host_and_port, probe_all
from estimator_trainer.common.cluster.server import port_in_use
from estimator_trainer.common.cluster.tf_config import ClusterConfig, task_name
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.locks import Held

_SECONDS = 1
_ANSWER_SECONDS = 5
_REMINDER_SECONDS = 20
_MAX_BYTES = 10**6


@dataclasses.dataclass(frozen=True)
class SharedDirectory:
    """The output_dir, which all tasks share.

    Attributes:
      path: of this process.
      lock: returns a context manager that locks it; raises Held if another process has.
      holder: returns what the last process that has locked it wrote; '' if it is remote.
      is_finished: returns whether its training is.
    """

    path: str
    lock: Callable[[], contextlib.AbstractContextManager[Any]]
    holder: Callable[[], str]
    is_finished: Callable[[], bool]


class Assembly:
    """Waits until enough tasks are there. Arguments as for Formation, Hello and `next_members`.

    Raises:
      RunError: the port is in use.
    """

    def __init__(self, config: ClusterConfig, own: Hello, needed: int, timeout: float, directory: SharedDirectory):
        self._config, self._own, self._needed, self._timeout, self._directory = config, own, needed, timeout, directory
        self._addresses = {i: config.addresses[job][index] for i, (job, index) in enumerate(config.trainers)}
        self._names = [task_name(*task) for task in config.trainers]
        self._members = Members(dict(zip(self._addresses.values(), self._names)), self._addresses[own.task])
        self._decisions: queue.SimpleQueue[Sequence[int] | UsageError] = queue.SimpleQueue()
        self._has_accepted = threading.Lock()
        self._reminder = time.monotonic() + _REMINDER_SECONDS

    def form(self) -> Formation | None:
        """Returns who trains; None if a run ended that went on without this task.

        Raises:
          UsageError: this task has just been started, and otherwise than another one.
          RunError: too few tasks are there within the timeout.
        """
        with self._listening():
            members = self._wait()
            return Formation(self._config, members) if members else None

    def _wait(self):
        start, has_waited = time.monotonic(), False
        while True:
            states, hellos = self._look()
            waited = time.monotonic() - start
            if ANSWERS in states.values():  # They train.
                if not has_waited:
                    tf.logging.info('The others train: waiting to take part from the next checkpoint on.')
                start, has_waited = time.monotonic(), True
            elif has_waited and self._directory.is_finished():
                tf.logging.info('The others have finished training.')
                return ()
            elif members := next_members(hellos, len(self._names), self._needed, waited, self._timeout):
                if members[0] == self._own.task and self._offer(members, waited):
                    return members
            elif waited > self._timeout:
                missing = self._members.describe_missing(self._absent(hellos), self._timeout)
                raise RunError(f'{self._config.source}: fewer than {self._needed} tasks (--min_tasks): {missing}')
            if ANSWERS not in states.values():
                self._remind(self._members.describe_absent(self._absent(hellos)))
            with contextlib.suppress(queue.Empty):
                decision = self._decisions.get(timeout=_SECONDS)
                if isinstance(decision, UsageError):
                    raise decision
                return decision

    def _look(self):
        """Returns {address: state} of the others, and the Hello of each task that waits, too, by its index."""
        states = probe_all(address for i, address in self._addresses.items() if i != self._own.task)
        hellos = {self._own.task: self._own}
        waiting = [address for address, state in states.items() if state == FOREIGN]
        for hello in answers(waiting, self._own):
            if self._is_alike(hello):
                hellos[hello.task] = hello
        return states, hellos

    def _is_alike(self, hello):
        """Whether a task may take part. A task that has not trained yet does not contradict: it ends with the difference."""
        if hello.task not in self._addresses:
            return False
        try:
            check_alike(self._names[hello.task], hello.facts, self._names[self._own.task], self._own.facts)
        except UsageError as error:
            if not self._own.expected:
                self._decisions.put(error)
            return False
        return True

    def _absent(self, hellos):
        return {address: UNREACHABLE for i, address in self._addresses.items() if i not in hellos}

    def _remind(self, what):
        if what and time.monotonic() > self._reminder:
            self._reminder += _REMINDER_SECONDS
            tf.logging.info('Waiting: %s.', what)

    def _offer(self, members, waited):
        """Returns whether all others of these tasks accept."""
        others = [self._addresses[i] for i in members[1:]]
        try:
            with self._directory.lock():
                offer = {'members': members, 'holder': self._directory.holder()}
                with concurrent.futures.ThreadPoolExecutor(len(members)) as pool:
                    replies = pool.map(lambda address: _exchange(address, {**_to_json(self._own), 'offer': offer}), others)
                    has_all = all(reply.get('accepts') is True for reply in replies)
        except Held as error:
            if waited > self._timeout:
                raise
            self._remind(str(error))
            return False
        return has_all and self._has_accepted.acquire(blocking=False)

    @contextlib.contextmanager
    def _listening(self):
        """Within the block, answers others."""
        assembly = self

        class Answer(socketserver.StreamRequestHandler):
            timeout = _ANSWER_SECONDS

            def handle(self):
                with contextlib.suppress(OSError):
                    request = _parse(self.rfile.readline(_MAX_BYTES))
                    self.wfile.write(_line({**_to_json(assembly._own), 'accepts': assembly._accept(request)}))

        try:
            server = _Server(('', int(host_and_port(self._addresses[self._own.task])[1])), Answer)
        except OSError as error:
            raise port_in_use(self._config, str(error.strerror)) from None
        with server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()

    def _accept(self, request):
        """Returns whether this task takes part, as another one asks, and notes that or a mistake."""
        offer = request.get('offer')
        try:
            hello = Hello.parse(request)
            members, holder = (offer['members'], offer['holder']) if offer else ((), '')
            is_valid = all(i in self._addresses for i in members) and (not offer or self._own.task in members)
        except (ValueError, TypeError, KeyError):  # Another program asks.
            return False
        if request.get('trains') is True:  # Those with whom this task has trained are not to go on without the one that asks.
            self._own = dataclasses.replace(self._own, expected=())
        if not is_valid or not self._is_alike(hello) or not members or not self._has_accepted.acquire(blocking=False):
            return False
        if holder != self._directory.holder():
            name = self._members.listed([self._addresses[hello.task]])
            self._decisions.put(
                UsageError(
                    f'--min_tasks: --output_dir={self._directory.path} is not that of {name}: give all tasks the same one'
                )
            )
            return False
        self._decisions.put(tuple(members))
        return True


class Returning:
    """Asks, from the chief that trains, whether tasks wait to take part.

    Args:
      own: of this task; with the facts that they must have.
    """

    def __init__(self, formation: Formation, own: Hello):
        self._absent, self.own = formation.absent, own
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.is_any = False

    def start(self) -> None:
        """Begins to ask, unless it has begun before."""
        if self._absent and not self._thread.ident:
            self._thread.start()

    def stop(self) -> None:
        self._is_over.set()

    def _run(self):
        while not self._is_over.wait(_SECONDS):
            waiting = [address for address, state in probe_all(self._absent).items() if state == FOREIGN]
            self.is_any = any(hello.facts == self.own.facts for hello in answers(waiting, self.own, trains=True))


class _Server(socketserver.ThreadingTCPServer):
    """Listens on all interfaces, as TensorFlow's server will."""

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def answers(addresses: Iterable[str], own: Hello, trains: bool = False) -> list[Hello]:
    """Says hello to the tasks at addresses, and whether this one trains, and returns what they say."""
    found = []
    given = list(addresses)
    with concurrent.futures.ThreadPoolExecutor(max(len(given), 1)) as pool:
        for reply in pool.map(lambda address: _exchange(address, {**_to_json(own), 'trains': trains}), given):
            with contextlib.suppress(ValueError):
                found.append(Hello.parse(reply))
    return found


def _exchange(address, message) -> Mapping[str, Any]:
    """Sends a JSON object to a task that waits, and returns its reply; {} if there is none."""
    host, port = host_and_port(address)
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), _ANSWER_SECONDS) as connection:
        connection.sendall(_line(message))
        with connection.makefile('rb') as file:
            return _parse(file.readline(_MAX_BYTES))
    return {}


def _to_json(hello):
    return dataclasses.asdict(hello)


def _line(value):
    return json.dumps(value).encode() + b'\n'


def _parse(line):
    """Returns the JSON object in a line; {} if there is none."""
    try:
        value = json_text.loads(line.decode())
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
