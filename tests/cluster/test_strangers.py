"""The recipes of deploy/ let the hosts of a cluster connect to its tasks, and nobody else."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.cluster.conftest import FLAGS
from tests.cluster.tasks import Run
from tests.cluster.test_network import can_add_namespaces
from tests.shared import ROOT
from tools.soak.network import Network

HOSTS = {'chief0': '10.75.0.1', 'worker0': '10.75.0.2', 'stranger': '10.75.0.3'}
# Says when it listens, on all interfaces as TensorFlow does.
LISTEN = 'import socket, time; s = socket.create_server(("", 2222)); print("listens", flush=True); time.sleep(1000)'
CONNECT = """
import os, socket, sys
'a'.encode('idna')  # Loads what another user may not read.
os.setuid(int(sys.argv[2]))
try:
    socket.create_connection((sys.argv[1], 2222), 2)
except OSError as error:
    sys.exit(type(error).__name__)
"""


def needs(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    return pytest.mark.skipif(bool(missing) or not can_add_namespaces(), reason=f'requires root, iproute2, {", ".join(tools)}')


@pytest.fixture
def network():
    with Network(f'strangers-{os.getpid()}', HOSTS) as network:
        yield network


def run(network, host, *command):
    with network.popen(host, [*command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, error = process.communicate()
    assert not process.returncode, error
    return out


def connects(network, host, address, user=0):
    with network.popen(host, [sys.executable, '-c', CONNECT, address, str(user)], stderr=subprocess.DEVNULL) as process:
        return process.wait() == 0


@contextlib.contextmanager
def listening(network, host):
    with network.popen(host, [sys.executable, '-c', LISTEN], stdout=subprocess.PIPE) as server:
        server.stdout.readline()
        try:
            yield
        finally:
            server.kill()


def read(name):
    with open(f'{ROOT}/deploy/{name}') as file:
        return file.read()


@needs('nft')
def test_the_firewall_lets_only_the_hosts_and_the_user_of_a_cluster_connect(network, tmp_path):
    text = read('nftables.conf').replace('10.0.0.', '10.75.0.')
    (tmp_path / 'rules').write_text(text)
    with listening(network, 'chief0'):
        assert connects(network, 'stranger', HOSTS['chief0']) and connects(network, 'chief0', '127.0.0.1')
        for _ in range(2):  # It replaces itself.
            run(network, 'chief0', 'nft', '-f', str(tmp_path / 'rules'))
        assert connects(network, 'worker0', HOSTS['chief0'])
        assert not connects(network, 'stranger', HOSTS['chief0'])
        assert [connects(network, 'chief0', '127.0.0.1', user) for user in (1000, 1001, 0)] == [True, False, False]


@needs('nft', 'wg', 'wg-quick', 'wireguard-go')
def test_tasks_train_through_wireguard_and_a_stranger_cannot_connect(network, tiny_dir, tmp_path):
    keys = [subprocess.run(['wg', 'genkey'], capture_output=True, check=True).stdout.strip() for _ in range(2)]
    publics = [subprocess.run(['wg', 'pubkey'], input=key, capture_output=True, check=True).stdout.strip() for key in keys]
    names = [f'wg{os.getpid() % 10**6}{i}' for i in range(2)]  # wireguard-go has one socket for each name.
    for i, host in enumerate(('chief0', 'worker0')):
        mine, other = (i + 1, 2 - i)
        text = re.sub('10.80.0.1/24', f'10.80.0.{mine}/24', read('wireguard.conf')).replace(
            '10.80.0.2/32', f'10.80.0.{other}/32'
        )
        text = text.replace('PUBLIC_KEY_OF_HOST_2', publics[1 - i].decode()).replace('KEY_OF_HOST_1', keys[i].decode())
        path = tmp_path / f'{names[i]}.conf'
        path.write_text(text.replace('host2:', f'{HOSTS["worker0" if i == 0 else "chief0"]}:'))
        path.chmod(0o600)
        run(network, host, 'wg-quick', 'up', str(path))
    cluster = {'chief': ['10.80.0.1:2222'], 'worker': ['10.80.0.2:2222']}
    flags = (f'--data_dir={tiny_dir}', *FLAGS, '--schedule=train')
    environ = {'TINY_SECONDS': '1', 'PYTHONPATH': ROOT}
    trained = Run(tmp_path, cluster, *flags, environ=environ, popen=network.popen_task)
    try:
        trained.wait_for_step('chief0', 3)
        run(network, 'stranger', 'ip', 'route', 'add', '10.80.0.0/24', 'via', HOSTS['chief0'])
        assert connects(network, 'worker0', '10.80.0.1')
        for address in ('10.80.0.1', HOSTS['chief0'], HOSTS['worker0']):
            assert not connects(network, 'stranger', address)
        assert trained.processes['chief0'].poll() is None  # It has listened.
        assert trained.wait() == [0, 0]
    finally:
        trained.kill()
        for host, name in zip(('chief0', 'worker0'), names):
            run(network, host, 'wg-quick', 'down', str(tmp_path / f'{name}.conf'))
