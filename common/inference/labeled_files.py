"""The files of --input with their labels, for evaluation."""

import dataclasses
import itertools
import math

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference.evaluator import Evaluator
from estimator_trainer.common.inference.input_files import are_records, open_labeled
from estimator_trainer.common.inference.labeled_pictures import with_pictures
from estimator_trainer.common.pipeline.bad_records import ERRORS, reason
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import disable_autotune, get_specs, label_batches, parsed_batches
from estimator_trainer.common.records.elements import elements

EVAL = tf.estimator.ModeKeys.EVAL
SPLIT = 'input'  # The name under which the metrics of the files are reported.


def make_evaluator(
    estimator: tf.estimator.Estimator, source: DataSource, pattern: str, max_steps: int = 0, towers: int = 1
) -> Evaluator:
    """Returns an Evaluator of the examples in files, after checking that all are sound and have labels.

    Args:
      pattern: as for `open_files`.
      max_steps: maximum number of batches to evaluate; 0 for all.
      towers: number of towers that share a batch.

    Raises:
      UsageError: there are no files or no examples, or the dataset does not take labeled files.
      RunError: an example is invalid, or has no label; the message names its place.
    """
    source, entries = _open(source, pattern)
    count, size = _count(source, pattern, entries), source.params.eval_batch_size
    tf.logging.info('--input=%s: %d examples.', pattern, count)

    def input_fn():
        batches = parsed_batches(source, EVAL, _records(source, entries))
        return disable_autotune(batches.prefetch(tf.data.AUTOTUNE))

    # One more step, to reach the end.
    steps, at_least = (max_steps, 1) if max_steps else (math.ceil((count + 1) / size), math.ceil(count / size))
    return Evaluator(
        estimator, input_fn, SPLIT, steps, at_least, math.ceil(min(size, count) / max(towers, 1)), writes_events=False
    )


def find_bad(source: DataSource, pattern: str) -> RunError | None:
    """Returns the error of the first example in files, as of `make_evaluator`, that cannot be parsed; None if all can."""
    source, entries = _open(source, pattern)
    return _located(source, entries, 0)


def _open(source, pattern):
    if source.has_images() and not source.reads_labeled() and not are_records(pattern):
        source = with_pictures(source)
    return source, open_labeled(source, pattern)


def _records(source, entries, seen=None):
    """Returns the records up to the first that is an error; `seen` tells what was read."""

    def generate():
        for _, record in entries():
            if isinstance(record, Exception):
                if seen is not None:
                    seen.error = record
                return
            if seen is not None:
                seen.count += 1
            yield record

    return tf.data.Dataset.from_generator(generate, output_signature=get_specs(source).records)


@dataclasses.dataclass
class _Seen:
    """What has been read: the number of records, and the error after them."""

    count: int = 0
    error: Exception | None = None


def _count(source, pattern, entries):
    """Returns the number of examples; raises an error for the first that is invalid or has no label."""
    seen, done = _Seen(), 0
    try:
        for _ in elements(lambda: label_batches(source, _records(source, entries, seen))):
            done += 1
    except ERRORS as error:
        raise _located(source, entries, done * source.params.eval_batch_size) or error from None
    if seen.error:
        raise RunError(f'{seen.error}: correct it, or leave it out') if isinstance(seen.error, RunError) else seen.error
    if not seen.count:
        raise UsageError(f'--input={pattern}: has no examples')
    return seen.count


def _located(source, entries, first):
    """Returns the error of the first example, from a number on, that cannot be parsed; None if all can."""
    number = first
    try:
        for _ in elements(lambda: disable_autotune(parsed_batches(source, EVAL, _records(source, entries).skip(first), 1))):
            number += 1
    except ERRORS as error:
        fields, _ = next(itertools.islice(entries(), number, None))
        path, *place = (f'{name} {value}' for name, value in fields.items())
        return RunError(f'{": ".join([path.removeprefix("input "), *place])}: {reason(error)}')
    return None
