"""output_dir/best: the best checkpoint, with its metrics."""

from collections.abc import Mapping
import math
import os
import re
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import copy, names_in, read_json, write_json
from estimator_trainer.common.locks import taking_turns
from estimator_trainer.common.storage.abandoned import move
from estimator_trainer.common.storage.metrics import read_evaluations
from estimator_trainer.common.storage.objective import Objective
from estimator_trainer.common.storage.restore import is_intact, paths_of

_RECORD = 'best.json'
# Of the entries of best.json besides the evaluation.
_TYPES: Mapping[str, Any] = {'checkpoint': str, 'split': str, 'metric': str, 'is_max': bool, 'value': (int, float)}


def best_dir(output_dir: str) -> str:
    return os.path.join(output_dir, 'best')


def best_record(output_dir: str) -> str:
    """Returns the path of best.json, which describes the best checkpoint."""
    return os.path.join(best_dir(output_dir), _RECORD)


def keep_if_best(checkpoint_path: str, output_dir: str, objective: Objective, split: str, result: Mapping[str, Any]) -> None:
    """Copies a checkpoint if it is better than the kept one, or none is kept for this split and metric.

    A reader sees the old or the new checkpoint, even if the copy is interrupted: the step is part of the file names, and
    best.json, which names the checkpoint, is written last. A checkpoint deleted meanwhile is skipped. Concurrent evaluations
    copy one after the other. A value of NaN is never the best.

    Args:
      checkpoint_path: without suffix.
      result: {'global_step': int, split: {metric: value}}.
    """
    if math.isnan(result[split][objective.metric]):
        name = os.path.basename(checkpoint_path)
        tf.logging.warning('%s is not kept as the best: %s of the split %s is NaN.', name, objective.metric, split)
        return
    with taking_turns(best_dir(output_dir)):
        _keep_if_best(checkpoint_path, best_dir(output_dir), objective, split, result)


def _keep_if_best(checkpoint_path, directory, objective, split, result):
    value = result[split][objective.metric]
    criterion = {'split': split, 'metric': objective.metric, 'is_max': objective.is_max}
    old = _read(directory)
    if old and all(old[key] == criterion[key] for key in criterion) and not objective.is_better(value, old['value']):
        return
    tf.io.gfile.makedirs(directory)
    names = [os.path.basename(path) for path in paths_of(checkpoint_path)]
    try:
        for name in names:
            _copy(os.path.join(os.path.dirname(checkpoint_path), name), os.path.join(directory, name))
    except tf.errors.NotFoundError:
        names = []
    data = [name for name in names if '.data-' in name]
    # The last five digits of a name, as in model.ckpt-100.data-00000-of-00001, are the number of data files.
    if f'{os.path.basename(checkpoint_path)}.index' not in names or not data or len(data) != int(data[0][-5:]):
        tf.logging.warning('%s was deleted before it could be kept as the best.', checkpoint_path)
        return
    write_json(
        os.path.join(directory, _RECORD),
        {'checkpoint': os.path.basename(checkpoint_path), **criterion, 'value': value, **result},
    )
    for name in names_in(directory):
        if name not in (*names, _RECORD):
            tf.io.gfile.remove(os.path.join(directory, name))


def _copy(source, target):
    """Copies a file of a checkpoint; hard-links weights where possible.

    Saving the same step again replaces a weights file, but never changes it. It changes the index.
    """
    if '.data-' in os.path.basename(target):
        copy(source, target)
    else:
        tf.io.gfile.copy(source, target, overwrite=True)


def find_best(output_dir: str) -> str | None:
    """Returns the path of the best checkpoint, without suffix, or None."""
    directory = best_dir(output_dir)
    record = _read(directory)
    return record and os.path.join(directory, record['checkpoint'])


def intact_best(output_dir: str) -> str | None:
    """Returns the path of the best checkpoint, without suffix, if it is intact, or None."""
    path = find_best(output_dir)
    return path if path and is_intact(path) else None


def best_step(output_dir: str) -> int | None:
    """Returns the step of the best checkpoint, or None."""
    path = find_best(output_dir)
    return int(path.rpartition('-')[2]) if path else None


def copy_back(output_dir: str) -> None:
    """Copies the best checkpoint to its run, which has deleted it."""
    best = find_best(output_dir)
    assert best
    for path in sorted(paths_of(best), key=lambda path: path.endswith('.index')):  # The index makes it whole.
        _copy(path, os.path.join(output_dir, os.path.basename(path)))


def abandon(output_dir: str, step: int, folder: str) -> None:
    """Moves the best checkpoint to a folder if it is later than a step, and takes the best of the remaining ones.

    These are the checkpoints in output_dir that metrics.csv has evaluations of. May be repeated if it is interrupted.
    """
    directory, target = best_dir(output_dir), os.path.join(folder, 'best')
    record = _read(directory)
    if record and (best_step(output_dir) or 0) > step:
        move(best_record(output_dir), target)
    abandoned = _read(target)
    if not abandoned or tf.io.gfile.exists(best_record(output_dir)):
        return
    for path in paths_of(os.path.join(directory, abandoned['checkpoint'])):
        move(path, target)
    _decide_again(output_dir, Objective(abandoned['metric'], abandoned['is_max']), abandoned['split'])


def _decide_again(output_dir, objective, split):
    results = [result for result in read_evaluations(output_dir) if objective.metric in result.get(split, {})]
    left = [result for result in results if tf.io.gfile.exists(f'{_path(output_dir, result)}.index')]
    best, best_left = (_best_of(found, objective, split) for found in (results, left))
    if best_left:  # Once: a process that is killed leaves the best one, or none.
        keep_if_best(_path(output_dir, best_left), output_dir, objective, split, best_left)
    if best and best is not best_left:
        tf.logging.warning(
            '%s: the best evaluation that remains, %s=%s at step %d, has no checkpoint any longer: the best of those that are '
            'left takes its place.',
            *(best_dir(output_dir), objective.metric, best[split][objective.metric], best['global_step']),
        )


def _path(output_dir, result):
    return os.path.join(output_dir, f'model.ckpt-{result["global_step"]}')


def _best_of(results, objective, split):
    """Returns the first of the best evaluations; None if all are NaN, or there are none."""
    best = objective.best(result[split][objective.metric] for result in results)
    return next((result for result in results if result[split][objective.metric] == best), None)


def evaluation(output_dir: str) -> dict[str, Any] | None:
    """Returns the evaluation of the best checkpoint, {'global_step': int, split: {metric: value}}, or None."""
    record = _read(best_dir(output_dir))
    return record and {key: value for key, value in record.items() if key not in _TYPES}


def _read(directory):
    path = os.path.join(directory, _RECORD)
    if not tf.io.gfile.exists(path):
        return None
    try:
        record = read_json(path)
    except ValueError as error:
        raise RunError(f'{error}: delete {directory}') from None
    if record.get('value') in ('Infinity', '-Infinity', 'NaN'):
        record['value'] = float(record['value'])
    is_valid = all(isinstance(record.get(key), expected) for key, expected in _TYPES.items())
    if not is_valid or not re.fullmatch(r'model\.ckpt-\d+', record['checkpoint']):
        raise RunError(f'{path}: does not describe a checkpoint: delete {directory}')
    return record
