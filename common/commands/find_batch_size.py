"""--schedule=find_batch_size: the speed and the memory of training with batches of several sizes, in a process for each."""

import contextlib
import os
import tempfile
import time
from typing import Any

from absl import flags as absl_flags
import tensorflow.compat.v1 as tf

from estimator_trainer.common import memory, processes
from estimator_trainer.common.cluster import tf_config
from estimator_trainer.common.commands import flags, request, saved_run
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import read_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.size import count_examples
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.sweep import batch_sizes, forks
from estimator_trainer.common.sweep.batch_sizes import Trial
from estimator_trainer.common.sweep.starts import starter
from estimator_trainer.hparams import build

_SECONDS = 50.0  # After which no further size is tried.
_MOST = 2**20


def run(FLAGS: absl_flags.FlagValues, stop: StopOnSignal, objects: request.Objects) -> dict[str, Any]:
    """Tries sizes, prints their table, and returns the fastest and the largest that fits into memory.

    Raises:
      UsageError: the flags are wrong, or batch_size is one of the modules' own batches.
      RunError: not even the smallest batch can be trained on.
    """
    tf_config.refuse(os.environ, '--schedule=find_batch_size')
    saved = saved_run.take(FLAGS, flags.output_dir(FLAGS))
    _, dataset, params = request.load(FLAGS, objects, saved)
    most = _count(DataSource(dataset, FLAGS.data_dir, params))
    start = time.monotonic()
    given = [f'--model={FLAGS.model}', f'--dataset={FLAGS.dataset}', f'--data_dir={FLAGS.data_dir}']
    given += flags.arguments(FLAGS, but_for=Trait.LAUNCHER | Trait.NOT_IN_TRIALS | Trait.SET_IN_TRIALS)
    of_run = [FLAGS[name] for name in names_with(Trait.CHANGES_RESULT) if not FLAGS[name].present]
    given += [flag.serialize() for flag in of_run if flag.value != flag.default]
    free = memory.available()
    with tempfile.TemporaryDirectory() as directory:
        build.save(params, path := os.path.join(directory, 'hparams.json'))
        given.append(f'--hparams_set={path}')
        with forks.make_server(['batch_trials']) or contextlib.nullcontext() as server:
            begin = starter(['batch_trials'], (), server)

            def try_size(size):
                return _try(begin, directory, size, given, free, stop)

            found = batch_sizes.search(try_size, free, most, lambda: time.monotonic() < start + _SECONDS)
    if found[0].error:
        raise RunError(f'batch_size={found[0].size}: {found[0].error}')
    for line in batch_sizes.to_lines(found):
        tf.logging.info('%s', line)
    best, largest = max(found, key=lambda trial: trial.speed), batch_sizes.largest(found, free, most)
    tf.logging.info(
        'The fastest is --hparams=batch_size=%d, with %s examples/sec; the largest that fits into %s of memory is about %d%s.',
        best.size,
        f'{best.speed:,.0f}',
        memory.to_text(batch_sizes.SHARE * free),
        largest,
        f', of {most:,} examples' if 2 * largest > most else '',
    )
    return {'batch_size': best.size, 'largest': largest, 'sizes': [batch_sizes.to_json(trial) for trial in found]}


def _count(source):
    """Returns the number of training examples, whose data it prepares."""
    if source.has_input_fn():
        raise UsageError(f'--schedule=find_batch_size: --dataset={source.params.dataset} makes its own batches')
    source.prepare()
    count = count_examples(source, source.params.train_split, at_most=_MOST)
    if 0 < count < batch_sizes.FIRST:
        raise UsageError(
            f'--schedule=find_batch_size: {count} training examples are too few to compare sizes from {batch_sizes.FIRST} on'
        )
    return min(count, _MOST) if count > 0 else _MOST


def _try(begin, directory, size, given, free, stop):
    """Returns the Trial of a size, of a process that may take a share of the memory."""
    path, log = (os.path.join(directory, f'{size}.{kind}') for kind in ('json', 'txt'))
    limit = 0 if free == float('inf') else int(free)
    with stop.defer_signals():
        code = stop.wait_for(begin([str(limit), path, str(size), *given], log))
    if code or not os.path.exists(path):
        return Trial(size, error=f'failed: {processes.cause(log, code)}'.strip())
    found = read_json(path)
    return Trial(size, found['seconds'], found['peak'])
