"""Runs as lines through parallel axes, one for each setting, and one for the metric. (A. Inselberg: The plane with parallel
coordinates, 1985.)
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common.report import charts
from estimator_trainer.common.report.charts import Scale
from estimator_trainer.common.report.effects import is_numeric, text_of
from estimator_trainer.common.report.ranks import to_ranks

HEIGHT, LEVELS = 300, 7
MAX_VALUES = 12  # Of an axis whose values are no numbers.
_TOP, _BOTTOM, _LEFT, _STEP = 34, 280, 70, 130
_MAX_TEXT = 14


class Axis(NamedTuple):
    """Ticks are (pixel, short text, whole text)."""

    name: str
    x: int
    ticks: Sequence[tuple[float, str, str]]


class Line(NamedTuple):
    """The `d` of an SVG path, with gaps where a run has no value; level 0 is the best."""

    path: str
    level: int
    text: str


class Parallel(NamedTuple):
    """Lines are the worst first, so that the best is on top."""

    axes: Sequence[Axis]
    lines: Sequence[Line]
    width: int


def draw(
    names: Sequence[str], settings: Mapping[str, Sequence[Any]], metric: str, values: np.ndarray, badness: np.ndarray
) -> Parallel:
    """Returns the lines of n runs.

    Args:
      names: of the runs.
      settings: {name: values [n]}, of the axes in order; None where a run has none.
      metric, values: of the last axis, float [n]; NaN and infinity leave a gap.
      badness: float [n], by which the runs are colored; the lower the better.
    """
    columns = {**settings, metric: [value if np.isfinite(value) else None for value in values.tolist()]}
    axes, places = [], []
    for number, (name, column) in enumerate(columns.items()):
        ticks, pixels = _axis(column)
        axes.append(Axis(name, _LEFT + number * _STEP, ticks))
        places.append(pixels)
    levels = np.minimum((to_ranks(badness) - 1) * LEVELS / max(len(names), 1), LEVELS - 1).astype(int)
    lines = [
        Line(
            charts.line_through(zip([axis.x for axis in axes], points)),
            int(levels[run]),
            _text(names[run], {name: column[run] for name, column in columns.items()}),
        )
        for run, points in enumerate(zip(*places))
    ]
    order = np.argsort(-badness, kind='stable')
    return Parallel(axes, [lines[run] for run in order], 2 * _LEFT + (len(axes) - 1) * _STEP)


def _axis(column):
    """Returns the ticks of an axis, and the pixel of each value, NaN for None."""
    known = [value for value in column if value is not None]
    if not is_numeric(known):
        texts = sorted({text_of(value) for value in known})
        heights = dict(zip(texts, np.linspace(_BOTTOM, _TOP, len(texts) + 2)[1:-1].round(1).tolist()))
        ticks = [(pixel, _shorten(text), text) for text, pixel in heights.items()]
        return ticks, [np.nan if value is None else heights[text_of(value)] for value in column]
    distinct = np.unique(np.array(known, float))
    if not len(distinct):
        return [], [np.nan] * len(column)
    low, high = charts.range_of(distinct)
    scale = Scale(low, high, _BOTTOM, _TOP, is_log(distinct))
    shown = distinct if len(distinct) <= 6 else [low, high, *scale.values()]
    ticks = _apart([(float(pixel), charts.short(value)) for pixel, value in zip(scale.place(np.array(shown)), shown)])
    return [(pixel, text, text) for pixel, text in ticks], scale.place(np.array(column, float)).tolist()


def is_log(distinct: np.ndarray) -> bool:
    """Whether the median of positive numbers, float [n] and ascending, is nearer to the middle of a logarithmic scale."""
    if len(distinct) < 3 or distinct[0] <= 0:
        return False
    linear, log = ((np.median(v) - v[0]) / (v[-1] - v[0]) for v in (distinct, np.log(distinct)))
    return bool(abs(log - 0.5) < abs(linear - 0.5))


def _apart(ticks):
    """Returns the first of the ticks at a height: texts must not touch."""
    kept: list[tuple[float, str]] = []
    for pixel, text in ticks:
        if all(abs(pixel - other) >= 14 for other, _ in kept):
            kept.append((pixel, text))
    return kept


def _shorten(text):
    return text if len(text) <= _MAX_TEXT else f'{text[: _MAX_TEXT - 1]}…'


def _text(name, values):
    return f'{name}: {", ".join(f"{key} {text_of(value)}" for key, value in values.items())}'
