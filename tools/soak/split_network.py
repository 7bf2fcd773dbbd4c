"""Splits the network of an elastic cluster of four hosts into halves, and joins it again: one half at most trains meanwhile.

    sudo python -m tools.soak.split_network

Each half has as many tasks as `--min_tasks` asks for. Requires Linux, root and iproute2.
"""

import itertools
import json
import pathlib
import tempfile
import time

import tf_estimator  # noqa: F401 - before TensorFlow

from tests.cluster import tiny_data
from tests.cluster.tasks import TINY, Run
from tests.shared import assert_equal
from tools.soak.bounded import end_after
from tools.soak.lost_tasks import last_step, lines, wait_for_tasks, wait_until
from tools.soak.network import Network

_HOSTS = {'chief0': '10.78.0.1', **{f'worker{i}': f'10.78.0.{i + 2}' for i in range(3)}}
_CLUSTER = {
    'chief': [f'{_HOSTS["chief0"]}:2222'],
    'worker': [f'{address}:2222' for name, address in _HOSTS.items() if name != 'chief0'],
}
_FLAGS = (*TINY, '--train_steps=1000000', '--save_checkpoints_steps=20', '--schedule=train', '--hparams=batch_size=12')
_TIMEOUT = 40


def split(*halves):
    """Returns the rules that drop all frames between hosts of different halves."""
    pairs = [*itertools.product(*halves)]
    return [(*pair, 'all') for pair in [*pairs, *((there, here) for here, there in pairs)]]


def train(directory, data, network):
    """Trains with a split; returns facts about it, and the weights."""
    flags = (f'--data_dir={data}', *_FLAGS, f'--cluster_timeout={_TIMEOUT}', '--min_tasks=2')
    run = Run(directory, _CLUSTER, *flags, environ={'TINY_SECONDS': '0.02'}, popen=network.popen_task)
    try:
        wait_for_tasks(directory, 4)
        wait_until(lambda: last_step(directory) >= 40)
        network.drop(*split(('chief0', 'worker0'), ('worker1', 'worker2')))
        start = time.monotonic()
        wait_for_tasks(directory, 2)
        step = lines(directory)[-1]['from_step']
        wait_until(lambda: last_step(directory) >= step + 100)
        waited = [name for name in run.processes if 'is training there' in run.log(name)]
        facts = {'halves': lines(directory)[1:], 'after': round(time.monotonic() - start), 'waiting': waited}
        network.drop()
        wait_for_tasks(directory, 4)
        wait_until(lambda: last_step(directory) >= lines(directory)[-1]['from_step'] + 40)
        run.send('worker0', 15)
        return {**facts, 'joined': lines(directory)[-1], 'codes': run.wait()}, run.weights()
    finally:
        run.kill()


def main():
    end_after(20)
    with tempfile.TemporaryDirectory() as folder, Network('split', _HOSTS) as network:
        directory = pathlib.Path(folder)
        data = tiny_data.write(directory / 'data')
        facts, found = train(directory / 'split', data, network)
        print(json.dumps(facts, indent=2), flush=True)
        flags = (f'--data_dir={data}', *_FLAGS, f'--train_steps={found["global_step"]}')
        undisturbed = Run(directory / 'undisturbed', _CLUSTER, *flags, popen=network.popen_task)
        undisturbed.wait()
        assert_equal(found, undisturbed.weights(), 1e-5)


if __name__ == '__main__':
    main()
