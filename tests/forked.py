"""Python processes forked from one that has imported TensorFlow and the trainer: each saves 3 seconds of CPU.

Test imports and their output with `subprocess` instead.
"""

import contextlib
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
context = multiprocessing.get_context('forkserver')
context.set_forkserver_preload(['tests.preloaded'])


class Popen:
    """Like subprocess.Popen(..., text=True), for [sys.executable, SCRIPT or '-c', ...]; stdin is a file."""

    def __init__(self, args, *, stdin=None, stdout=None, stderr=None, cwd=None, env=None, start_new_session=False, **unused):
        assert args[0] == sys.executable and args[1] != '-m'
        self.stdout, out = _opened(stdout, 1)
        self.stderr, err = (None, os.dup(out)) if stderr == subprocess.STDOUT else _opened(stderr, 2)
        standard = [_opened(stdin, 0)[1] if stdin is not None else os.open(os.devnull, os.O_RDONLY), out, err]
        argv, cwd, env = [os.fspath(arg) for arg in args[1:]], os.fspath(cwd or os.getcwd()), dict(env or os.environ)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = context.Process(target=_become, args=(theirs, argv, cwd, env, start_new_session))
            self._process.start()
            socket.send_fds(ours, [b'.'], standard)
        for fd in standard:
            os.close(fd)
        self.args, self.pid = args, self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._process.exitcode

    def communicate(self, timeout=None):
        found = {}
        files = [file for file in (self.stdout, self.stderr) if file and not file.closed]
        readers = [threading.Thread(target=lambda file=file: found.update({file: file.read()})) for file in files]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        for file in files:
            file.close()
        return found.get(self.stdout, ''), found.get(self.stderr, '')

    def send_signal(self, number):
        with contextlib.suppress(ProcessLookupError):  # It may just have ended.
            if self._process.exitcode is None:
                os.kill(self.pid, number)

    def terminate(self):
        self._process.terminate()

    def kill(self):
        self._process.kill()


def run(args, **options):
    """Like subprocess.run(args, capture_output=True, text=True, check=False)."""
    process = Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    out, err = process.communicate()
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def _opened(file, inherited):
    """Returns the file that this process reads, or None, and a new descriptor for the other process."""
    if file is None:
        return None, os.dup(inherited)
    if file == subprocess.PIPE:
        receiver, sender = os.pipe()
        return os.fdopen(receiver), sender
    if file == subprocess.DEVNULL:
        return None, os.open(os.devnull, os.O_RDWR)
    return None, os.dup(file if isinstance(file, int) else file.fileno())


def _become(server, argv, cwd, env, start_new_session):
    """Runs a script, or the code after -c, in this process."""
    _, fds, _, _ = socket.recv_fds(server, 1, 3)
    server.close()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = open(0)
    os.chdir(cwd)
    for name in os.environ.keys() - env.keys() - {'TF_USE_LEGACY_KERAS'}:  # Set by importing tf_estimator.
        del os.environ[name]
    os.environ.update(env)
    if start_new_session:
        os.setsid()
    script, *arguments = argv
    if script == '-c':
        sys.argv = ['-c', *arguments[1:]]
        exec(arguments[0], {'__name__': '__main__'})
    else:
        sys.argv = argv
        runpy.run_path(script, run_name='__main__')
