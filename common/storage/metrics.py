"""What an evaluation is judged by: one metric, which should be as small or as large as possible."""

import csv
import io
import os
import typing

import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.files import taking_turns, write


class Objective(typing.NamedTuple):
    metric: str
    is_max: bool

    def is_better(self, value, other, min_delta=0.0):
        """Whether a value is better than another by more than min_delta; NaN is never better, and anything is than NaN."""
        gain = value - other if self.is_max else other - value
        return gain > min_delta or (value == value and other != other)

    def best(self, values):
        """Returns the best of a list of float, None where there is none but NaN."""
        numbers = [value for value in values if value == value]
        return (max if self.is_max else min)(numbers, default=None)


def parse_objective(text):
    """Returns the Objective of a text such as 'loss:min' or 'accuracy:max'.

    Raises:
      UsageError: it is none.
    """
    metric, _, direction = text.rpartition(':')
    if not metric or direction not in ('min', 'max'):
        raise UsageError(f'--best_metric={text} is not of the form METRIC:min or METRIC:max, such as accuracy:max')
    return Objective(metric, direction == 'max')


def evaluations_since_best(values, objective, min_delta):
    """Returns how many evaluations, at the end of a list of them, brought nothing better by more than min_delta."""
    best, since = None, 0
    for value in values:
        if best is None or objective.is_better(value, best, min_delta):
            best, since = value, 0
        else:
            since += 1
    return since


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
    with taking_turns(metrics_path(output_dir)):
        old = [
            row
            for row in read_metrics(output_dir)
            if (int(row['global_step']), row['split']) not in [(step, row['split']) for row in new]
        ]
        rows = sorted(old + new, key=lambda row: int(row['global_step']))
        text = io.StringIO()
        writer = csv.DictWriter(text, dict.fromkeys(key for row in rows for key in row), lineterminator='\n')
        writer.writeheader()
        writer.writerows(rows)
        write(metrics_path(output_dir), text.getvalue())


def read_metrics(output_dir):
    """Returns the rows of metrics.csv: dicts of text, of which 'global_step' and 'split' say what was evaluated.

    Raises:
      RunError: it is damaged.
    """
    path = metrics_path(output_dir)
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
        raise RunError(f'{metrics_path(output_dir)}: {metric} has values that are not numbers: delete it') from None


def metrics_path(output_dir):
    return os.path.join(output_dir, 'metrics.csv')
