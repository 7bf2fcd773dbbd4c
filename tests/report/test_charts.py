"""Charts place values where their ticks say, and skip what is no number."""

import numpy as np
import pytest

from estimator_trainer.common.report import charts
from estimator_trainer.common.report.charts import Series, plot


@pytest.mark.parametrize(
    'low, high, expected',
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (-3, 12, [0, 5, 10]),
        (1, 2000, [500, 1000, 1500, 2000]),
        (0.0009, 0.0011, [0.0009, 0.00095, 0.001, 0.00105, 0.0011]),
    ],
)
def test_ticks_are_round_numbers_within_the_interval(low, high, expected):
    assert charts.ticks(low, high) == expected


@pytest.mark.parametrize('low, high, expected', [(0.05, 200, [0.1, 1, 10, 100]), (1, 1e12, [1, 1e3, 1e6, 1e9, 1e12])])
def test_ticks_of_a_logarithm_are_powers_of_ten(low, high, expected):
    assert charts.log_ticks(low, high) == pytest.approx(expected)


def test_values_lie_where_the_ticks_are():
    chart = plot('t', '', [Series('s', np.array([0.0, 5, 10]), np.array([0.0, 0.5, 1]))], 'x', 'y', y_range=(0, 1))
    assert chart.paths[0].line == 'M50,212L219,111L388,10'  # The corners and the middle of the area.
    assert (219.0, '5') not in chart.x.ticks and (50.0, '0') in chart.x.ticks and (388.0, '10') in chart.x.ticks
    assert (212.0, '0') in chart.y.ticks and (10.0, '1') in chart.y.ticks


@pytest.mark.parametrize(
    'high, texts',
    [(0.0011, ['0.0009', '0.00095', '0.001', '0.00105', '0.0011']), (0.000915, ['9e-4', '9.05e-4', '9.1e-4', '9.15e-4'])],
)
def test_the_ticks_of_an_axis_fit_beside_it(high, texts):
    assert [text for _, text in charts.Scale(0.0009, high, 212, 10).axis('y').ticks] == texts


def test_a_range_of_a_hundred_is_logarithmic_where_it_may_be():
    series = [Series('s', np.array([0.0, 1, 2]), np.array([1.0, 10, 100]))]
    assert plot('t', '', series, 'x', 'y', may_be_log=True).paths[0].line == 'M50,212L219,111L388,10'
    assert 'L219,111' not in plot('t', '', series, 'x', 'y').paths[0].line


def test_what_is_not_finite_leaves_a_gap():
    y = np.array([0.0, np.nan, 1, np.inf, 0.5])
    path = plot('t', '', [Series('s', np.arange(5.0), y, 'both')], 'x', 'y', y_range=(0, 1)).paths[0]
    assert path.line == 'M50,212M219,10M388,111' and path.dots == 'M50,212h0M219,10h0M388,111h0'


@pytest.mark.parametrize('values', [[3.0], [3.0, 3.0], [np.nan], []])
def test_one_value_or_none_has_a_chart(values):
    chart = plot('t', '', [Series('s', np.arange(float(len(values))), np.array(values))], 'x', 'y')
    assert len(chart.x.ticks) > 1 and len(chart.y.ticks) > 1
    assert bool(chart.paths[0].dots) == (values == [3.0])  # A line of one point is a dot.


def test_a_long_line_keeps_its_extremes():
    y = np.zeros(100_000)
    y[[777, 50_001]] = 1, -1
    path = plot('t', '', [Series('s', np.arange(1e5), y)], 'x', 'y', y_range=(-1, 1)).paths[0]
    assert path.line.count('L') <= 400 and ',10L' in path.line and ',212L' in path.line


def test_a_histogram_counts_all_values():
    chart = charts.histogram('t', '', np.array([0.0, 0, 0, 1, 4]), 'x', 'y')  # Five intervals: 3, 1, 0, 0 and 1 values.
    assert [round(bar[3]) for bar in chart.bars] == [202, 67, 0, 0, 67]  # Of 202 pixels.


@pytest.mark.parametrize(
    'value, expected',
    [(0, '0'), (0.05, '0.05'), (1e-6, '1e-6'), (12000, '12k'), (2.5e6, '2.5M'), (-3e10, '-3e10'), (1234, '1234')],
)
def test_short_numbers(value, expected):
    assert charts.short(value) == expected


@pytest.mark.parametrize(
    'value, expected', [(3.0, '3'), (0.123456, '0.1235'), (12578.2, '12,578'), (float('nan'), 'NaN'), (float('inf'), 'inf')]
)
def test_numbers_for_people(value, expected):
    assert charts.number(value) == expected


@pytest.mark.parametrize(
    'value, expected',
    [(0, '0 %'), (1, '100 %'), (0.0001, '< 0.1 %'), (0.9999, '> 99.9 %'), (0.746, '74.6 %'), (float('nan'), 'NaN')],
)
def test_percentages_hide_no_remainder(value, expected):
    assert charts.percent(value) == expected
