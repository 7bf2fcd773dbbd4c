"""Figures about a regression: predictions against labels, and what is left."""

from typing import Any

import numpy as np

from estimator_trainer.common.report.charts import Chart, Series, histogram, number, plot
from estimator_trainer.common.report.predicted import Predicted

_MAX_DOTS = 1000


def figures(found: Predicted) -> dict[str, Any]:
    """Returns what the page shows about the predictions of numbers; those that are not finite are only counted."""
    assert found.values is not None
    are_finite = np.isfinite(found.values) & np.isfinite(found.labels)
    labels, values = found.labels[are_finite], found.values[are_finite]
    unknown = len(are_finite) - len(labels)
    note = f' {unknown:,} labels or predictions are not finite, and left out.' if unknown else ''
    if not len(labels):
        return {'text': note.strip(), 'numbers': [], 'charts': []}
    numbers = measures(labels, values)
    text = (
        f'Predictions of {len(labels):,} examples are off by {number(numbers["mean absolute error"])} on average; the standard '
        f'deviation of the labels is {number(labels.std())}.{note}'
    )
    shown = [*((name, number(value)) for name, value in numbers.items()), ('R²', _close_to_one(r_squared(labels, values)))]
    return {'text': text, 'numbers': shown, 'charts': _charts(labels, values, numbers)}


def measures(labels: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """Returns the usual measures of errors, {name: value}, of float [n]."""
    residuals = values - labels
    return {
        'mean absolute error': float(np.abs(residuals).mean()),
        'root mean squared error': float(np.sqrt(np.square(residuals).mean())),
        'mean error': float(residuals.mean()),
        'largest error': float(np.abs(residuals).max()),
    }


def r_squared(labels: np.ndarray, values: np.ndarray) -> float:
    """Returns the share of the labels' variance that predictions explain; NaN if all labels are equal."""
    variance = float(np.var(labels))
    return 1 - float(np.square(values - labels).mean()) / variance if variance else float('nan')


def _close_to_one(value):
    return '> 0.9999' if 0.9999 < value < 1 else number(value)


def _charts(labels: np.ndarray, values: np.ndarray, numbers: dict[str, float]) -> list[Chart]:
    residuals = values - labels
    places = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), _MAX_DOTS)).astype(int))
    ends = np.array([min(labels.min(), values.min()), max(labels.max(), values.max())])
    diagonal = Series('exact', ends, ends, 'guide', 7)
    sample = f' {len(places):,} of {len(labels):,} examples are shown.' if len(places) < len(labels) else ''
    zero = Series('exact', np.array([values.min(), values.max()]), np.zeros(2), 'guide', 7)
    spread, most = np.percentile(residuals, [5, 95]), float(np.abs(residuals).max()) or 0.5
    return [
        plot(
            'predicted against true',
            f'Predictions by label; the dashed diagonal is exact. R² is {_close_to_one(r_squared(labels, values))}.{sample}',
            [diagonal, Series('examples', labels[places], values[places], 'dots')],
            'label',
            'prediction',
        ),
        histogram(
            'residuals',
            f'How often predictions exceed the label by how much: on average by {number(numbers["mean error"])}; nine of ten '
            f'residuals are from {number(spread[0])} to {number(spread[1])}.',
            residuals,
            'prediction - label',
            'examples',
        ),
        plot(
            'residuals by prediction',
            f'Prediction minus label, by prediction: a trend or a funnel shows what the model misses. The largest error is '
            f'{number(numbers["largest error"])}.{sample}',
            [zero, Series('examples', values[places], residuals[places], 'dots')],
            'prediction',
            'prediction - label',
            y_range=(-most, most),
        ),
    ]
