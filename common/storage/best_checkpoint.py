"""output_dir/best: a copy of the best checkpoint, with what it was evaluated to."""

import os

import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.files import read_json, taking_turns, write_json

_RECORD = 'best.json'


def best_dir(output_dir):
    return os.path.join(output_dir, 'best')


def keep_if_best(checkpoint_path, output_dir, objective, split, result):
    """Copies a checkpoint if it is the first, is better than the one that is there, or that one was judged otherwise.

    Whoever is stopped amid this finds the old one whole or the new one: files are named by the step, and the record, which
    names them, is written last. A checkpoint that has been deleted meanwhile is passed over. Processes that evaluate at once
    come one after the other.

    Args:
      checkpoint_path: str, without suffix.
      output_dir: str.
      objective: Objective.
      split: str, the split that is judged.
      result: {'global_step': int, split: {metric: value}}.
    """
    with taking_turns(best_dir(output_dir)):
        _keep_if_best(checkpoint_path, best_dir(output_dir), objective, split, result)


def _keep_if_best(checkpoint_path, directory, objective, split, result):
    value = result[split][objective.metric]
    judged = {'split': split, 'metric': objective.metric, 'is_max': objective.is_max}
    old = _read(directory)
    if old and all(old[key] == judged[key] for key in judged) and not objective.is_better(value, old['value']):
        return
    tf.io.gfile.makedirs(directory)
    names = [os.path.basename(path) for path in tf.io.gfile.glob(f'{checkpoint_path}.*')]
    try:
        for name in names:
            source = os.path.join(os.path.dirname(checkpoint_path), name)
            tf.io.gfile.copy(source, os.path.join(directory, name), overwrite=True)
    except tf.errors.NotFoundError:
        names = []
    data = [name for name in names if '.data-' in name]
    # The last digits of a name tell how many there are.
    if f'{os.path.basename(checkpoint_path)}.index' not in names or not data or len(data) != int(data[0][-5:]):
        tf.logging.warning('%s was deleted before it could be kept as the best.', checkpoint_path)
        return
    write_json(
        os.path.join(directory, _RECORD), {'checkpoint': os.path.basename(checkpoint_path), **judged, 'value': value, **result}
    )
    for name in tf.io.gfile.listdir(directory):
        if name not in (*names, _RECORD):
            tf.io.gfile.remove(os.path.join(directory, name))


def find_best(output_dir):
    """Returns the path of the best checkpoint, without suffix, or None."""
    directory = best_dir(output_dir)
    record = _read(directory)
    return record and os.path.join(directory, record['checkpoint'])


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
    kinds = {'checkpoint': str, 'split': str, 'metric': str, 'is_max': bool, 'value': (int, float)}
    if not all(isinstance(record.get(key), kind) for key, kind in kinds.items()):
        raise RunError(f'{path}: does not describe a checkpoint: delete {directory}')
    return record
