"""Processes that are forked from one that has imported TensorFlow and the trainer: each starts 3 seconds of CPU earlier.

That one has started nothing of TensorFlow, and has no threads. What a process imports, or says while it does, is to be tested
with `subprocess.Popen`.
"""

import ctypes
import fcntl
import gc
import json
import os
import runpy
import socket
import subprocess
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PR_SET_CHILD_SUBREAPER = 36
_ABOVE = 200  # File descriptors that a process has by the time it starts are all lower.
_server = None
_Popen = subprocess.Popen  # A test may put the one below in its place.


class Popen(_Popen):
    """As subprocess.Popen, for [sys.executable, SCRIPT or '-c', ...]; what else is started is started as ever.

    The processes become children of this one: their parents, which are forked between, end at once.
    """

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        if args[0] != sys.executable or args[1] == '-m' or preexec_fn or sys.platform != 'linux':
            return super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
        start_new_session, pipes = rest[14], rest[3:9]
        request = {
            'argv': [os.fspath(arg) for arg in args[1:]],
            'cwd': os.fspath(cwd or os.getcwd()),
            'env': dict(os.environ if env is None else env),
            'pass_fds': list(pass_fds),
            'start_new_session': start_new_session,
        }
        file = os.memfd_create('request')
        os.pwrite(file, json.dumps(request).encode(), 0)
        standard = [fd if fd != -1 else number for number, fd in enumerate((pipes[0], pipes[3], pipes[5]))]
        server = _connect()
        socket.send_fds(server, [b'!'], [file, *standard, *pass_fds])
        os.close(file)
        self.pid = int(server.recv(20))
        self._child_created = True
        self._close_pipe_fds(*pipes)


def run(args, **options):
    """As subprocess.run(args, capture_output=True, text=True, check=False)."""
    process = Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    out, err = process.communicate()
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def _connect():
    """Returns a socket to the server, which is started the first time."""
    global _server
    if _server is None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _server, theirs = socket.socketpair()
        command = [sys.executable, '-m', 'tests.fork_server', str(theirs.fileno())]
        env = {**os.environ, 'OPENBLAS_NUM_THREADS': '1'}  # NumPy would start threads when it is imported.
        _Popen(command, cwd=_ROOT, env=env, pass_fds=[theirs.fileno()])
        theirs.close()
    return _server


def _serve(server):
    """Forks until the other end is closed; returns the file descriptors of a request in each process, and [] at the end."""
    while True:
        message, fds, _, _ = socket.recv_fds(server, 1, _ABOVE)
        if not message:
            return []
        receiver, sender = os.pipe()
        if not os.fork():
            pid = os.fork()
            if not pid:
                return fds
            os.write(sender, b'%d' % pid)
            os._exit(0)
        os.wait()
        server.send(os.read(receiver, 20))
        for fd in (receiver, sender, *fds):
            os.close(fd)


def _become(fds, imported_env):
    """Runs what a request is about, in this process."""
    file, *fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, _ABOVE) for fd in fds]
    os.closerange(3, _ABOVE)
    with os.fdopen(file) as text:
        request = json.load(text)
    for fd, number in zip(fds, [0, 1, 2, *request['pass_fds']]):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request['cwd'])
    os.environ.clear()
    os.environ.update({**imported_env, **request['env']})
    if request['start_new_session']:
        os.setsid()
    script, *arguments = request['argv']
    if script == '-c':
        code, *arguments = arguments
        sys.argv = ['-c', *arguments]
        exec(code, {'__name__': '__main__'})
    else:
        sys.argv = [script, *arguments]
        runpy.run_path(script, run_name='__main__')


if __name__ == '__main__':
    before = dict(os.environ)
    gc.disable()
    import tf_estimator  # noqa: F401 - before TensorFlow

    import numpy.random  # noqa: F401 - NumPy imports it when it is first used.

    import common.runs.launch
    import common.runs.log
    import common.runs.report
    import common.sweep.launch  # noqa: F401

    gc.freeze()  # A collection would go through all that was imported, in each process anew.
    gc.enable()
    set_by_imports = {name: value for name, value in os.environ.items() if before.get(name) != value}
    request_fds = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request_fds:
        _become(request_fds, set_by_imports)
