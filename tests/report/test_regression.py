"""Figures about a regression, calculated by hand."""

import math

import numpy as np
import pytest

from estimator_trainer.common.report import regression
from estimator_trainer.common.report.predicted import Predicted

LABELS, VALUES = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 3, 1])  # Residuals: 0, 1, 0, -3.


def test_the_measures_of_errors():
    assert regression.measures(LABELS, VALUES) == {
        'mean absolute error': 1,
        'root mean squared error': pytest.approx(math.sqrt(2.5)),
        'mean error': -0.5,
        'largest error': 3,
    }
    assert regression.r_squared(LABELS, VALUES) == pytest.approx(1 - 2.5 / 1.25)
    assert math.isnan(regression.r_squared(np.ones(3), np.ones(3)))


def figures(labels, values):
    return regression.figures(Predicted(4, np.arange(4), labels, None, values, None, 0.0, 'mean absolute error', []))


def test_the_charts_say_what_they_show():
    found = figures(LABELS, VALUES)
    assert found['text'].startswith('Predictions of 4 examples are off by 1 on average; the standard deviation')
    assert [chart.title for chart in found['charts']] == ['predicted against true', 'residuals', 'residuals by prediction']
    assert 'R² is -1.' in found['charts'][0].text and 'The largest error is 3.' in found['charts'][2].text
    assert found['charts'][0].paths[1].dots.count('M') == 4


def test_what_is_not_finite_is_counted():
    found = figures(LABELS, np.array([1.0, np.nan, np.inf, 4]))
    assert '2 labels or predictions are not finite' in found['text'] and ('R²', '1') in found['numbers']
    assert figures(LABELS, np.full(4, np.nan)) == {
        'text': '4 labels or predictions are not finite, and left out.',
        'numbers': [],
        'charts': [],
    }


def test_nearly_exact_is_not_exact():
    assert ('R²', '> 0.9999') in figures(LABELS, LABELS + 1e-5)['numbers']
