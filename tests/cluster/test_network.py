"""A cluster of two hosts, network namespaces, that lose each other."""

import os
import shutil
import subprocess

import pytest

from tests.cluster.conftest import FLAGS
from tests.cluster.tasks import Run, wait_until
from tests.shared import ROOT, assert_equal
from tools.soak.network import Network

HOSTS = {'chief0': '10.76.0.1', 'worker0': '10.76.0.2'}
CLUSTER = {'chief': ['10.76.0.1:2222'], 'worker': ['10.76.0.2:2222']}


def can_add_namespaces():
    if os.geteuid() != 0 or not shutil.which('ip'):
        return False
    made = subprocess.run(['ip', 'netns', 'add', f'probe-{os.getpid()}'], capture_output=True)
    subprocess.run(['ip', 'netns', 'delete', f'probe-{os.getpid()}'], capture_output=True)
    return made.returncode == 0


@pytest.mark.skipif(not can_add_namespaces(), reason='network namespaces require root and iproute2')
def test_tasks_that_lose_each_other_restart_by_themselves_and_end_with_the_same_bits(train, tiny_dir, tmp_path):
    expected = train(2, '--schedule=train')
    flags = (f'--data_dir={tiny_dir}', *FLAGS, '--schedule=train', '--save_checkpoints_steps=5', '--overwrite')
    with Network(f'test-{os.getpid()}', HOSTS) as network:
        run = Run(tmp_path, CLUSTER, *flags, environ={'TINY_SECONDS': '0.5', 'PYTHONPATH': ROOT}, popen=network.popen_task)
        try:
            run.wait_for_step('chief0', 11)
            network.cut_off('worker0')
            waiting = 'cannot be reached from {}; waiting for up to 600 seconds (--cluster_timeout).'
            names = {'chief0': 'chief (10.76.0.1:2222)', 'worker0': 'worker 0 (10.76.0.2:2222)'}
            wait_until(lambda: all(waiting.format(name) in run.log(task) for task, name in names.items()))
            network.drop(('*', '*', 'old'))  # As if gRPC had given up the connections, after 20 seconds.
            assert run.wait() == [0, 0]
        finally:
            run.kill()
    assert expected.wait() == [0, 0]
    assert_equal(run.weights(), expected.weights())
    for task, other in (('chief0', 'worker0'), ('worker0', 'chief0')):
        assert run.log(task).count(f'trainer.py: the connection to {names[other]} was lost for ') == 1
        assert 'Traceback' not in run.log(task)
    assert 'Restoring parameters from' in run.log('chief0')
