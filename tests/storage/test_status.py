"""status.json: what is read of it, and whether its process lives."""

import os
import socket
import subprocess

import pytest

from estimator_trainer.common import files, processes
from estimator_trainer.common.storage import status

UPDATED = '2026-01-31T09:20:00+00:00'


def test_a_new_status_is_read_as_it_is_written():
    written = {**status.new(), 'updated': UPDATED, 'examples/sec': 2.5, 'training': {'loss': float('nan')}}
    assert status.parse(files.dumps(written)) == {**written, 'training': {'loss': 'NaN'}}


@pytest.mark.parametrize(
    'text',
    [
        '',
        '[]',
        '{"state": "training"',
        '{"state": "training"}',
        '{"state": "nosuch", "updated": "2026-01-31T09:20:00+00:00"}',
        '{"state": "training", "updated": "yesterday"}',
        '{"state": "training", "updated": "2026-01-31T09:20:00"}',
        '{"state": "training", "updated": "2026-01-31T09:20:00+00:00", "global_step": "x"}',
        '{"state": "training", "updated": "2026-01-31T09:20:00+00:00", "pid": true}',
    ],
)
def test_a_broken_status_is_none(text):
    with pytest.raises(ValueError):
        status.parse(text)


@pytest.mark.skipif(not os.path.exists('/proc/uptime'), reason='needs /proc')
def test_the_start_of_a_process_is_in_ticks_since_that_of_the_machine():
    def uptime():
        with open('/proc/uptime') as file:
            return float(file.read().split()[0])

    before = uptime()
    with subprocess.Popen(['cat'], stdin=subprocess.PIPE) as process:
        started = int(processes.start_of(process.pid)) / os.sysconf('SC_CLK_TCK')
    assert before - 0.02 <= started <= uptime()  # It is rounded down.


def test_a_process_is_gone_when_it_has_ended_even_if_another_has_its_number():
    own = status.new()
    assert status.is_gone(own) is False and own['pid'] == os.getpid()
    assert status.is_gone({**own, 'process_start': '1'}) is (os.path.exists('/proc/self/stat'))
    assert status.is_gone({**own, 'host': f'not-{socket.gethostname()}'}) is None
    assert status.is_gone({**own, 'pid': 2**70}) is True
    process = subprocess.Popen(['true'])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # Its parent has not yet seen that it has ended.
    assert status.is_gone({**own, 'pid': process.pid, 'process_start': None}) is True
    process.wait()
    assert status.is_gone({**own, 'pid': process.pid}) is True
