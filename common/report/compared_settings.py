"""The relation of settings and metric of compared runs: parallel coordinates, effects, and both in words."""

from collections.abc import Sequence
import json
import math
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.common.report import effects, parallel
from estimator_trainer.common.report.charts import number, percent
from estimator_trainer.common.report.compared import Comparison
from estimator_trainer.common.report.effects import Effect, text_of
from estimator_trainer.common.report.parallel import Parallel
from estimator_trainer.common.storage.status import State

_MIN_RUNS = 3
_MAX_AXES = 9  # And one for the metric.
_MAX_TEXTS = 4
_SEED, _DATASET = 'seed', 'dataset'  # The former is varied, but not chosen.


class Settings(NamedTuple):
    """text describes the lines; effects_text what the effects say; omitted are the names of settings without an axis."""

    lines: Parallel
    text: str
    effects: Sequence[Effect]
    effects_text: str
    omitted: Sequence[str]


def draw(found: Comparison) -> Settings | None:
    """Returns what the settings say about the metric by which runs are sorted.

    None if fewer than three runs have both, or if they are of different datasets, whose metrics cannot be compared.
    """
    objective = found.objective
    if _DATASET in found.settings:
        return None
    values_of = ((run, _value(run, chosen, objective.metric)) for run, chosen in zip(found.runs, found.chosen))
    pairs = [(run, value) for run, value in values_of if value is not None]
    names = [name for name in found.settings if name != _SEED]
    columns = {name: [run.settings.get(name) for run, _ in pairs] for name in names}
    columns = {name: column for name, column in columns.items() if len({json.dumps(value) for value in column}) > 1}
    values = np.array([value for _, value in pairs], float)
    if len(pairs) < _MIN_RUNS or not columns or not np.isfinite(values).any():
        return None
    badness = np.where(np.isfinite(values), -values if objective.is_max else values, math.inf)
    points, mean = _without_seeds(columns, badness)
    measured = effects.measure(points, mean) if len(mean) >= effects.MIN_POINTS else []
    order = [*dict.fromkeys([one.name for one in measured] + [*columns])]
    axes = {name: columns[name] for name in [name for name in order if _fits(columns[name])][:_MAX_AXES]}
    shown = [run.name for run, _ in pairs], axes, objective.metric, values, badness
    return Settings(
        parallel.draw(*shown),
        _describe(*shown, len(found.runs)),
        measured,
        _describe_effects(measured, len(mean), objective.metric),
        [name for name in order if name not in axes],
    )


def _value(run, chosen, metric):
    """Returns the metric of a run; NaN for one that has failed before it had any, as of a sweep; None if it is unknown."""
    if chosen and metric in chosen[1]:
        return chosen[1][metric]
    return math.nan if run.state == State.FAILED else None


def _fits(column):
    known = [value for value in column if value is not None]
    return effects.is_numeric(known) or len({text_of(value) for value in known}) <= parallel.MAX_VALUES


def _without_seeds(columns, badness):
    """Returns the columns and the badness of runs with the same settings as one, with the mean of their badness."""
    keys = [json.dumps(row) for row in zip(*columns.values())]
    firsts = {key: place for place, key in reversed([*enumerate(keys)])}
    places = sorted(firsts.values())
    means = [np.mean([value for key, value in zip(keys, badness) if key == keys[place]]) for place in places]
    return {name: [column[place] for place in places] for name, column in columns.items()}, np.array(means)


def _describe(names, columns, metric, values, badness, count):
    best = int(np.argmin(badness))
    chosen = ', '.join(f'{name} {text_of(column[best])}' for name, column in columns.items())
    without = f' Left out: {count - len(names)} without {metric}.' if count > len(names) else ''
    text = (
        f'A line for each of {len(names)} runs, through its settings and its {metric}, colored by its rank.{without} '
        f'The best, {names[best]}, has {chosen}: {metric} {number(float(values[best]))}.'
    )
    some = np.argsort(badness, kind='stable')[: math.ceil(len(names) / 5)]
    if len(some) < 2:
        return text
    of_some = '; '.join(f'{name} {_summary([column[i] for i in some])}' for name, column in columns.items())
    return f'{text} The {len(some)} best have {of_some}.'


def _summary(values: Sequence[Any]) -> str:
    distinct = [*dict.fromkeys(map(text_of, values))]
    if len(distinct) > 2 and effects.is_numeric(values):
        return f'from {text_of(min(values))} to {text_of(max(values))}'
    rest = ['others'] if len(distinct) > _MAX_TEXTS else []
    return ' or '.join([*distinct[:_MAX_TEXTS], *rest])


def _describe_effects(measured, count, metric):
    if count < effects.MIN_POINTS:
        return f'How much each setting matters takes at least {effects.MIN_POINTS} different ones; there are {count}.'
    clear = [f'{one.name} ({percent(one.share)})' for one in measured if one.is_clear]
    return (
        f'The share of the differences in rank, by {metric}, that a setting alone explains, among {count} different choices. '
        f'More than chance would explain: {", ".join(clear) or "none"}.'
    )
