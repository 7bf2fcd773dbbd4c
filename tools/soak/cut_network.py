"""Trains in a cluster of network namespaces, and disconnects one of them.

    sudo python -m tools.soak.cut_network

Requires Linux, root and iproute2. Packets are dropped silently, as by a failing switch.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

import tf_estimator  # noqa: F401 - before TensorFlow

from tests.cluster import tiny_data
from tests.cluster.tasks import TINY, Run
from tools.soak.bounded import end_after

_TIMEOUT = 15  # Seconds.
_HUB = 'cut-hub'
_HOSTS = {'chief0': '10.77.0.1', 'worker0': '10.77.0.2', 'worker1': '10.77.0.3'}
_CLUSTER = {'chief': ['10.77.0.1:2222'], 'worker': ['10.77.0.2:2222', '10.77.0.3:2222']}
_FLAGS = (
    *TINY,
    '--train_steps=100000',
    '--save_checkpoints_steps=10',
    f'--cluster_timeout={_TIMEOUT}',
    '--hparams=batch_size=12',
)


def ip(*arguments, namespace=_HUB):
    """Runs a command of iproute2 in a network namespace."""
    subprocess.run(['ip', '-n', namespace, *arguments], check=True)


def set_up():
    """Creates a namespace per task, and one with a bridge between them."""
    subprocess.run(['ip', 'netns', 'add', _HUB], check=True)
    ip('link', 'add', 'bridge', 'type', 'bridge')
    ip('link', 'set', 'bridge', 'up')
    for name, host in _HOSTS.items():
        subprocess.run(['ip', 'netns', 'add', f'cut-{name}'], check=True)
        ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', f'cut-{name}')
        ip('link', 'set', name, 'master', 'bridge', 'up')
        ip('addr', 'add', f'{host}/24', 'dev', 'eth0', namespace=f'cut-{name}')
        for device in ('lo', 'eth0'):
            ip('link', 'set', device, 'up', namespace=f'cut-{name}')


def tear_down():
    for name in [_HUB, *(f'cut-{name}' for name in _HOSTS)]:
        subprocess.run(['ip', 'netns', 'delete', name], check=False, stderr=subprocess.DEVNULL)


def start(command, env, **options):
    """Starts a task in the namespace of its address."""
    task = json.loads(env['TF_CONFIG'])['task']
    return subprocess.Popen(['ip', 'netns', 'exec', f'cut-{task["type"]}{task["index"]}', *command], env=env, **options)


def cut_off(victim, directory):
    """Trains, and disconnects a task after some steps.

    Returns:
      dict: {task: (seconds until its end, exit code, last line of its log)}.
    """
    data = directory / 'data'
    tiny_data.write(data)
    run = Run(directory, _CLUSTER, f'--data_dir={data}', *_FLAGS, environ={'TINY_SECONDS': '0.02'}, popen=start)
    ended = {}
    try:
        run.wait_for_step('chief0', 10)
        ip('link', 'set', victim, 'nomaster')
        cut = time.monotonic()
        while len(ended) < len(run.processes) and time.monotonic() < cut + 10 * _TIMEOUT:
            for name, process in run.processes.items():
                if name not in ended and process.poll() is not None:
                    ended[name] = (round(time.monotonic() - cut, 1), process.returncode, run.error(name))
            time.sleep(0.1)
    finally:
        run.kill()
    return ended


def is_right(victim, ended):
    """Whether all have ended with exit code 1, each naming a task on the other side of the cut."""
    others = set(_HOSTS) - {victim}
    return set(ended) == set(_HOSTS) and all(
        code == 1 and any(_HOSTS[lost] in text for lost in (others if name == victim else [victim]))
        for name, (_, code, text) in ended.items()
    )


def main():
    end_after(15)
    is_all_right = True
    for victim in ('worker1', 'chief0'):
        tear_down()
        set_up()
        try:
            with tempfile.TemporaryDirectory() as directory:
                ended = cut_off(victim, pathlib.Path(directory))
        finally:
            tear_down()
        print(json.dumps({'cut off': victim, 'right': is_right(victim, ended), **ended}, indent=2))
        is_all_right = is_all_right and is_right(victim, ended)
    sys.exit(not is_all_right)


if __name__ == '__main__':
    main()
