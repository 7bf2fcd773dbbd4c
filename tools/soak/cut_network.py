"""Trains in a cluster of three hosts, network namespaces, with a fault in each run: of the network, a host or a task.

    sudo python -m tools.soak.cut_network [FAULT ...]           # Each of a list.
    sudo python -m tools.soak.cut_network --faults=50 --seed=1  # Of random kinds, at random times.

All must finish with the weights of an undisturbed run; or end with the right exit codes, name who is at fault, and finish with
these weights once all are restarted. Requires Linux, root and iproute2. Packets are dropped silently, as by a failing switch or
a firewall.
"""

import argparse
import dataclasses
import json
import pathlib
import signal
import sys
import tempfile
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np

from tests.cluster import tiny_data
from tests.cluster.tasks import TINY, Run
from tools.soak import faults
from tools.soak.bounded import end_after
from tools.soak.network import Network

_CLUSTER = {'chief': ['10.77.0.1:2222'], 'worker': ['10.77.0.2:2222', '10.77.0.3:2222']}
_FLAGS = (
    *TINY,
    f'--train_steps={faults.LAST_STEP}',
    '--save_checkpoints_steps=20',
    '--save_summary_steps=10',
    '--schedule=train',
    '--hparams=batch_size=12,optimizer=momentum,learning_rate=0.05',
)
_SECONDS = 300


def _start(network, directory, data, timeout):
    flags = (f'--data_dir={data}', *_FLAGS, f'--cluster_timeout={timeout}')
    return Run(directory, _CLUSTER, *flags, environ={'TINY_SECONDS': '0.02'}, popen=network.popen_task)


def train_undisturbed(directory, data):
    """Trains, or resumes; returns the exit codes and the weights."""
    with Network('cut', faults.HOSTS) as network:
        run = _start(network, directory, data, 60)
        return run.wait(), run.weights()


def train(directory, data, fault):
    """Trains with a fault; returns {task: faults.End} of those that have ended, and the Run."""
    with Network('cut', faults.HOSTS) as network:
        run = _start(network, directory, data, fault.timeout)
        try:
            if fault.is_early:
                time.sleep(fault.delay)
            else:
                run.wait_for_step('chief0', fault.at_step)
            network.drop(*fault.rules)
            if fault.signal:
                run.send(fault.victim, fault.signal)
            return _watch(run, network, fault), run
        finally:
            run.kill()


def _watch(run, network, fault):
    """Waits for all tasks, and ends the fault meanwhile."""
    start = time.monotonic()
    ends, is_over = {}, False
    while len(ends) < len(run.processes) and time.monotonic() < start + _SECONDS:
        seconds = time.monotonic() - start
        for name, process in run.processes.items():
            if name not in ends and process.poll() is not None:
                code = process.returncode
                text = run.log(name).rstrip().rpartition('\n')[2]
                ends[name] = faults.End(round(seconds, 1), 128 - code if code < 0 else code, text)
        others_have_ended = fault.signal == signal.SIGSTOP and {*ends, fault.victim} == {*run.processes}
        if not is_over and (others_have_ended or fault.seconds and seconds > fault.seconds):
            is_over = True
            network.drop()
            if fault.signal == signal.SIGSTOP:
                run.send(fault.victim, signal.SIGCONT)
        time.sleep(0.1)
    return ends


def _are_equal(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def check(directory, data, fault, expected):
    """Returns what became of a run with a fault, with 'right'."""
    ends, run = train(directory, data, fault)
    logs = {name: run.log(name) for name in run.processes}
    restarts = [line for log in logs.values() for line in log.splitlines() if 'the connection to' in line]
    tracebacks = [name for name, log in logs.items() if 'Traceback' in log]
    is_right = faults.ends_as_promised(fault, ends) and not tracebacks
    if any(end.code for end in ends.values()):
        codes, weights = train_undisturbed(directory, data)
        is_same = not any(codes) and _are_equal(weights, expected)
    else:
        is_same = _are_equal(run.weights(), expected)
    return {
        'fault': fault.name,
        'begins': f'after {fault.delay} s' if fault.is_early else f'after step {fault.at_step}',
        'right': is_right and is_same,
        'same_weights': is_same,
        **{name: dataclasses.astuple(end) for name, end in ends.items()},
        'restarts': restarts,
        'tracebacks': tracebacks,
        **({} if is_right and is_same else {'logs': logs}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', metavar='FAULT', help='of the list: its name')
    parser.add_argument('--faults', type=int, default=0, help='how many random ones')
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    if unknown := {*options.names} - {fault.name for fault in faults.LISTED}:
        parser.error(f'{sorted(unknown)[0]!r} is not one of: {"; ".join(fault.name for fault in faults.LISTED)}')
    listed = [fault for fault in faults.LISTED if not options.names or fault.name in options.names]
    chosen = faults.at_random(options.faults, options.seed) if options.faults else listed
    end_after(4 * len(chosen) + 4)
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        data = tiny_data.write(directory / 'data')
        codes, expected = train_undisturbed(directory / 'undisturbed', data)
        assert not any(codes)
        right = 0
        for i, fault in enumerate(chosen):
            found = check(directory / str(i), data, fault, expected)
            right += found['right']
            print(json.dumps(found, indent=2), flush=True)
    print(json.dumps({'faults': len(chosen), 'right': right}))
    sys.exit(right < len(chosen))


if __name__ == '__main__':
    main()
