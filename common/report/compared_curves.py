"""The curves of several runs in the same charts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from estimator_trainer.common.report.charts import Chart, Series, number, plot
from estimator_trainer.common.report.compared import Comparison, Run, is_max
from estimator_trainer.common.storage.objective import Objective

MAX_RUNS = 8  # As many as the page has colors.
_MAX_CHARTS = 12


def draw(found: Comparison) -> tuple[list[Chart], list[str]]:
    """Returns a chart for each metric, and one of the training's loss, with the first runs; and the names that are left out."""
    runs = found.runs[:MAX_RUNS]
    metrics = found.metrics[: _MAX_CHARTS - 1]
    points: dict[str, Any] = {name: _of(name) for name in metrics}
    last = max([1, *(step for run in runs for step, _ in (*run.evaluations, *run.training))])
    charts = [_draw(name, runs, get, is_max(name, found.objective), last, 'both') for name, get in points.items()]
    charts.append(_draw('loss of the training', runs, lambda run: run.training, None, last, 'line'))
    return [chart for chart in charts if chart], list(found.metrics[_MAX_CHARTS - 1 :])


def _of(name):
    return lambda run: [(step, metrics.get(name, np.nan)) for step, metrics in run.evaluations]


def _draw(
    title: str,
    runs: Sequence[Run],
    get: Callable[[Run], Sequence[tuple[int, float]]],
    direction: bool | None,
    last: int,
    kind: str,
) -> Chart | None:
    """Returns the chart of a metric, or None if it has no finite value."""
    series, words = [], []
    for color, run in enumerate(runs):
        steps, values = np.array([*get(run)], float).reshape(-1, 2).T
        known = np.flatnonzero(np.isfinite(values))
        if len(known):
            series.append(Series(run.name, steps, values, kind, color))
            best = None if direction is None else Objective(title, direction).best(values[known])
            at = known[-1] if best is None else np.flatnonzero(values == best)[0]
            words.append(f'{run.name} {number(values[at])} at step {steps[at]:,.0f}')
    if not series:
        return None
    text = f'{title} by step. {"At the end" if direction is None else "At their best"}: {"; ".join(words)}.'
    return plot(title, text, series, 'step', '', x_range=(0.0, float(last)), may_be_log=True)
