"""Clusters of the trainer's processes on loopback."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

from tests import forked
from tests.shared import ROOT, read_weights

TINY = ('--model=tests.cluster.tiny_data', '--dataset=tests.cluster.tiny_data')
RESTART = 'restart all tasks to resume from the latest checkpoint'
_SECONDS = 250  # A limit for what hangs, not for a slow machine.


def _candidates():
    """Yields endless ports below those of outgoing connections, distinct from other pytest processes."""
    process = int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw'))
    ports = range(10000 + process, 32000, int(os.environ.get('PYTEST_XDIST_WORKER_COUNT', 1)))
    while True:
        yield from random.SystemRandom().sample(ports, len(ports))


_unused_ports = _candidates()  # One iterator, to use no port twice.


def free_ports(count):
    ports = []
    while len(ports) < count:
        port = next(_unused_ports)
        with socket.socket() as server, contextlib.suppress(OSError):
            server.bind(('', port))
            ports.append(port)
    return ports


def addresses(**jobs):
    """Returns free addresses for a number of tasks of each job, {job: ['host:port', ...]}."""
    return {job: [f'127.0.0.1:{port}' for port in free_ports(count)] for job, count in jobs.items()}


def tf_config(cluster, job, index=0):
    return json.dumps({'cluster': cluster, 'task': {'type': job, 'index': index}})


def wait_until(condition):
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Run:
    """Tasks of a cluster, started with the same flags; `only` and `environs` add more for some, by name.

    The directory holds the logs, and `output` as output_dir. Without a cluster, {job: addresses}, runs one process, chief0.
    """

    def __init__(self, directory, cluster, *flags, only=None, environ=None, environs=None, popen=forked.Popen):
        directory.mkdir(parents=True, exist_ok=True)
        self.output_dir = directory / 'output'
        self.processes = {}
        self._directory, self._cluster, self._flags, self._only = directory, cluster, flags, only or {}
        self._environ, self._environs, self._popen = environ or {}, environs or {}, popen
        for job, index in [(job, i) for job, hosts in cluster.items() for i in range(len(hosts))] or [('chief', 0)]:
            self.start(job, index)

    def start(self, job, index=0):
        """Starts or restarts a task."""
        name = f'{job}{index}'
        variables = {key: value for key, value in os.environ.items() if key != 'TF_CONFIG'}
        variables |= self._environ | self._environs.get(name, {})
        if self._cluster:
            variables['TF_CONFIG'] = tf_config(self._cluster, job, index)
        flags = [f'--output_dir={self.output_dir}', *self._flags, *self._only.get(name, ())]
        command = [sys.executable, os.path.join(ROOT, 'trainer.py'), *flags]
        with open(self._directory / f'{name}.out', 'w') as out, open(self._directory / f'{name}.err', 'w') as err:
            self.processes[name] = self._popen(command, stdout=out, stderr=err, cwd=self._directory, env=variables)

    def send(self, name, number):
        self.processes[name].send_signal(number)

    def wait(self, *names):
        """Waits until all or the named tasks have ended, and returns their exit codes."""
        deadline = time.monotonic() + _SECONDS
        try:
            return [self.processes[name].wait(max(deadline - time.monotonic(), 0.1)) for name in names or self.processes]
        except subprocess.TimeoutExpired:
            raise AssertionError({name: self.log(name) for name in self.processes}) from None
        finally:
            self.kill()

    def kill(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()

    def log(self, name):
        return (self._directory / f'{name}.err').read_text()

    def error(self, name):
        """Returns the last line of a task's log."""
        return self.log(name).splitlines()[-1]

    def loss(self, job, how='is lost'):
        """Returns the error that names the first task of a job."""
        name = job if job == 'chief' else f'{job} 0'
        return f'trainer.py: {name} ({self._cluster[job][0]}) {how}; its own log may say why: {RESTART}'

    def result(self, name='chief0'):
        return json.loads((self._directory / f'{name}.out').read_text())

    def weights(self):
        return read_weights(self.output_dir)

    def wait_for(self, name, text, step=0):
        """Waits until a running task has logged a text, and a step or a later one."""

        def is_logged():
            log = self.log(name)
            assert self.processes[name].poll() is None, log
            return text in log and max(map(int, re.findall(r'step = (\d+)\b', log)), default=0) >= step

        wait_until(is_logged)

    def wait_for_step(self, name, step):
        self.wait_for(name, 'step = ', step)
