"""Processes forked from a server, which has imported what they need: a fork starts in milliseconds, an import takes seconds."""

from collections.abc import Sequence
import contextlib
import json
from multiprocessing import connection
import os
import signal
import socket
import subprocess
import tempfile

from estimator_trainer.common import processes
from estimator_trainer.common.errors import RunError

_MAX_BYTES, _MAX_DESCRIPTORS = 1 << 18, 8  # Of a request: more than Linux sends, and more than are passed.


class Server:
    """A process that forks others, within the `with` block; its script calls `serve`.

    Args:
      arguments: the script and its arguments.
    """

    def __init__(self, arguments: Sequence[str]):
        self._arguments = arguments

    def __enter__(self) -> 'Server':
        self._directory = tempfile.TemporaryDirectory()  # For an error before it serves.
        self._log_path = os.path.join(self._directory.name, 'log.txt')
        self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = processes.start(self._arguments, self._log_path, stdin=theirs, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *unused_exception):
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # Also if a fork of this program has it, too.
        self._control.close()
        self._process.terminate()  # It may still be importing.
        self._process.wait()
        self._directory.cleanup()

    def start(self, arguments: Sequence[str], log_path: str, pass_fds: Sequence[int] = ()) -> 'Fork':
        """Forks a process, which continues with the arguments where the server's script has called `serve`.

        Args:
          log_path: of a local file, to which its stderr is appended; its stdout is discarded.
          pass_fds: file descriptors that the process keeps open.

        Raises:
          RunError: the server has ended.
        """
        ours, theirs = socket.socketpair()
        with theirs, open(log_path, 'ab') as log, contextlib.suppress(BrokenPipeError):
            descriptors = [theirs.fileno(), log.fileno(), *pass_fds]
            socket.send_fds(self._control, [json.dumps(arguments).encode()], descriptors)
        try:
            return Fork(ours)
        except EOFError:
            ours.close()
            raise RunError(f'no process can be started: {self._explain()}') from None

    def _explain(self):
        return processes.cause(self._log_path, self._process.wait())


class Fork:
    """A process that a server has forked, with what a sweep needs of subprocess.Popen."""

    def __init__(self, ours: socket.socket):
        self.returncode: int | None = None
        self._connection = ours
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        if not descriptors:
            raise EOFError
        self._descriptor = descriptors[0]

    def poll(self) -> int | None:
        """Returns the exit code, or None while the process runs."""
        if self.returncode is None:
            with contextlib.suppress(BlockingIOError):
                self._end(self._connection.recv(16, socket.MSG_DONTWAIT))
        return self.returncode

    def wait(self) -> int:
        """Waits for the end of the process and returns its exit code."""
        if self.returncode is None:
            self._end(self._connection.recv(16))
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        """Sends SIGTERM, unless the process has ended."""
        if self.poll() is None:
            _terminate(self._descriptor)

    def _end(self, text):
        if text:
            self.returncode = int(text)
        else:  # The server was killed: nobody knows the exit code.
            _terminate(self._descriptor)
            connection.wait([self._descriptor])
            self.returncode = -signal.SIGTERM
        os.close(self._descriptor)
        self._connection.close()


def _terminate(descriptor):
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)


def can_fork() -> bool:
    """Whether this system has what `serve` needs: Linux 5.3 or later."""
    if not hasattr(os, 'pidfd_open'):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


def make_server(arguments: Sequence[str]) -> Server | None:
    """Returns a `Server` of the trainer with arguments; None if this system has no forks."""
    return Server([processes.SCRIPT, *arguments]) if can_fork() else None


def serve(outlive: bool = False) -> list[str] | None:
    """Forks a process for each request of the `Server` at stdin, and returns there the request's arguments; None at its end.

    The calling process must have no threads but those that their library restarts in a fork.

    Args:
      outlive: whether the forks go on if the program of the `Server` is killed; else they get SIGTERM.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, processes.SIGNALS)  # They are for the forks, not for their server.
    running: dict[int, tuple[int, socket.socket]] = {}  # By the descriptor of a fork: its number, and its connection.
    with socket.socket(fileno=os.dup(0)) as control:
        while True:
            ready = connection.wait([control, *running])
            for descriptor in running.keys() & {*ready}:
                _report(descriptor, *running.pop(descriptor))
            if control not in ready:
                continue
            request, received, _, _ = socket.recv_fds(control, _MAX_BYTES, _MAX_DESCRIPTORS)
            if not request:
                for descriptor in () if outlive else running:
                    _terminate(descriptor)
                return None
            theirs, log = socket.socket(fileno=received[0]), received[1]
            if not (number := os.fork()):
                break
            for file in received[1:]:
                os.close(file)
            descriptor = os.pidfd_open(number)
            running[descriptor] = number, theirs
            with contextlib.suppress(OSError):  # The sweep was killed.
                socket.send_fds(theirs, [b'.'], [descriptor])
    for descriptor, (_, other) in running.items():
        os.close(descriptor)
        other.close()
    theirs.close()
    _become(log)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return json.loads(request)


def _report(descriptor, number, theirs):
    """Sends the exit code of a fork that has ended, as subprocess.Popen has it."""
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    with theirs, contextlib.suppress(OSError):
        theirs.send(str(code).encode())
    os.close(descriptor)


def _become(log):
    """Makes this process the leader of a session, with an empty stdin, and the log as stderr; see `processes.start`."""
    os.setsid()
    empty = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((empty, 0), (log, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
