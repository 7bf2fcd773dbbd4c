"""An output_dir: hparams.json, results.json, metrics.csv, and the checkpoints and events that the Estimator writes."""

import csv
import io
import os

import tensorflow.compat.v1 as tf

from common.best_checkpoint import best_dir, find_best
from common.errors import RunError, UsageError
from common.files import write, write_json
from common.restore import without_suffix


def hparams_path(output_dir):
    return os.path.join(output_dir, 'hparams.json')


def claim(output_dir):
    """Makes the directory for a training.

    Raises:
      UsageError: it cannot be made or written.
    """
    probe = os.path.join(output_dir, '.writable')
    try:
        tf.io.gfile.makedirs(output_dir)
        with tf.io.gfile.GFile(probe, 'w') as file:
            file.write('')
        tf.io.gfile.remove(probe)
    except tf.errors.OpError as error:
        raise UsageError(f'--output_dir={output_dir}: cannot be written: {error.message}') from None


def has_checkpoint(output_dir):
    """Whether a training has saved something there."""
    return bool(tf.io.gfile.glob(os.path.join(output_dir, 'model.ckpt-*.index')))


def check_state(output_dir):
    """Raises RunError if there are checkpoints, but not the file that names the last: the Estimator would begin anew."""
    try:
        latest = tf.train.latest_checkpoint(output_dir)
    except ValueError:  # The file is empty.
        latest = None
    if has_checkpoint(output_dir) and not latest:
        raise RunError(f'{os.path.join(output_dir, "checkpoint")}: does not name a checkpoint that is there: restore it, a '
                       'line such as model_checkpoint_path: "model.ckpt-100", or choose another --output_dir')


def check_empty(output_dir):
    """Raises RunError if there is what a training leaves behind, but no checkpoint: whose it is, nobody knows."""
    for path in (best_dir(output_dir), _metrics_path(output_dir)):
        if tf.io.gfile.exists(path) and not has_checkpoint(output_dir):
            raise RunError(f'{path} is of a training whose checkpoints are gone: delete it to '
                           'begin anew, or choose another --output_dir')


def require_checkpoint(output_dir):
    """Raises UsageError if there is no checkpoint to load."""
    if not has_checkpoint(output_dir):
        raise UsageError(f'--output_dir={output_dir}: no checkpoint there; train first with --schedule=train, or name the '
                         'directory of a training')


def find_checkpoint(output_dir, which):
    """Returns the path of a checkpoint, without suffix.

    Args:
      output_dir: str.
      which: 'latest', 'best', or the path of a checkpoint, with or without suffix.

    Raises:
      UsageError: there is no such checkpoint.
    """
    if which == 'latest':
        require_checkpoint(output_dir)
        return tf.train.latest_checkpoint(output_dir)
    if which == 'best':
        path = find_best(output_dir)
        if not path:
            raise UsageError(f'--checkpoint=best: none is kept in {best_dir(output_dir)}; --schedule=train_and_evaluate '
                             'does so')
        return path
    path = without_suffix(which)
    if not tf.io.gfile.exists(f'{path}.index'):
        known = sorted(tf.io.gfile.glob(os.path.join(output_dir, 'model.ckpt-*.index')))
        raise UsageError(f'--checkpoint={which}: no such checkpoint; there are: best, latest, '
                         f'{", ".join(map(without_suffix, known))}')
    return path


def is_of(output_dir, checkpoint_path):
    """Whether a checkpoint is one of an output_dir, or its best, and not another training's."""
    directory = os.path.normpath(os.path.dirname(checkpoint_path))
    return directory in (os.path.normpath(output_dir), os.path.normpath(best_dir(output_dir)))


def add_metrics(output_dir, result):
    """Writes the metrics of an evaluation into metrics.csv: a row for each split, in the order of the steps.

    Rows of the same step and split are replaced, as when a stopped training comes by again.

    Args:
      output_dir: str.
      result: {'global_step': int, split: {metric: value}}.
    """
    step = result['global_step']
    new = [{'global_step': step, 'split': split, **metrics} for split, metrics in result.items() if split != 'global_step']
    old = [row for row in read_metrics(output_dir)
           if (int(row['global_step']), row['split']) not in [(step, row['split']) for row in new]]
    rows = sorted(old + new, key=lambda row: int(row['global_step']))
    text = io.StringIO()
    writer = csv.DictWriter(text, dict.fromkeys(key for row in rows for key in row), lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
    write(_metrics_path(output_dir), text.getvalue())


def read_metrics(output_dir):
    """Returns the rows of metrics.csv: dicts of text, of which 'global_step' and 'split' say what was evaluated.

    Raises:
      RunError: it is damaged.
    """
    path = _metrics_path(output_dir)
    if not tf.io.gfile.exists(path):
        return []
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            rows = list(csv.DictReader(io.StringIO(file.read().decode())))
    except (ValueError, csv.Error):
        rows = [{}]
    if not all((row.get('global_step') or '').isdigit() and row.get('split') for row in rows):
        raise RunError(f'{path}: is not a table of metrics: delete it')
    return rows


def read_metric(output_dir, split, metric):
    """Returns the values of a metric of a split, list of float, in the order of the steps.

    Raises:
      RunError: metrics.csv is damaged.
    """
    texts = [row[metric] for row in read_metrics(output_dir) if row['split'] == split and row.get(metric)]
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise RunError(f'{_metrics_path(output_dir)}: {metric} is not a number everywhere: delete it') from None


def _metrics_path(output_dir):
    return os.path.join(output_dir, 'metrics.csv')


def save_results(output_dir, results):
    """Writes results.json."""
    write_json(os.path.join(output_dir, 'results.json'), results)
