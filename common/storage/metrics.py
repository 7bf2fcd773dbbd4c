"""The evaluations in metrics.csv."""

from collections.abc import Iterable, Mapping
import math
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.locks import taking_turns
from estimator_trainer.common.storage.metrics_file import read_rows, remove_rows, write_rows
from estimator_trainer.common.storage.metrics_table import evaluations, is_of_training, metrics_path
from estimator_trainer.common.storage.objective import Objective


def warn_of_nan(result: Mapping[str, Any]) -> None:
    """Logs a warning of the metrics of an evaluation that are NaN, with a likely reason.

    Args:
      result: {'global_step': int, split: {metric: value}}.
    """
    step = result['global_step']
    for split, metrics in result.items():
        if split == 'global_step':
            continue
        nan = [name for name, value in metrics.items() if isinstance(value, float) and math.isnan(value)]
        _warn([name for name in nan if 'loss' in name], split, step, 'an input, a label or a weight may be NaN')
        _warn(
            [name for name in nan if 'loss' not in name],
            split,
            step,
            f'{split} may lack a class, or have labels that are NaN, 0 or all equal',
        )


def _warn(names, split, step, reason):
    if names:
        verb = 'are' if len(names) > 1 else 'is'
        tf.logging.warning('%s of the split %s %s NaN at step %d: %s.', ', '.join(names), split, verb, step, reason)


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


def read_metric(output_dir: str, split: str, metric: str, last_step: float = math.inf) -> list[float]:
    """Returns the values of a split's metric up to a step, ordered by step.

    Raises:
      RunError: metrics.csv is corrupt.
    """
    found = [result[split] for result in read_evaluations(output_dir) if split in result and result['global_step'] <= last_step]
    try:
        return [float(metrics[metric]) for metrics in found if metric in metrics]
    except (TypeError, ValueError):
        raise RunError(f'{metrics_path(output_dir)}: {metric} has values that are not numbers: delete it') from None


def read_evaluations(output_dir: str) -> list[dict[str, Any]]:
    """Returns the evaluations, {'global_step': int, split: {metric: value}}, ordered by step.

    Raises:
      RunError: metrics.csv is corrupt.
    """
    try:
        return evaluations(read_rows(output_dir))
    except ValueError as error:
        raise RunError(f'{metrics_path(output_dir)}: {error}: delete it') from None
