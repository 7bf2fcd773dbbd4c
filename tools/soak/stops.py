"""Repeatedly stops a run, restarts it with the same command, and compares it with an undisturbed one.

    python -m tools.soak.stops --times=200 --inside_saves=50
    python -m tools.soak.stops --times=100 --signal=SIGTERM
    python -m tools.soak.stops --times=20 -- --num_towers=2 --steps_per_loop=7

Flags after the two dashes are the trainer's. Every start takes 4 seconds.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

from tests.shared import ROOT, read_weights
from tools.soak.bounded import end_after
from tools.soak.ledger import read_ledger

SAVE_STEPS = 10
_STEPS = 40  # More than run between two stops.
_START = 4  # Seconds.


class Training:
    """The command, in its own directory. As a context manager, it leaves no process behind."""

    def __init__(self, directory, train_steps, flags):
        self.output_dir = os.path.join(directory, 'output')
        self._ledger = os.path.join(directory, 'ledger')
        self._log = os.path.join(directory, 'log')
        self._command = [
            sys.executable,
            os.path.join(ROOT, 'trainer.py'),
            '--model=tools.soak.ledger',
            '--dataset=tools.soak.ledger',
            '--schedule=train',
            f'--data_dir={directory}/data',
            f'--output_dir={self.output_dir}',
            f'--train_steps={train_steps}',
            f'--save_checkpoints_steps={SAVE_STEPS}',
            *flags,
        ]

    def __enter__(self):
        self._process = None
        return self

    def __exit__(self, *unused_exception):
        if self._process:
            self._process.kill()
            self._process.wait()

    def start(self):
        with open(self._log, 'ab') as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=ROOT, env={**os.environ, 'LEDGER': self._ledger}
            )
        return self._process

    def finish(self):
        """Runs it to its end."""
        if self.start().wait():
            raise AssertionError(self.log()[-2000:])

    def log(self):
        with open(self._log, encoding='utf-8') as file:
            return file.read()

    def ledger(self):
        return read_ledger(self._ledger) if os.path.exists(self._ledger) else []

    def wait_until(self, condition, seconds=0.0):
        """Polls the condition; raises AssertionError if the process ends before."""
        while not condition():
            if self._process.poll() is not None:
                raise AssertionError(self.log()[-2000:])
            time.sleep(seconds)

    def wait_for_steps(self, steps):
        """Waits until the ledger has this many more lines."""
        lines = len(self.ledger()) + steps
        self.wait_until(lambda: len(self.ledger()) >= lines, 0.001)

    def wait_for_save(self, steps):
        """Waits for the saving of a checkpoint, at most `steps` steps, as a busy machine may miss it."""
        lines = len(self.ledger()) + steps
        self.wait_until(lambda: self.is_saving() or len(self.ledger()) >= lines)

    def is_saving(self):
        """Whether a checkpoint is incomplete, or not yet recorded as the latest."""
        names = os.listdir(self.output_dir)
        saved = {name[:-6] for name in names if re.fullmatch(r'model\.ckpt-\d+\.index', name)}
        begun = {name.partition('.data-')[0] for name in names if re.match(r'model\.ckpt-\d+\.data-', name)}
        return any('_temp' in name for name in names) or begun != saved


def stop_again_and_again(times, inside_saves, number, flags, seed=0):
    """Runs the comparison.

    Args:
      times: int, how often to stop.
      inside_saves: int, number of stops while saving a checkpoint.
      number: signal.Signals.
      flags: list of str, flags of the trainer.
      seed: int, determines the times of the stops.

    Returns:
      dict: 'stops'; 'inside_saves', number that left a checkpoint half-written; 'same', number followed by the undisturbed
          run's ids and losses in each step; 'same_weights', whether the final weights match; 'redone', maximum of steps
          repeated after one; 'codes', the exit codes; 'slowest', seconds from a signal to the end.
    """
    rng = random.Random(seed)
    total = _STEPS * (times + 1)
    codes, hits, slowest, ends = set(), 0, 0.0, []
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as other,
        Training(one, total, flags) as undisturbed,
        Training(other, total, flags) as training,
    ):
        undisturbed.finish()
        for i in range(times):
            process = training.start()
            if (i + 1) * inside_saves // times > i * inside_saves // times:  # Spread evenly.
                training.wait_for_steps(1)
                training.wait_for_save(_STEPS * 3 // 4)
            elif number == signal.SIGKILL and rng.random() < 0.2:
                time.sleep(rng.uniform(0, _START))
            else:
                training.wait_for_steps(rng.randrange(1, _STEPS * 3 // 4))
            process.send_signal(number)
            sent = time.time()
            codes.add(process.wait())
            slowest = max(slowest, time.time() - sent)
            hits += training.is_saving()
            ends.append(len(training.ledger()))
        training.finish()
        expected = set(undisturbed.ledger())
        entries = training.ledger()
        after = [entries[begin:end] for begin, end in zip(ends, [*ends[1:], len(entries)])]
        weights, expected_weights = read_weights(training.output_dir), read_weights(undisturbed.output_dir)
        return {
            'stops': times,
            'inside_saves': hits,
            'same': sum(expected.issuperset(part) for part in after) if set(entries) == expected else 0,
            'same_weights': all(np.array_equal(expected_weights[name], weights.get(name)) for name in expected_weights),
            'redone': max(entries[end - 1][0] + 1 - entries[end][0] for end in ends if end),
            'codes': sorted(codes),
            'slowest': round(slowest, 2),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--times', type=int, default=200)
    parser.add_argument('--inside_saves', type=int, default=0)
    parser.add_argument('--signal', default='SIGKILL', choices=['SIGKILL', 'SIGTERM', 'SIGINT'])
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('flags', nargs='*')
    options = parser.parse_args()
    end_after(90)
    print(
        json.dumps(
            stop_again_and_again(
                options.times, options.inside_saves, signal.Signals[options.signal], options.flags, options.seed
            )
        )
    )


if __name__ == '__main__':
    main()
