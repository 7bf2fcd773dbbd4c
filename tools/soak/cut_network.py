"""Trains in a cluster of three hosts, network namespaces, with each of several faults of the network.

    sudo python -m tools.soak.cut_network [FAULT ...]

Requires Linux, root and iproute2. Packets are dropped silently, as by a failing switch or a firewall.
"""

import json
import pathlib
import sys
import tempfile
import time

import tf_estimator  # noqa: F401 - before TensorFlow

from tests.cluster import tiny_data
from tests.cluster.tasks import TINY, Run
from tests.shared import assert_equal
from tools.soak.bounded import end_after
from tools.soak.network import Network

_HOSTS = {'chief0': '10.77.0.1', 'worker0': '10.77.0.2', 'worker1': '10.77.0.3'}
_CLUSTER = {'chief': ['10.77.0.1:2222'], 'worker': ['10.77.0.2:2222', '10.77.0.3:2222']}
_FLAGS = (*TINY, '--train_steps=1000', '--save_checkpoints_steps=20', '--schedule=train', '--hparams=batch_size=12')
_AT_STEP = 50
_FIREWALL = [('*', '*', 'new')]


def _cut(host):
    return [(host, '*', 'all'), ('*', host, 'all')]


# Name: rules, seconds until they end, --cluster_timeout, and the tasks that each message must name one of, () if all finish.
_FAULTS = {
    'a firewall refuses new connections': (_FIREWALL, 60, 5, ()),
    'worker 1 is cut off for 5 s': (_cut('worker1'), 5, 90, ()),
    'worker 1 is cut off for 25 s': (_cut('worker1'), 25, 90, ()),
    'worker 1 is cut off for 60 s': (_cut('worker1'), 60, 90, ()),
    'the chief is cut off for 25 s': (_cut('chief0'), 25, 90, ()),
    'worker 1 is cut off': (_cut('worker1'), None, 15, ('worker1',)),
    'the chief is cut off': (_cut('chief0'), None, 15, ('chief0',)),
    'nothing from worker 1 to worker 0': ([('worker1', 'worker0', 'all')], None, 15, ('worker0', 'worker1')),
    'nothing from worker 1 to the chief': ([('worker1', 'chief0', 'all')], None, 15, ('worker1', 'chief0')),
    'nothing from worker 1': ([('worker1', '*', 'all')], None, 15, ('worker1',)),
    'nothing to worker 1': ([('*', 'worker1', 'all')], None, 15, ('worker1',)),
}


def train(directory, data, rules, seconds, timeout):
    """Trains, with a fault after some steps; returns the Run, and {task: (seconds until its end, exit code, last line)}."""
    with Network('cut', _HOSTS) as network:
        flags = (f'--data_dir={data}', *_FLAGS, f'--cluster_timeout={timeout}')
        run = Run(directory, _CLUSTER, *flags, environ={'TINY_SECONDS': '0.02'}, popen=network.popen_task)
        ended = {}
        try:
            run.wait_for_step('chief0', _AT_STEP)
            network.drop(*rules)
            start = time.monotonic()
            while len(ended) < len(run.processes) and time.monotonic() < start + 300:
                if seconds and time.monotonic() > start + seconds:
                    network.drop()
                for name, process in run.processes.items():
                    if name not in ended and process.poll() is not None:
                        ended[name] = (round(time.monotonic() - start, 1), process.returncode, run.error(name))
                time.sleep(0.1)
        finally:
            run.kill()
    return run, ended


def is_right(ended, named, run, expected):
    """Whether all have finished with the expected weights, or ended with exit code 1, each naming another task at fault."""
    if not named:
        assert_equal(run.weights(), expected)
        return [code for _, code, _ in ended.values()] == [0] * len(_HOSTS)
    return set(ended) == set(_HOSTS) and all(
        code == 1 and any(_HOSTS[lost] in text for lost in (named if set(named) - {name} else _HOSTS) if lost != name)
        for name, (_, code, text) in ended.items()
    )


def main(names):
    end_after(40)
    is_all_right = True
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        data = tiny_data.write(directory / 'data')
        expected = train(directory / 'undisturbed', data, [], None, 60)[0].weights()
        for name in names or _FAULTS:
            rules, seconds, timeout, named = _FAULTS[name]
            run, ended = train(directory / name.replace(' ', '_'), data, rules, seconds, timeout)
            found = is_right(ended, named, run, expected)
            lost = [line for task in ended for line in run.log(task).splitlines() if 'the connection to' in line]
            print(json.dumps({'fault': name, 'right': found, **ended, 'connections': lost}, indent=2), flush=True)
            is_all_right = is_all_right and found
    sys.exit(not is_all_right)


if __name__ == '__main__':
    main(sys.argv[1:])
