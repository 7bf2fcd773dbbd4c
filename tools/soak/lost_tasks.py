"""Repeatedly kills a random task of an elastic cluster and starts it again, and compares with an undisturbed run.

    python -m tools.soak.lost_tasks --times=20
    python -m tools.soak.lost_tasks --times=20 --local

The tasks have a TF_CONFIG, and this tool starts the killed one again when the others have gone on for a random time; or they
are those of --local_cluster, whose launcher starts it again. A kill takes about half a minute.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np

from tests.cluster.tasks import Run, addresses
from tests.shared import ROOT
from tools.soak.bounded import end_after
from tools.soak.ledger import read_ledger

TASKS, BATCH, EXAMPLES = 4, 10, 50  # No four nor three tasks have equal shares.
_SAVE_STEPS = 20
_FLAGS = (
    '--model=tools.soak.ledger',
    '--dataset=tools.soak.ledger',
    f'--hparams=batch_size={BATCH},num_examples={EXAMPLES},is_random=false,optimizer=momentum',
    f'--save_checkpoints_steps={_SAVE_STEPS}',
    f'--save_summary_steps={_SAVE_STEPS}',
    '--schedule=train',
)
_ENDLESS = 10**6
_SECONDS = 0.02


class ByConfig:
    """A cluster of processes with TF_CONFIG."""

    def __init__(self, directory, data):
        flags = (*_FLAGS, f'--data_dir={data}', f'--train_steps={_ENDLESS}', '--min_tasks=2')
        environ = {'LEDGER': f'{directory}/{{pid}}', 'LEDGER_SECONDS': str(_SECONDS)}
        self._run = Run(directory, addresses(chief=1, worker=TASKS - 1), *flags, environ=environ, popen=subprocess.Popen)

    def processes(self):
        """Returns {process id: name of the task} of those that run."""
        names = {name: _task_name(name[:-1], int(name[-1])) for name in self._run.processes}
        return {process.pid: names[name] for name, process in self._run.processes.items() if process.poll() is None}

    def kill(self, pid):
        (self._lost,) = (name for name, process in self._run.processes.items() if process.pid == pid)
        self._run.send(self._lost, signal.SIGKILL)
        self._run.processes[self._lost].wait()

    def start_again(self):
        self._run.start(self._lost[:-1], int(self._lost[-1]))

    def stop(self):
        self._run.send('worker0', signal.SIGTERM)
        return set(self._run.wait()) == {128 + signal.SIGTERM}

    def end(self):
        self._run.kill()


class Local:
    """A cluster of --local_cluster."""

    def __init__(self, directory, data):
        flags = (*_FLAGS, f'--data_dir={data}', f'--train_steps={_ENDLESS}', '--min_tasks=2', '--restarts=1000')
        command = [sys.executable, 'trainer.py', *flags, f'--output_dir={directory}/output']
        environ = {**os.environ, 'LEDGER': f'{directory}/{{pid}}', 'LEDGER_SECONDS': str(_SECONDS)}
        log = open(directory / 'launcher.log', 'w')
        command.append(f'--local_cluster=chief:1,worker:{TASKS - 1}')
        self._launcher = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environ)

    def processes(self):
        """See ByConfig."""
        return dict(_children(self._launcher.pid))

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)

    def start_again(self):
        """The launcher does."""

    def stop(self):
        self._launcher.send_signal(signal.SIGTERM)
        return self._launcher.wait() == 128 + signal.SIGTERM

    def end(self):
        if self._launcher.poll() is None:
            self._launcher.kill()


def _children(parent):
    """Yields (process id, name of the task) of a launcher's tasks."""
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            if int((path / 'stat').read_text().rpartition(')')[2].split()[1]) == parent:
                environ = dict(item.split('=', 1) for item in (path / 'environ').read_text().split('\0') if item)
                task = json.loads(environ['TF_CONFIG'])['task']
                yield int(path.name), _task_name(task['type'], task['index'])
        except (OSError, KeyError):  # It has just ended, or begun.
            continue


def _task_name(job, index):
    return job if job == 'chief' else f'{job} {index}'


