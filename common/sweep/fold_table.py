"""The metrics of folds: of each, their mean and their standard deviation; folds.csv."""

from collections.abc import Mapping, Sequence
import math
import os
import statistics
from typing import Any

from estimator_trainer.common.files import to_json, write_csv

Result = Mapping[str, Any]  # Of a fold: 'fold', 'output_dir', 'global_step', and {metric: value} of each split.
_OTHERS = ('fold', 'output_dir', 'global_step')


def summarize(results: Sequence[Result]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Returns {split: {metric: {'mean', 'std', 'folds'}}} of the metrics that are numbers.

    std is the sample standard deviation, with n - 1; None of one number. folds is how many have a finite value: a fold without
    a class lacks some metrics.
    """
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for split in dict.fromkeys(name for result in results for name in result if name not in _OTHERS):
        found[split] = {}
        for metric in dict.fromkeys(name for result in results for name in result.get(split, {})):
            values = [value for result in results if _is_finite(value := result.get(split, {}).get(metric))]
            if values:
                std = statistics.stdev(values) if len(values) > 1 else None
                found[split][metric] = {'mean': statistics.fmean(values), 'std': std, 'folds': len(values)}
    return found


def _is_finite(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


def to_lines(results: Sequence[Result]) -> list[str]:
    """Returns a line for each metric: its mean, its standard deviation, and the value of each fold."""
    lines = []
    for split, metrics in summarize(results).items():
        for metric, found in metrics.items():
            values = ', '.join(str(to_json(result.get(split, {}).get(metric))) for result in results)
            spread = '' if found['std'] is None else f' \u00b1 {to_json(found["std"])}'
            lines.append(f'{split} {metric} = {to_json(found["mean"])}{spread} ({values})')
    return lines


def save(results: Sequence[Result], output_dir: str) -> None:
    """Writes folds.csv: a row for each fold, then their mean and their standard deviation; a column for each SPLIT.METRIC."""
    summary = summarize(results)
    columns = [(split, metric) for split, metrics in summary.items() for metric in metrics]
    rows: list[list[Any]] = [['fold', 'global_step', *(f'{split}.{metric}' for split, metric in columns)]]
    for result in results:
        values = (result.get(split, {}).get(metric) for split, metric in columns)
        rows.append([result['fold'], result['global_step'], *values])
    rows += [[name, '', *(summary[split][metric][name] for split, metric in columns)] for name in ('mean', 'std')]
    write_csv(os.path.join(output_dir, 'folds.csv'), rows)
