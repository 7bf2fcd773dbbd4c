"""Repeatedly kills a random task of a cluster, restarts all, and compares with an undisturbed run.

    python -m tools.soak.killed_tasks --times=50

Every start takes about 10 seconds.
"""

import argparse
import json
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np

from tests.cluster import tiny_data
from tests.cluster.tasks import TINY, Run, addresses
from tools.soak.bounded import end_after

SAVE_STEPS = 10
_STEPS = 40  # More than run between two kills.
_START = 8  # Seconds.
_FLAGS = (*TINY, f'--save_checkpoints_steps={SAVE_STEPS}', '--save_summary_steps=1', '--schedule=train', '--cluster_timeout=20')


def losses(run):
    """Returns the chief's logged {(step, loss)}."""
    return set(re.findall(r'loss = (\S+), step = (\d+)', run.log('chief0')))


def kill_again_and_again(times, tasks=3, seed=0):
    """Runs the comparison.

    Args:
      times: int, how often to kill.
      tasks: int, number of training tasks.
      seed: int, determines the victims and times.

    Returns:
      dict: 'kills'; 'same', number of kills with the losses of the undisturbed run; 'same_weights', whether the final weights
      match; 'named', how often another task named the killed one; 'codes', the exit codes of the others; 'slowest', seconds
      from a kill to the end of all.
    """
    rng = random.Random(seed)
    flags = (*_FLAGS, f'--train_steps={_STEPS * (times + 1)}', '--hparams=batch_size=12,optimizer=momentum,learning_rate=0.05')
    codes, named, slowest, logged = set(), 0, 0.0, []
    with tempfile.TemporaryDirectory() as scratch:
        data, killed = pathlib.Path(scratch, 'data'), pathlib.Path(scratch, 'killed')
        tiny_data.write(data)

        def start(directory, **environ):
            cluster = addresses(chief=1, worker=tasks - 1)
            return Run(directory, cluster, f'--data_dir={data}', *flags, environ=environ, popen=subprocess.Popen)

        undisturbed = start(pathlib.Path(scratch, 'undisturbed'))
        if any(undisturbed.wait()):
            raise AssertionError(undisturbed.log('chief0')[-2000:])
        for _ in range(times):
            run = start(killed, TINY_SECONDS='0.02')
            victim = rng.choice([*run.processes])
            if rng.random() < 0.2:
                time.sleep(rng.uniform(0, _START))
            else:
                run.wait_for('chief0', 'loss = ')
                time.sleep(rng.uniform(0, 0.02 * _STEPS / 2))
            run.processes[victim].send_signal(signal.SIGKILL)
            sent = time.time()
            found = dict(zip(run.processes, run.wait()))
            slowest = max(slowest, time.time() - sent)
            codes |= {code for name, code in found.items() if name != victim}
            name = 'chief (' if victim == 'chief0' else victim.replace('worker', 'worker ') + ' ('
            named += any(name in run.error(other) for other in run.processes if other != victim)
            logged.append(losses(run))
        last = start(killed)
        if any(last.wait()):
            raise AssertionError(last.log('chief0')[-2000:])
        expected, weights, expected_weights = losses(undisturbed), last.weights(), undisturbed.weights()
        return {
            'kills': times,
            'same': sum(expected.issuperset(part) for part in [*logged[1:], losses(last)]),
            'same_weights': all(np.array_equal(expected_weights[name], weights.get(name)) for name in expected_weights),
            'named': named,
            'codes': sorted(codes),
            'slowest': round(slowest, 1),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--times', type=int, default=50)
    parser.add_argument('--tasks', type=int, default=3)
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args()
    end_after(90)
    print(json.dumps(kill_again_and_again(options.times, options.tasks, options.seed)))


if __name__ == '__main__':
    main()
