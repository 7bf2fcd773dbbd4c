"""Figures about forecasts: some beside the truth and the baselines, and the errors by step."""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from estimator_trainer.common.inference.prediction import Prediction
from estimator_trainer.common.report.charts import Chart, Series, number, plot, shorten
from estimator_trainer.common.targets import BASELINES, LAST_SEASON, LAST_VALUE

_MAX_GROUPS = 4
_MAX_TIMES = 60
_NAMES = {'value': 'forecast', LAST_VALUE: 'last value', LAST_SEASON: 'last season'}
_COLORS = {'value': 0, LAST_VALUE: 7, LAST_SEASON: 1}


def figures(predictions: Iterable[Prediction], metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns what the page shows about the predictions of a split: 'text', 'charts' and 'numbers'; None without any.

    Args:
      predictions: those of all windows, group by group, in the order of time; their fields have the 'time' and the baselines.
      metadata: of the dataset.
    """
    sums: Any = 0
    count, shown = 0, dict[str, collections.deque[Prediction]]()
    for prediction in predictions:
        if prediction.label is None or 'value' not in prediction.values:  # A model of the user's own may name it otherwise.
            continue
        group = prediction.fields.get('group', '')
        if group in shown or len(shown) < _MAX_GROUPS:
            shown.setdefault(group, collections.deque(maxlen=_span(len(prediction.label)))).append(prediction)
        errors = np.stack([np.asarray(value) - prediction.label for value in _forecasts(prediction).values()])
        sums, count = sums + np.stack([np.abs(errors), errors**2]), count + 1
    if not count:
        return None
    absolute, squares = sums / count
    numbers = [
        (f'{name}, {measure}', number(float(value)))
        for i, name in enumerate(_NAMES.values())
        for measure, value in (('MAE', absolute[i].mean()), ('RMSE', np.sqrt(squares[i].mean())))
    ]
    text = (
        f'{count:,} windows, each with forecasts of the next {absolute.shape[1]} times. The forecasts are off by '
        f'{number(float(absolute[0].mean()))} on average; the last value by {number(float(absolute[1].mean()))}, that of the '
        f'same time last season, {metadata["season_length"]} rows before, by {number(float(absolute[2].mean()))}.'
    )
    charts = [_by_step(absolute), *(_of_group(group, found) for group, found in shown.items())]
    return {'text': text, 'charts': charts, 'numbers': numbers}


def _forecasts(prediction):
    """Returns {name: [horizon]} of the model and the baselines."""
    return {'value': prediction.values['value'], **{name: prediction.fields[name] for name in BASELINES}}


def _by_step(absolute: np.ndarray) -> Chart:
    steps = np.arange(1, absolute.shape[1] + 1)
    series = [Series(_NAMES[name], steps, errors, 'both', _COLORS[name]) for name, errors in zip(_NAMES, absolute)]
    first, last = (number(float(absolute[0, i])) for i in (0, -1))
    text = f'How far forecasts are off on average, by how many steps ahead they are: {first} at the first, {last} at the last.'
    return plot('error by step', text, series, 'steps ahead', 'mean absolute error')


def _span(horizon):
    """Returns the number of times that are drawn of a group, and of its last windows, as each begins at one of them."""
    return max(1, _MAX_TIMES // horizon) * horizon


def _of_group(group: str, found: Sequence[Prediction]) -> Chart:
    """Draws those of the last windows of a group that do not overlap."""
    horizon = len(found[0].label)
    kept = [*found][::-horizon][::-1]
    truth = np.concatenate([one.label for one in kept])
    x = np.arange(len(truth)) - len(truth) + 1
    drawn = {name: np.concatenate([_forecasts(one)[name] for one in kept]) for name in _NAMES}
    order = (LAST_VALUE, LAST_SEASON, 'value')
    series = [Series(_NAMES[name], x, drawn[name], 'guide' if name != 'value' else 'line', _COLORS[name]) for name in order]
    begin, end = kept[0].fields['time'][0], kept[-1].fields['time'][-1]
    text = f'From {begin} to {end}: each forecast is of {horizon} times after the last known one.'
    title = shorten(group, 40) or 'forecasts'
    return plot(title, text, [*series, Series('truth', x, truth, 'line', 2)], f'rows before {end}', '')
