"""Training by several processes on loopback, compared with one process with as many towers; and their traffic.

    python -m benchmarks.cluster

The global batch, 120 images of MNIST, is the same for all. Speed and bytes are measured between the chief's second and last log
lines, the bytes by the counter of the loopback device, which nothing else may use meanwhile. The second table measures the
all-reduce of a vector alone. Runs alternate; the tables show medians.
"""

from collections.abc import Callable, Iterator
import contextlib
import functools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf

from benchmarks.processes import ROOT, median_of_rounds
from estimator_trainer.common.cluster import local, tf_config
from estimator_trainer.common.cluster.synchronous import SynchronousTask

ROUNDS, STEPS, EVERY = 3, 200, 20
COUNTS = (1, 2, 3, 4)  # Of processes, and of towers.
HPARAMS = 'batch_size=120,learning_rate=0.001,learning_rate_schedule=constant,warmup_steps=0'
MODELS = {
    'alexnet': ['--model=alexnet', f'--hparams={HPARAMS},augment_shift=0'],
    'mlp, 10 MB': ['--model=mlp', f'--hparams={HPARAMS},hidden_units=[1240,1240]'],
}
REDUCED, REDUCTIONS = (1, 10, 100), 20  # MB; times.


def sent() -> int:
    """Returns the bytes sent through the loopback device since boot."""
    with open('/proc/net/dev', encoding='ascii') as file:
        return int(re.search(r'\blo: *(\d+)', file.read())[1])


@contextlib.contextmanager
def start(count: int, *arguments: str, pins: bool = False) -> Iterator[Any]:
    """Runs Python with these arguments in each task of a cluster; yields the chief's output as a file, stderr included.

    Args:
      pins: whether each task has a core of its own.

    Raises:
      RuntimeError: a task failed.
    """
    with local.held_addresses({'worker': count}) as cluster:
        processes = []
        try:
            for i in range(count):
                config = json.dumps({'cluster': cluster, 'task': {'type': 'worker', 'index': i}})
                out = subprocess.DEVNULL if i else subprocess.PIPE
                environ = {**os.environ, 'TF_CONFIG': config}
                pin = ['taskset', '--cpu-list', str(sorted(os.sched_getaffinity(0))[i])] if pins else []
                processes.append(
                    subprocess.Popen(
                        [*pin, sys.executable, *arguments],
                        env=environ,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        text=True,
                        cwd=ROOT,
                    )
                )
            yield processes[0].stdout
            codes = [process.wait() for process in processes]
            if any(codes):
                raise RuntimeError(f'{" ".join(arguments)}: the exit codes of {count} processes are {codes}')
        finally:
            for process in processes:
                process.kill()
                process.wait()


def train(processes: int, towers: int, *flags: str, pins: bool = False) -> dict[str, float]:
    """Returns the steps per second, the MB sent by all processes in a step, and the model's size in MB."""
    points = []
    with tempfile.TemporaryDirectory() as output_dir:
        command = [
            os.path.join(ROOT, 'trainer.py'),
            '--dataset=mnist',
            '--schedule=train',
            f'--output_dir={output_dir}',
            f'--train_steps={STEPS + 1}',
            f'--save_checkpoints_steps={STEPS + 1}',
            f'--save_summary_steps={EVERY}',
            f'--num_towers={towers}',
            *flags,
        ]
        with start(processes, *command, pins=pins) as log:
            for line in log:
                if weights := re.search(r'total +([\d,]+)', line):
                    megabytes = 4e-6 * int(weights[1].replace(',', ''))
                if step := re.search(r' step = (\d+)', line):
                    points.append((int(step[1]), time.perf_counter(), sent()))
    steps, seconds, sent_bytes = (last - first for first, last in zip(points[1], points[-1]))
    return {'steps_per_second': steps / seconds, 'sent': sent_bytes / steps / 1e6, 'model': megabytes}


