"""The schedule that says which training records a run has seen; see common/runs/schedules.py."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.options.values import parse_step
from estimator_trainer.common.pipeline.labels import read_labels
from estimator_trainer.common.pipeline.places import find, places, to_text
from estimator_trainer.common.runs import saved_dataset, saved_flags
from estimator_trainer.common.runs.drawn import Drawn, check_known, records_of_steps
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import checkpoints

_SHOWN = 20  # Epochs, classes or steps of a line in the log.


def seen(experiment: Experiment) -> dict[str, Any]:
    """Counts the records that the steps of --step used, by epoch and class, or lists the steps that used --record.

    Nothing is trained: the order of the records is computed.
    """
    output_dir, source = experiment.output_dir, experiment.source
    first, last = _steps(experiment)
    check_known(source, output_dir, last)
    saved_dataset.check_same(source, output_dir)
    if experiment.options.record:
        return _uses(experiment, first, last)
    labels = _labels(source)
    drawn = records_of_steps(source, output_dir, first - 1, last, labels)
    counts = _counts(drawn, labels, source.params.metadata.get('class_names', ()))
    result = {'global_step': last, **({'first_step': first} if first > 1 else {}), **counts}
    _log(result)
    return result


def _steps(experiment):
    """Returns the first and the last of the steps to look at: those of --step, all up to a single one, or all of the run."""
    path, given = checkpoints.latest_intact(experiment.output_dir), experiment.options.step
    newest = checkpoints.global_step(path) if path else 0
    first, last = parse_step(given) if given else (1, newest)
    if not newest:
        raise UsageError(f'--schedule=seen: {experiment.output_dir} has no checkpoint after the first step: train it first')
    if last > newest:
        raise UsageError(f'--step={given}: the latest checkpoint of {experiment.output_dir} is of step {newest}')
    return first if ':' in given else 1, last


def _labels(source):
    """Returns the class of each training record, or None if there are none."""
    try:
        return read_labels(source, '--schedule=seen')
    except UsageError:
        tf.logging.info('--dataset=%s: the records have no classes, by which to count them.', source.params.dataset)
        return None


def _by_epoch(drawn: Iterator[Drawn]) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yields the records used in each epoch: its number, from 1 on, or 0 without epochs; its size; the numbers."""
    for _, position, size, numbers in drawn:
        flat = np.ravel(numbers)
        epochs = (position + np.arange(len(flat))) // size + 1 if size > 0 else np.zeros(len(flat), np.int64)
        ends = [*(np.flatnonzero(np.diff(epochs)) + 1), len(flat)]
        for begin, end in zip([0, *ends], ends):
            yield int(epochs[begin]), max(size, 0), flat[begin:end]


def _counts(drawn, labels, class_names):
    """Returns the items of the result that count the records used."""
    num_classes = 0 if labels is None else max(len(class_names), int(labels.max()) + 1)
    names = [*map(str, class_names), *map(str, range(len(class_names), num_classes))]
    epochs: dict[int, np.ndarray] = {}
    times = np.zeros(0, np.int64)
    for epoch, size, numbers in _by_epoch(drawn):
        of_classes = () if labels is None else np.bincount(labels[numbers], minlength=num_classes).tolist()
        epochs[epoch] = epochs.get(epoch, 0) + np.array([len(numbers), *of_classes])
        if size:
            times = np.bincount(numbers, minlength=size) + np.pad(times, (0, size - len(times)))

    def described(counts):
        examples, *classes = counts.tolist()
        return {'examples': examples, **({'classes': dict(zip(names, classes))} if labels is not None else {})}

    result = described(sum(epochs.values()))
    if len(times):
        result |= {'records': int(np.count_nonzero(times)), 'unseen': int(np.count_nonzero(times == 0))}
        result['epochs'] = [{'epoch': epoch, **described(counts)} for epoch, counts in epochs.items()]
    return result


def _log(result):
    """Logs the counts for people."""
    steps = f'Steps {result.get("first_step", 1)} to {result["global_step"]}'
    distinct = f', of {result["records"]:,} records; {result["unseen"]:,} were not used' if 'records' in result else ''
    tf.logging.info('%s used %s examples%s.', steps, f'{result["examples"]:,}', distinct)
    epochs = result.get('epochs', [])
    for counted in [result, *epochs[-_SHOWN:]] if len(epochs) > 1 else [result]:
        what = f'Epoch {counted["epoch"]}' if 'epoch' in counted else 'All'
        classes = [f'{name}: {count:,}' for name, count in counted.get('classes', {}).items()]
        tf.logging.info('%s: %s', what, listed([f'{counted["examples"]:,} examples', *classes], _SHOWN))


def _uses(experiment, first, last):
    """Returns the result for --record: the record's place, and the steps that used it, with their epochs."""
    output_dir, source, text = experiment.output_dir, experiment.source, experiment.options.record
    split, number = _find(source, text, saved_flags.load(output_dir).get('eval_splits') or ['eval'])
    (place,) = places(source, split, [number])
    result = {'global_step': last, 'record': to_text(place), 'place': place, 'steps': [], 'epochs': []}
    if split != source.params.train_split:
        tf.logging.info('%s is a record of the split %s: no step used it.', result['record'], split)
        return result
    for step, position, size, numbers in records_of_steps(source, output_dir, first - 1, last):
        found = np.flatnonzero(np.ravel(numbers) == number)
        result['steps'] += (step + 1 + found // numbers.shape[1]).tolist()
        result['epochs'] += ((position + found) // size + 1).tolist() if size > 0 else []
    steps = f'in {listed([*map(str, result["steps"])], _SHOWN)}' if result['steps'] else 'in none'
    tf.logging.info('Of the steps %d to %d, %s was used %s.', first, last, result['record'], steps)
    return result


def _find(source, text, eval_splits):
    """Returns the split and the number of the record that --record names.

    Raises:
      UsageError: it names none, or several.
    """
    trained = source.params.train_split
    for split in dict.fromkeys([trained, *eval_splits]):
        found = find(source, split, text)
        if len(found) > 1:
            names = listed([to_text(place) for place in places(source, split, found[:3])], 2)
            raise UsageError(f'--record={text} names {len(found)} records: {names}: give the whole path')
        if found:
            return split, found[0]
    (example,) = places(source, trained, [0])
    raise UsageError(
        f'--record={text}: --dataset={source.params.dataset} has no such record in {", ".join([trained, *eval_splits])}; the '
        f'first one is {to_text(example)}'
    )
