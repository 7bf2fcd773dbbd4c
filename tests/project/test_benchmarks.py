"""The servers of benchmarks.serving."""

import subprocess
import sys

import pytest

from benchmarks.serving import started


def find_port(log):
    return int(log.removeprefix('port ')) if log.startswith('port ') and log.endswith('\n') else None


@pytest.fixture
def processes(monkeypatch):
    """The processes that were started."""
    found, popen = [], subprocess.Popen
    monkeypatch.setattr(subprocess, 'Popen', lambda *args, **options: found.append(popen(*args, **options)) or found[-1])
    return found


def test_a_server_ends_with_its_measurement_even_if_that_fails(processes):
    program = "import sys, time; print('port 7', file=sys.stderr, flush=True); time.sleep(1000)"
    with pytest.raises(KeyError), started('it', [sys.executable, '-c', program], find_port) as port:
        assert port == 7 and processes[0].poll() is None
        raise KeyError
    assert processes[0].poll() is not None


def test_a_server_that_does_not_start_is_named_with_its_last_message(processes):
    for program, reason in (("exit('no\\nport')", 'exit code 1: port'), ('', 'exit code 0: no message')):
        with pytest.raises(SystemExit, match=f'^it: the server has not started, with {reason}$'):
            with started('it', [sys.executable, '-c', program], find_port):
                pass
    assert all(process.poll() is not None for process in processes)
