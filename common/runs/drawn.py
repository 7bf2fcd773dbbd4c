"""The records that the steps of a run used, from what the run recorded of itself."""

from collections.abc import Iterator
import dataclasses
from typing import NamedTuple

import numpy as np

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.labels import read_labels
from estimator_trainer.common.pipeline.record_numbers import record_numbers
from estimator_trainer.common.pipeline.size import count_examples, is_picked
from estimator_trainer.common.runs import saved_flags
from estimator_trainer.common.runs.length import needed_examples, of_batches
from estimator_trainer.common.storage import run_dir
from estimator_trainer.hparams import overrides
from estimator_trainer.hparams.build import HParams


class Drawn(NamedTuple):
    """The records of some steps that follow one another.

    Attributes:
      step: the global step before the first of them.
      position: the number of examples before it, over all epochs.
      epoch_size: the number of records in an epoch; 0 or negative if there are no epochs, or training ends in the first one.
      numbers: int64 [steps, batch_size], those of the records, see `record_numbers`, in the order of the batch of all towers
        and tasks; task i of n has each n-th, from place i on.
    """

    step: int
    position: int
    epoch_size: int
    numbers: np.ndarray


def records_of_steps(
    source: DataSource, output_dir: str, first: int, last: int, labels: np.ndarray | None = None
) -> Iterator[Drawn]:
    """Yields the records of the steps of a run between two global steps, some steps at a time, without training.

    Step n leads from global step n - 1 to n.

    Args:
      source: that of the run, its data prepared.
      output_dir: of the run; it need not have come to these steps yet.
      first, last: the global steps before the first of the steps and after the last one.
      labels: as from `read_labels` for the training split, if they are read already.

    Raises:
      UsageError: which records a step used is unknown.
      RunError: the data cannot be read.
    """
    check_known(source, output_dir, last)
    flags = saved_flags.load(output_dir)
    counted = count_examples(source, source.params.train_split, needed_examples(source.params))
    if not source.params.oversample:
        labels = None
    elif labels is None:
        labels = read_labels(source, 'oversample=true')
    for begin, end, params in _stretches(source.params, output_dir, first, last):
        count = of_batches(counted, params, flags.get('overfit_batches') or 0)
        count = len(labels) if labels is not None and count <= 0 else count
        own, chosen = dataclasses.replace(source, params=params), None if labels is None else labels[:count]
        cache = params.cache and is_picked(own, count)
        for numbers in record_numbers(own, begin, end, count, cache, labels=chosen):
            yield Drawn(begin, params.examples_at(begin), count, numbers)
            begin += len(numbers)


def check_known(source: DataSource, output_dir: str, last: int) -> None:
    """Raises UsageError if which records the steps of a run used, up to the last of these, is unknown."""
    if source.has_input_fn():
        raise UsageError(
            f'--dataset={source.params.dataset} makes its own batches, so which records a step used is unknown: give it read() '
            'and parse()'
        )
    since = saved_flags.asynchronous_since(saved_flags.load(output_dir))
    if since is not None and since < last:
        raise UsageError(
            f'{output_dir}: with parameter servers, which records a step used depends on time: it is unknown after step {since}'
        )


def _stretches(params: HParams, output_dir: str, first: int, last: int) -> Iterator[tuple[int, int, HParams]]:
    """Yields the stretches of steps of one batch_size: the global steps at both ends, and the hyper-parameters."""
    history = overrides.read_history(run_dir.hparams_path(output_dir))
    changes = [(entry['global_step'], *entry['hparams']['batch_size']) for entry in history if 'batch_size' in entry['hparams']]
    ends = [step for step, _, _ in changes] + [max(last, first)]
    sizes = [old for _, old, _ in changes] + [changes[-1][2] if changes else params.batch_size]
    for number, (begin, end, size) in enumerate(zip([0, *ends], ends, sizes)):
        start = overrides.batch_start([entry for entry in history if entry['global_step'] <= begin]) if number else (0, 0)
        begin, end = max(begin, first), min(end, last)
        if begin < end:
            yield begin, end, HParams({**params, 'batch_size': size}, params.metadata, start)