def lose_again_and_again(directory, cluster, times, seed):
    """Kills a task, waits until the others go on, starts it, and waits until all train, several times; then stops all.

    Returns:
      [(process id, name)] of all tasks, in the order of their starts; and the number of kills after which the others had gone
      on without the task, and with it once it was back.
    """
    rng, pids, right = random.Random(seed), {}, 0
    wait_for_tasks(directory, TASKS)
    for i in range(times):
        wait_until_saved(directory, 1)
        time.sleep(rng.uniform(0, 2 * _SAVE_STEPS * _SECONDS))
        pids |= cluster.processes()
        victim = rng.choice(sorted(pids.keys() & cluster.processes().keys()))
        before, start = len(lines(directory)), time.monotonic()
        cluster.kill(victim)
        wait_until(lambda before=before: len(lines(directory)) > before)
        gone_on = time.monotonic() - start
        without = lines(directory)[-1]['tasks']
        cluster.start_again()
        wait_for_tasks(directory, TASKS)
        right += pids[victim] not in without or isinstance(cluster, Local)
        print(f'{i}: {pids[victim]}: {len(without)} go on after {gone_on:.0f} s, all after', end=' ')
        print(f'{time.monotonic() - start:.0f} s, at step {lines(directory)[-1]["from_step"]}', flush=True)
    wait_until_saved(directory, 2)
    pids |= cluster.processes()
    if not cluster.stop():
        raise AssertionError('the exit codes are wrong')
    return list(pids.items()), right


def wait_until(condition):
    deadline = time.monotonic() + 600
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError('waited in vain')
        time.sleep(0.05)


def lines(directory):
    """Returns the lines of tasks.jsonl."""
    path = directory / 'output' / 'tasks.jsonl'
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for_tasks(directory, count):
    wait_until(lambda: lines(directory) and len(lines(directory)[-1]['tasks']) == count)


def last_step(directory):
    """Returns the step of the last checkpoint."""
    return max((int(path.stem.rpartition('-')[2]) for path in (directory / 'output').glob('model.ckpt-*.index')), default=0)


def wait_until_saved(directory, count):
    """Waits for some checkpoints of the tasks that train."""
    wait_until(lambda: last_step(directory) >= lines(directory)[-1]['from_step'] + count * _SAVE_STEPS)


def history(directory, pids, steps):
    """Returns [{example: loss}] of the steps, as the tasks that tasks.jsonl names ran them last."""
    runs = collections.defaultdict(dict)  # {task: {step: (ids, losses)}}.
    for pid, name in pids:
        if (directory / str(pid)).exists():
            runs[name] |= {step: (ids, values) for step, ids, values in read_ledger(directory / str(pid))}
    found = []
    for step in range(steps):
        names = [line['tasks'] for line in lines(directory) if line['from_step'] <= step][-1]
        losses = collections.Counter()
        step_losses = {}
        for name in names:
            ids, bits = runs[name][step]
            losses.update(ids)
            step_losses |= zip(ids, np.array(bits, np.int32).view(np.float32).tolist())
        if max(losses.values()) > 1:
            raise AssertionError(f'step {step}: {losses}')
        found.append(step_losses)
    return found


def compare(found, expected):
    """Returns facts about the steps of a run, [{example: loss}], and those of an undisturbed one."""
    order = [sorted(step) for step in found]
    per_epoch = EXAMPLES // BATCH
    epochs = [sum(order[i : i + per_epoch], []) for i in range(0, len(order) - per_epoch + 1, per_epoch)]
    return {
        'steps': len(found),
        'same_examples': order == [sorted(step) for step in expected],
        'epochs': len(epochs),
        'epochs_of_each_example_once': sum(sorted(epoch) == [*range(EXAMPLES)] for epoch in epochs),
        'largest_difference': max(abs(step[i] - other.get(i, np.inf)) for step, other in zip(found, expected) for i in step),
        'largest_loss': max(max(step.values()) for step in expected),
    }


def undisturbed(directory, data, steps):
    """Returns [{example: loss}] of an undisturbed run of all tasks."""
    environ = {'LEDGER': f'{directory}/{{pid}}'}
    flags = (*_FLAGS, f'--data_dir={data}', f'--train_steps={steps}')
    run = Run(directory, addresses(chief=1, worker=TASKS - 1), *flags, environ=environ, popen=subprocess.Popen)
    codes = [process.wait() for process in run.processes.values()]
    if any(codes):
        raise AssertionError(run.log('chief0')[-2000:])
    found = [{} for _ in range(steps)]
    for process in run.processes.values():
        for step, ids, bits in read_ledger(directory / str(process.pid)):
            found[step] |= zip(ids, np.array(bits, np.int32).view(np.float32).tolist())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--times', type=int, default=20)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--local', action='store_true', help='with --local_cluster')
    options = parser.parse_args()
    end_after(90)
    with tempfile.TemporaryDirectory() as scratch:
        directory, data = pathlib.Path(scratch, 'run'), pathlib.Path(scratch, 'data')
        directory.mkdir()
        cluster = (Local if options.local else ByConfig)(directory, data)
        try:
            pids, right = lose_again_and_again(directory, cluster, options.times, options.seed)
        finally:
            cluster.end()
        steps = last_step(directory)
        found = history(directory, pids, steps)
        facts = compare(found, undisturbed(pathlib.Path(scratch, 'undisturbed'), data, steps))
        print(json.dumps({'kills': options.times, 'right': right, 'formations': len(lines(directory)), **facts}))


if __name__ == '__main__':
    main()
