"""An output_dir: hparams.json, results.json, metrics.csv, and the checkpoints and events that the Estimator writes."""

import contextlib
import csv
import io
import os

import tensorflow.compat.v1 as tf

from common import files
from common.best_checkpoint import best_dir
from common.checkpoints import has_checkpoint
from common.errors import RunError, UsageError
from common.files import write, write_json


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
            file.write('.')  # There may be no room for it.
        with contextlib.suppress(tf.errors.NotFoundError):  # Another process may be trying the same.
            tf.io.gfile.remove(probe)
    except tf.errors.OpError as error:
        raise UsageError(f'--output_dir={output_dir}: cannot be written: {error.message}') from None


@contextlib.contextmanager
def lock(output_dir):
    """Keeps other trainings from a local directory until the block, or the process, has ended.

    Raises:
      RunError: another one has it; or the block fails, and the directory has been deleted or moved away.
    """
    if files.is_remote(output_dir):
        yield
        return
    with files.lock(os.path.join(output_dir, 'trainer.lock'), lambda holder: (
            f'--output_dir={output_dir}: {holder or "another trainer"} is training there: wait for it, or choose another')):
        identity = files.identify(output_dir)
        try:
            yield
        except Exception:
            files.check_identity(output_dir, identity)
            raise


def check_empty(output_dir):
    """Raises RunError if there is what a training leaves behind, but no checkpoint: whose it is, nobody knows."""
    for path in (best_dir(output_dir), _metrics_path(output_dir)):
        if tf.io.gfile.exists(path) and not has_checkpoint(output_dir):
            raise RunError(f'{path} is of a training whose checkpoints are gone: delete it to '
                           'begin anew, or choose another --output_dir')


def add_metrics(output_dir, result):
    """Writes the metrics of an evaluation into metrics.csv: a row for each split, in the order of the steps.

    Rows of the same step and split are replaced, as when a stopped training comes by again. Processes that evaluate at once
    write one after the other.

    Args:
      output_dir: str.
      result: {'global_step': int, split: {metric: value}}.
    """
    step = result['global_step']
    new = [{'global_step': step, 'split': split, **metrics} for split, metrics in result.items() if split != 'global_step']
    with files.taking_turns(_metrics_path(output_dir)):
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
    if not all((row.get('global_step') or '').isdecimal() and row.get('split') and None not in row for row in rows):
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
