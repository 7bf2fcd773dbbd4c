"""output_dir/best: the best checkpoint, with its metrics."""

from collections.abc import Mapping
import contextlib
import math
import os
from typing import Any
import uuid

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import names_in, read_json, write_json
from estimator_trainer.common.locks import taking_turns
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.storage.metrics import Objective
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
    if '.data-' not in os.path.basename(target) or is_remote(target) or not _link(os.path.realpath(source), target):
        tf.io.gfile.copy(source, target, overwrite=True)


def _link(source, target):
    """Makes the target a hard link; returns False if the file system refuses."""
    part = f'{target}.{uuid.uuid4().hex}.part'
    try:
        os.link(source, part)
    except OSError:
        return os.path.exists(target) and os.path.exists(source) and os.path.samefile(source, target)
    try:
        os.rename(part, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(part)  # It remains if it was the same file as the target.
    return True


def find_best(output_dir: str) -> str | None:
    """Returns the path of the best checkpoint, without suffix, or None."""
    directory = best_dir(output_dir)
    record = _read(directory)
    return record and os.path.join(directory, record['checkpoint'])


def intact_best(output_dir: str) -> str | None:
    """Returns the path of the best checkpoint, without suffix, if it is intact, or None."""
    path = find_best(output_dir)
    return path if path and is_intact(path) else None


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
    if not all(isinstance(record.get(key), expected) for key, expected in _TYPES.items()):
        raise RunError(f'{path}: does not describe a checkpoint: delete {directory}')
    return record
