"""The evaluations in metrics.csv, and the objective: the metric for comparing checkpoints and trials."""

from collections.abc import Iterable, Mapping
import json
import math
import typing
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.locks import taking_turns
from estimator_trainer.common.storage.metrics_file import MODE, is_of_training, metrics_path, read_rows, remove_rows, write_rows


class Objective(typing.NamedTuple):
    """A metric to minimize, or to maximize if is_max."""

    metric: str
    is_max: bool

    def is_better(self, value: float, other: float, min_delta: float = 0.0) -> bool:
        """Whether a value is better than another by more than min_delta. Any number is better than NaN; NaN never is."""
        gain = value - other if self.is_max else other - value
        return gain > min_delta or (value == value and other != other)

    def best(self, values: Iterable[float]) -> float | None:
        """Returns the best value, ignoring NaN; None if there is none."""
        numbers = [value for value in values if value == value]
        return (max if self.is_max else min)(numbers, default=None)


def parse_objective(text: str | None) -> Objective:
    """Parses text such as 'accuracy:max'; None is 'loss:min'.

    Raises:
      UsageError: the text is not of this form.
    """
    metric, _, direction = ('loss:min' if text is None else text).rpartition(':')
    if not metric or direction not in ('min', 'max'):
        raise UsageError(f'--best_metric={text} is not of the form METRIC:min or METRIC:max, such as accuracy:max')
    return Objective(metric, direction == 'max')


def warn_of_nan(result: Mapping[str, Any]) -> None:
    """Logs a warning for each metric of an evaluation that is NaN, with a likely reason.

    Args:
      result: {'global_step': int, split: {metric: value}}.
    """
    for split, metrics in result.items():
        for name, value in metrics.items() if split != 'global_step' else ():
            if isinstance(value, float) and math.isnan(value):
                reason = 'an input or a weight may be NaN' if 'loss' in name else f'{split} may have no example of a class'
                tf.logging.warning('%s of the split %s is NaN at step %d: %s.', name, split, result['global_step'], reason)


def evaluations_since_best(values: Iterable[float], objective: Objective, min_delta: float) -> int:
    """Returns the number of evaluations since the last improvement by more than min_delta."""
    best, since = None, 0
    for value in values:
        if best is None or objective.is_better(value, best, min_delta):
            best, since = value, 0
        else:
            since += 1
    return since


def add_metrics(output_dir: str, result: Mapping[str, Any]) -> None:
    """Writes the metrics of an evaluation to metrics.csv: one row per split, ordered by step.

    Replaces rows of the same step and split, as when a resumed run repeats an evaluation. Concurrent evaluations write one
    after the other.

    Args:
      result: {'global_step': int, split: {metric: value}}.
    """
    step = result['global_step']
    new = [{'global_step': step, 'split': split, **metrics} for split, metrics in result.items() if split != 'global_step']
    replaced = [(step, row['split']) for row in new]
    with taking_turns(metrics_path(output_dir)):
        old = [
            row
            for row in read_rows(output_dir)
            if is_of_training(row) or (int(row['global_step']), row['split']) not in replaced
        ]
        write_rows(output_dir, old + new)


def abandon(output_dir: str, step: int, folder: str) -> None:
    """Drops the rows later than a step, after copying the whole file to a folder, unless that has it."""
    remove_rows(output_dir, lambda row: int(row['global_step']) > step, folder)


def read_metrics(output_dir: str) -> list[dict[str, str]]:
    """Returns the evaluations in metrics.csv, ordered by step: each has 'global_step', 'split' and the metrics, as text.

    Raises:
      RunError: the file is corrupt.
    """
    rows = (row for row in read_rows(output_dir) if not is_of_training(row))
    return [{name: text for name, text in row.items() if name != MODE} for row in rows]


def read_metric(output_dir: str, split: str, metric: str, last_step: float = math.inf) -> list[float]:
    """Returns the values of a split's metric up to a step, ordered by step.

    Raises:
      RunError: metrics.csv is corrupt.
    """
    rows = [row for row in read_metrics(output_dir) if row['split'] == split and int(row['global_step']) <= last_step]
    texts = [row[metric] for row in rows if row.get(metric)]
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise RunError(f'{metrics_path(output_dir)}: {metric} has values that are not numbers: delete it') from None


def read_evaluations(output_dir: str) -> list[dict[str, Any]]:
    """Returns the evaluations, {'global_step': int, split: {metric: value}}, ordered by step.

    Raises:
      RunError: metrics.csv is corrupt.
    """
    found: dict[int, dict[str, Any]] = {}
    for row in read_metrics(output_dir):
        step = int(row['global_step'])
        names = [name for name, text in row.items() if text and name not in ('global_step', 'split')]
        found.setdefault(step, {'global_step': step})[row['split']] = {name: _value(row[name]) for name in names}
    return list(found.values())


def _value(text):
    try:
        return json.loads(text)
    except ValueError:  # nan and inf.
        return float(text)
