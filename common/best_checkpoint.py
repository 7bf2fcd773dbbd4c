"""output_dir/best: a copy of the best checkpoint, with what it was evaluated to."""

import os

import tensorflow.compat.v1 as tf

from common.errors import RunError
from common.files import read_json, write_json

_DIRECTORY, _RECORD = 'best', 'best.json'


def keep_if_best(checkpoint_path, output_dir, goal, result):
    """Copies a checkpoint if it is the first, is better than the one that is there, or that one had another goal.

    Whoever is stopped amid this finds the old one whole or the new one: files are named by the step, and the record, which
    names them, is written last.

    Args:
      checkpoint_path: str, without suffix.
      output_dir: str.
      goal: Goal.
      result: {'global_step': int, split: {metric: value}}; the first split is judged.
    """
    directory = os.path.join(output_dir, _DIRECTORY)
    value = next(metrics for metrics in result.values() if isinstance(metrics, dict))[goal.metric]
    record = {'checkpoint': os.path.basename(checkpoint_path), 'metric': goal.metric, 'is_max': goal.is_max, 'value': value,
              **result}
    old = _read(directory)
    if old and (old['metric'], old['is_max']) == goal and not goal.is_better(value, old['value']):
        return
    tf.io.gfile.makedirs(directory)
    names = [os.path.basename(path) for path in tf.io.gfile.glob(f'{checkpoint_path}.*')]
    for name in names:
        tf.io.gfile.copy(os.path.join(os.path.dirname(checkpoint_path), name), os.path.join(directory, name), overwrite=True)
    write_json(os.path.join(directory, _RECORD), record)
    for name in tf.io.gfile.listdir(directory):
        if name not in (*names, _RECORD):
            tf.io.gfile.remove(os.path.join(directory, name))


def find_best(output_dir):
    """Returns the path of the best checkpoint, without suffix, or None."""
    directory = os.path.join(output_dir, _DIRECTORY)
    record = _read(directory)
    return record and os.path.join(directory, record['checkpoint'])


def _read(directory):
    path = os.path.join(directory, _RECORD)
    try:
        return read_json(path) if tf.io.gfile.exists(path) else None
    except ValueError as error:
        raise RunError(f'{error}: delete {directory}') from None
