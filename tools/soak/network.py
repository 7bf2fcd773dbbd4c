"""Hosts as network namespaces on a switch with faults; requires Linux, root and iproute2."""

import json
import pathlib
import subprocess
import sys

_SWITCH = pathlib.Path(__file__).with_name('switch.py')


class Network:
    """Creates a namespace for each host, and one with the switch; removes them when the block ends.

    Args:
      prefix: of the namespaces' names.
      hosts: {name: IPv4 address}, all in one network of 24 bits.
    """

    def __init__(self, prefix: str, hosts: dict[str, str]):
        self._prefix, self._hosts = prefix, hosts

    def __enter__(self) -> 'Network':
        self._remove()
        _run('ip', 'netns', 'add', self.namespace('switch'))
        for name, address in self._hosts.items():
            host = self.namespace(name)
            _run('ip', 'netns', 'add', host)
            self._ip('switch', 'link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', host)
            self._ip('switch', 'link', 'set', name, 'up')
            self._ip(name, 'addr', 'add', f'{address}/24', 'dev', 'eth0')
            for device in ('lo', 'eth0'):
                self._ip(name, 'link', 'set', device, 'up')
        self._switch = self.popen('switch', [sys.executable, str(_SWITCH), *self._hosts], stdin=-1, stdout=-1, text=True)
        self._switch.stdout.readline()
        return self

    def __exit__(self, *unused_exception):
        self._switch.kill()
        self._switch.wait()
        self._remove()

    def namespace(self, host: str) -> str:
        return f'{self._prefix}-{host}'

    def popen(self, host: str, command: list[str], **options) -> subprocess.Popen:
        """Starts a process on a host."""
        return subprocess.Popen(['ip', 'netns', 'exec', self.namespace(host), *command], **options)

    def popen_task(self, command: list[str], env: dict[str, str], **options) -> subprocess.Popen:
        """Starts a task of a cluster on the host of its name, such as worker0."""
        task = json.loads(env['TF_CONFIG'])['task']
        return self.popen(f'{task["type"]}{task["index"]}', command, env=env, **options)

    def drop(self, *rules: tuple[str, str, str]) -> None:
        """Drops from now on only what the rules say: (from, to, kind), see tools/soak/switch.py."""
        self._switch.stdin.write(json.dumps(rules) + '\n')
        self._switch.stdin.flush()
        self._switch.stdout.readline()

    def cut_off(self, host: str) -> None:
        """Drops all frames from and to a host, as if its cable were pulled."""
        self.drop((host, '*', 'all'), ('*', host, 'all'))

    def _ip(self, host, *arguments):
        _run('ip', '-n', self.namespace(host), *arguments)

    def _remove(self):
        found = subprocess.run(['ip', 'netns', 'list'], check=True, capture_output=True, text=True).stdout
        for line in found.splitlines():
            if line.startswith(f'{self._prefix}-'):
                _run('ip', 'netns', 'delete', line.split()[0])


def _run(*command):
    subprocess.run(command, check=True)
