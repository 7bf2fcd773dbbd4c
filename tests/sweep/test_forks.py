"""Forks of a server: what they get, how they end, and what remains."""

import os
import signal
import subprocess
import sys

import pytest

from estimator_trainer.common import processes
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.sweep import forks
from tests.cluster.tasks import wait_until
from tests.shared import ROOT

SCRIPT = f"""
import os, signal, sys, time
sys.path.insert(0, {ROOT!r})
from estimator_trainer.common.sweep import forks
arguments = forks.serve()
if arguments:
    exec(arguments[0])
"""


@pytest.fixture
def server(tmp_path):
    (tmp_path / 'script.py').write_text(SCRIPT)
    with forks.Server([str(tmp_path / 'script.py')]) as server:
        yield server
    assert server._process.returncode is not None


def test_a_fork_has_the_exit_code_of_a_process_and_the_server_goes_on(server, tmp_path):
    codes = {'': 0, 'sys.exit(2)': 2, 'os._exit(7)': 7, 'raise MemoryError': 1}
    codes |= {f'os.kill(os.getpid(), {number})': -number for number in (signal.SIGKILL, signal.SIGSEGV)}
    started = {code: server.start([code], str(tmp_path / 'log.txt')) for code in codes}
    assert {code: fork.wait() for code, fork in started.items()} == codes
    assert {code: fork.poll() for code, fork in started.items()} == codes


def test_a_fork_has_what_a_new_process_would_have(server, tmp_path):
    log = tmp_path / 'log.txt'
    log.write_text('before\n')
    found = (
        'print([arguments[1], sys.stdin.read(), os.getsid(0) == os.getpid(), *signal.pthread_sigmask(0, [])], file=sys.stderr)'
    )
    waiting = server.start(['time.sleep(1000)'], str(tmp_path / 'other.txt'))
    print_open = 'print(len(os.listdir("/proc/self/fd")), file=sys.stderr); print("out")'
    for code in (found, print_open):
        assert server.start([code, 'ä\n'], str(log)).wait() == 0
    assert log.read_text().splitlines()[:2] == ['before', "['ä\\n', '', True]"]  # No signal is blocked.
    waiting.terminate()
    assert waiting.wait() == -signal.SIGTERM
    assert server.start([print_open], str(log)).wait() == 0
    # The number of open files does not depend on other forks: a fork has only its own.
    assert log.read_text().splitlines()[2:] == ['4', '4']


def test_a_fork_that_keeps_its_objects_does_the_rest_of_what_python_does_at_exit(server, tmp_path):
    log, unflushed, code = (
        tmp_path / 'log.txt',
        tmp_path / 'unflushed.txt',
        """
import atexit, concurrent.futures, threading
from estimator_trainer.common import processes
class Freed:
    def __del__(self):
        print('freed', file=sys.stderr)
freed = Freed()
atexit.register(lambda: print('at exit', file=sys.stderr))
threading.Thread(target=lambda: (time.sleep(0.1), print('thread', file=sys.stderr))).start()
file = open(arguments[1], 'w')
file.write('text')
idle = concurrent.futures.ThreadPoolExecutor()
idle.submit(int).result()
processes.keep_objects()
processes.run_and_exit(lambda: 3)
""",
    )
    assert server.start([code, str(unflushed)], str(log)).wait() == 3
    assert log.read_text().split() == ['thread', 'at', 'exit']
    assert unflushed.read_text() == 'text'


def test_forks_end_with_a_killed_server_and_no_other_starts(server, tmp_path):
    ready = tmp_path / 'ready'
    code = f'signal.signal(signal.SIGTERM, lambda *unused: sys.exit()); open({str(ready)!r}, "w"); time.sleep(1000)'
    fork = server.start([code], str(tmp_path / 'log.txt'))
    wait_until(ready.exists)
    server._process.kill()
    assert fork.wait() == -signal.SIGTERM  # Nobody knows the code.
    with pytest.raises(RunError, match='no process can be started: was killed by SIGKILL$'):
        server.start([''], str(tmp_path / 'log.txt'))


@pytest.mark.parametrize('outlive', [False, True])
def test_forks_end_with_a_killed_program_unless_they_outlive_it(tmp_path, outlive):
    (tmp_path / 'script.py').write_text(SCRIPT.replace('serve()', f'serve(outlive={outlive})'))
    ended = tmp_path / 'ended'
    code = f'signal.signal(signal.SIGTERM, lambda *_: (open({str(ended)!r}, "w"), sys.exit())); '
    code += f'open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid())); time.sleep(1000)'
    program = f"""
import sys, time
sys.path.insert(0, {ROOT!r})
from estimator_trainer.common.sweep import forks
with forks.Server([{str(tmp_path / 'script.py')!r}]) as server:
    server.start([{code!r}], {str(tmp_path / 'log.txt')!r})
    print(server._process.pid, flush=True)
    time.sleep(1000)
"""
    with subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE, text=True) as process:
        server_pid = int(process.stdout.readline())
        wait_until(lambda: (tmp_path / 'pid').exists() and (tmp_path / 'pid').read_text())
        process.kill()
    wait_until(lambda: processes.start_of(server_pid) is None)
    if outlive:
        assert not ended.exists()
        os.kill(int((tmp_path / 'pid').read_text()), signal.SIGTERM)
    wait_until(ended.exists)


def test_an_error_of_the_server_is_named(tmp_path):
    (tmp_path / 'script.py').write_text('raise ImportError("no such thing")')
    with forks.Server([str(tmp_path / 'script.py')]) as server:
        with pytest.raises(RunError, match='no process can be started: ImportError: no such thing$'):
            server.start([''], str(tmp_path / 'log.txt'))
