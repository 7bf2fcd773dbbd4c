"""The curves of a run: metrics, learning rate and speed by step."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_trainer.common.report.charts import Chart, Series, number, plot
from estimator_trainer.common.storage.history import Columns, History
from estimator_trainer.common.storage.metrics_table import STEP_LOSS
from estimator_trainer.common.storage.objective import Objective

_NOT_METRICS = {'learning_rate': 'learning rate', 'examples/sec': 'examples per second'}  # Columns, and their titles.
_DETAILS = ('best_f1_threshold', 'best_f1_precision', 'best_f1_recall')  # With the keys of targets after them.
_OF_TARGET = 'loss/'  # The beginning of the names of the losses of several targets.
_MAX_CHARTS = 12


class Best(NamedTuple):
    """What is compared to find the best checkpoint, the split, and the step of the best; None if there is none."""

    objective: Objective
    split: str
    step: int | None


def draw(history: History, best: Best) -> tuple[list[Chart], list[str]]:
    """Returns a chart for each metric of the training or of an evaluation, and the names of those that are left out.

    The loss comes first, then what is compared to find the best checkpoint, then the losses of several targets; details,
    learning rate and speed come last.
    """
    order = ['loss', best.objective.metric]
    tables = (history.training, *history.evaluations.values())
    found = {name for columns in tables for name in columns}
    others = found - {'global_step', STEP_LOSS, *_NOT_METRICS}

    def place(name):
        return *(name != first for first in order), not name.startswith(_OF_TARGET), name.startswith(_DETAILS), name

    metrics = sorted(others, key=place)
    names = [*metrics[: _MAX_CHARTS - 2], *(name for name in _NOT_METRICS if name in found)]
    last = max([1, *(columns['global_step'][-1] for columns in tables if len(columns.get('global_step', ())))])
    charts = [_draw(name, history, best, (0.0, float(last))) for name in names]
    return [chart for chart in charts if chart], metrics[_MAX_CHARTS - 2 :]


def _draw(name, history, best, steps):
    """Returns the chart of a metric over a range of steps, or None if it has no finite value."""
    is_metric = name not in _NOT_METRICS
    sources: Mapping[str, Columns] = {'training': history.training, **history.evaluations}
    series, words = [], []
    for color, (source, columns) in enumerate(sources.items()):
        values = columns.get(name, np.zeros(0))
        if np.isfinite(values).any():
            series.append(Series(source, columns['global_step'].astype(float), values, 'both' if color else 'line', color))
            is_compared = source == best.split and name == best.objective.metric
            subject = source if is_metric else 'it'
            words.append(f'{subject} {_run_of(columns["global_step"], values, best.objective if is_compared else None)}')
    if not series:
        return None
    text = f'{_NOT_METRICS.get(name, name)} by step: {"; ".join(words)}.'
    marker = None
    if best.step is not None and is_metric:
        marker = (float(best.step), 'best')
        text += f' The dashed line marks the best checkpoint, of step {best.step:,}.'
    return plot(_NOT_METRICS.get(name, name), text, series, 'step', '', x_range=steps, marker=marker, may_be_log=is_metric)


def _run_of(steps: np.ndarray, values: np.ndarray, objective: Objective | None) -> str:
    """Returns how values run, in words; with the best one for an objective."""
    known = np.flatnonzero(np.isfinite(values))
    first, last = known[0], known[-1]
    if first == last:
        return f'is {number(values[first])} at step {steps[first]:,}'
    if len({*values[known]}) == 1:
        return f'stays at {number(values[first])} from step {steps[first]:,} to {steps[last]:,}'
    text = f'goes from {number(values[first])} at step {steps[first]:,} to {number(values[last])} at step {steps[last]:,}'
    best = objective.best(values) if objective else None
    return text if best is None else f'{text}, at its best {number(best)} at step {steps[np.flatnonzero(values == best)[0]]:,}'


def of_metrics(evaluations: Sequence[Mapping], best: Mapping | None) -> tuple[list[str], list[list[str]]]:
    """Returns the columns and the rows of a table of metrics: those of each split's last evaluation, and of the best one.

    Args:
      evaluations, best: {'global_step': int, split: {metric: value}}, ordered by step.
    """
    columns: dict[str, Mapping] = {}
    for result in evaluations:
        for split in result.keys() - {'global_step'}:
            columns[split] = {'step': result['global_step'], **result[split]}
    shown = {f'{split}, last': values for split, values in sorted(columns.items())}
    if best and any(values['step'] != best['global_step'] for values in columns.values()):
        of_best = {split: values for split, values in best.items() if split != 'global_step'}
        shown |= {f'{split}, best': {'step': best['global_step'], **values} for split, values in sorted(of_best.items())}
    names = sorted(
        {name for values in shown.values() for name in values}, key=lambda name: (name != 'step', name != 'loss', name)
    )
    return [*shown], [[name, *(_cell(values.get(name)) for values in shown.values())] for name in names]


def _cell(value):
    if isinstance(value, (list, tuple)):
        return ', '.join(map(_cell, value))
    return '' if value is None else number(value) if isinstance(value, (int, float)) else str(value)