def reduce(processes: int, megabytes: int) -> dict[str, float]:
    """Returns the milliseconds that the processes' all-reduce of a vector takes, and the CPU milliseconds of the chief."""
    with start(processes, '-c', f'from benchmarks import cluster; cluster.print_reduction({megabytes})') as out:
        *_, last = out
    return json.loads(last)


def reduce_as_task(megabytes: int) -> dict[str, float]:
    """Runs in each process of `reduce`."""
    task = SynchronousTask(tf_config.read(os.environ), 60, None)
    task.meet({})
    with tf.Graph().as_default():
        vector = tf.Variable(tf.zeros([megabytes * 250_000]), use_resource=True)
        (mean,) = task.collectives.mean([vector.read_value()], task.count)
        initialize = tf.global_variables_initializer()
        with tf.Session(task.target, config=task.session_config) as session:
            session.run(initialize)
            session.run(mean.op)
            seconds, cpu = [], time.process_time()
            for _ in range(REDUCTIONS):
                before = time.perf_counter()
                session.run(mean.op)
                seconds.append(time.perf_counter() - before)
            cpu = time.process_time() - cpu
    task.end_watch()
    task.exchange('the end')  # No process ends before all have received their sums.
    return {'milliseconds': 1000 * statistics.median(seconds), 'cpu': 1000 * cpu / REDUCTIONS}


def ring_megabytes(processes: int, megabytes: float) -> float:
    """Returns the MB that one process sends to its neighbor in a ring all-reduce: all but its own part, twice."""
    return 2 * (processes - 1) / processes * megabytes


def print_reduction(megabytes: int) -> None:
    print(json.dumps(reduce_as_task(megabytes)), flush=True)
    os._exit(0)  # TensorFlow's server would keep the process alive.


def main() -> None:
    runs: dict[Any, Callable[[], dict[str, Any]]] = {}
    for name, flags in MODELS.items():
        for count in COUNTS:
            runs[name, count, 1] = functools.partial(train, count, 1, *flags)
            runs[name, 1, count] = functools.partial(train, 1, count, *flags)
        runs[name, 'pinned'] = functools.partial(train, 2, 1, *flags, pins=True)
    for megabytes in REDUCED:
        for count in COUNTS[1:]:
            runs[megabytes, count] = functools.partial(reduce, count, megabytes)
    results = median_of_rounds(runs, ROUNDS)

    print('| model | processes | steps/s | of one process | of as many towers | MB sent a step | worked out |')
    print('| --- | --- | --- | --- | --- | --- | --- |')
    for name in MODELS:
        for count in COUNTS:
            result = results[name, count, 1]
            speeds = [result['steps_per_second'] / results[name, 1, towers]['steps_per_second'] for towers in (1, count)]
            print(
                f'| {name} | {count} | {result["steps_per_second"]:.1f} | {speeds[0]:.2f} | {speeds[1]:.2f} | '
                f'{result["sent"]:.2f} | {count * ring_megabytes(count, result["model"]):.2f} |'
            )
    for name in MODELS:
        speed, towers = (results[key]['steps_per_second'] for key in ((name, 'pinned'), (name, 1, 2)))
        print(
            f'\n{name}: 2 processes, each with a core of its own: {speed:.1f} steps/s, {speed / towers:.2f} of as many towers.'
        )
    print('\n| vector, MB | processes | ms | CPU of each, ms | MB sent by each | Gbit/s of each |')
    print('| --- | --- | --- | --- | --- | --- |')
    for megabytes in REDUCED:
        for count in COUNTS[1:]:
            milliseconds, cpu = (results[megabytes, count][key] for key in ('milliseconds', 'cpu'))
            each = ring_megabytes(count, megabytes)
            print(f'| {megabytes} | {count} | {milliseconds:.0f} | {cpu:.0f} | {each:.1f} | {each * 8 / milliseconds:.1f} |')


if __name__ == '__main__':
    main()
