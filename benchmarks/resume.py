"""Data larger than memory: times of starting, resuming and reading, and peak memory.

    python -m benchmarks.resume

20,000 records of 100 KB, in a temporary directory of 2 GB; default hyper-parameters, the input alone. The files are in the page
cache. Each measurement has its own process.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import types

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf

from benchmarks.processes import peak_memory, run_module
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.common.pipeline.size import fits_cache
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS

COUNT, BYTES, BATCHES = 20000, 100000, 300
LIMITS = (4, 3)  # GB of address space; TensorFlow alone takes 2.5.


class Examples:
    """Random bytes, created on access."""

    def __len__(self):
        return COUNT

    def __getitem__(self, i):
        return {'image': os.urandom(BYTES)}


def convert(directory: str) -> dict[str, float]:
    start = time.perf_counter()
    records.write(directory, {'train': Examples()})
    return {'seconds': time.perf_counter() - start}


def verify(directory: str) -> dict[str, float]:
    """Times the verification before the first use of the files in a process."""
    start = time.perf_counter()
    with tf.Graph().as_default():
        records.read(directory, 'train')
    return {'seconds': time.perf_counter() - start}


def parse_batch(mode, params, serialized):
    del mode, params
    return tf.io.parse_example(serialized, {'image': tf.io.FixedLenFeature([], tf.string)}), {}


def train(directory: str, at: float, batches: int, gigabytes: float = 0) -> dict[str, float]:
    """Reads batches.

    Args:
      directory: of the files.
      at: share of the first epoch already seen.
      batches: number of batches to read after the first one.
      gigabytes: limit of the address space; 0 for none.
    """
    if gigabytes:
        resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 1e9),) * 2)
    module = types.SimpleNamespace(read=lambda split, data_dir, params: records.read(data_dir, split), parse_batch=parse_batch)
    params = HParams({**DEFAULTS, 'seed': 1, 'dataset': 'random'})
    source = DataSource(module, directory, params)
    cache = fits_cache(source, COUNT)
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = make_input_fn(source, tf.estimator.ModeKeys.TRAIN, 'train', COUNT, cache)()
        iterator = tf.data.make_initializable_iterator(dataset)
        images = iterator.get_next()[0]['image'].op  # Running an op fetches nothing into Python.
        step = int(at * COUNT / params.batch_size)
        session.run(tf.assign(tf.train.get_or_create_global_step(), step))
        start = time.perf_counter()
        session.run(iterator.initializer)
        session.run(images)
        first = time.perf_counter() - start
        for _ in range(batches):
            session.run(images)
        seconds = time.perf_counter() - start
    rate = params.batch_size * (batches + 1) * BYTES / 1e6 / seconds
    return {'first': first, 'megabytes_per_second': rate, 'megabytes': peak_memory()}


def main() -> None:
    if len(sys.argv) > 1:
        command, directory, *numbers = sys.argv[1:]
        functions = {'convert': convert, 'verify': verify, 'train': train}
        arguments = [float(number) if '.' in number else int(number) for number in numbers]
        try:
            print(json.dumps(functions[command](directory, *arguments)))
        except RunError as error:
            print(json.dumps({'error': str(error)}))
        return
    with tempfile.TemporaryDirectory() as directory:
        print('| what | seen |\n| --- | --- |')
        print(f'| writing 2 GB, s | {run("convert", directory)["seconds"]:.1f} |')
        for name in ('first', 'second'):
            print(f'| verifying them, {name} start, s | {run("verify", directory)["seconds"]:.2f} |')
        for at in (0.0, 0.9):
            print(f'| first batch at {at:.0%} of an epoch, s | {run("train", directory, at, 0)["first"]:.2f} |')
        result = run('train', directory, 0.0, BATCHES)
        print(f'| reading {BATCHES} batches, MB/s | {result["megabytes_per_second"]:.0f} |')
        print(f'| its peak memory, MB | {result["megabytes"]:.0f} |')
        for gigabytes in LIMITS:
            print(
                f'| the same with `ulimit -v` of {gigabytes} GB | {run("train", directory, 0.0, BATCHES, float(gigabytes))} |'
            )


def run(*arguments):
    try:
        return run_module('benchmarks.resume', *arguments)
    except subprocess.CalledProcessError as error:
        return {'exit code': error.returncode}


if __name__ == '__main__':
    main()
