"""Times of series: how they are read, the interval between them, the times that follow, and the usual season."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from estimator_trainer.common.own_data.series import timeline
from estimator_trainer.common.own_data.series.timeline import DAY

HOUR = 3_600_000
MONDAY = datetime.date(2024, 1, 1)


def times(texts, order='ymd'):
    found, are_known = timeline.to_times(pa.array([str(text) for text in texts]), order)
    assert are_known.all()
    return found


def days(step, count, first=MONDAY):
    return [first + datetime.timedelta(i * step) for i in range(count)]


def hours(count, minutes=60):
    return [datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=minutes * i) for i in range(count)]


WORKDAYS = [day for day in days(1, 30) if day.weekday() < 5]
MONTHS = [f'{year}-{month:02}' for year in (2023, 2024) for month in range(1, 13)]


@pytest.mark.parametrize(
    'texts, order, described, season, following',
    [
        (days(1, 10), 'ymd', 'a day', 7, ['2024-01-11', '2024-01-12']),
        (days(7, 10), 'ymd', '7 days', 52, ['2024-03-11', '2024-03-18']),
        (WORKDAYS, 'ymd', 'a working day', 5, ['2024-01-31', '2024-02-01', '2024-02-02', '2024-02-05']),
        (hours(30), 'ymd', 'an hour', 24, ['2024-01-02T06:00:00']),
        (hours(30, 15), 'ymd', '15 minutes', 96, ['2024-01-01T07:30:00']),
        (MONTHS, 'ym', 'a month', 12, ['2025-01', '2025-02']),
        ([f'{month}-01' for month in MONTHS], 'ymd', 'a month', 12, ['2025-01-01', '2025-02-01']),
        (['2023-10-31', '2023-11-30', '2023-12-31'], 'ymd', 'a month', 12, ['2024-01-31', '2024-02-29', '2024-03-31']),
        (['2023-11-30', '2023-12-30', '2024-01-30'], 'ymd', 'a month', 12, ['2024-02-29', '2024-03-30']),
        ([f'{month}-15' for month in MONTHS[::3]], 'ymd', '3 months', 4, ['2025-01-15', '2025-04-15']),
        ([f'{year}-12-31' for year in range(2000, 2005)], 'ymd', '12 months', 1, ['2005-12-31']),
        (range(1990, 2000), 'integer', 'a step', 1, ['2000', '2001']),
        (range(0, 50, 5), 'integer', '5 steps', 1, ['50', '55']),
    ],
)
def test_the_interval_and_the_next_times_are_those_of_a_calendar(texts, order, described, season, following):
    found = times(texts, order)
    step = timeline.find_step([found[:2], found], order)
    assert (step.describe(), step.season()) == (described, season)
    assert (step.between(found) == 1).all()
    assert step.texts(step.after(int(found[-1]), len(following))) == following
    if len(found) > 5 and step.unit != timeline.WORKDAY:
        assert step.between(np.delete(found, 3)).tolist() == [1, 1, 2, *[1] * (len(found) - 5)]


def test_each_series_of_working_days_or_months_has_a_time_of_the_day():
    for dates, unit in ((WORKDAYS, timeline.WORKDAY), ([f'{month}-01' for month in MONTHS], timeline.MONTH)):
        groups = [times([f'{date} {clock}' for date in dates]) for clock in ('16:00', '17:30')]
        step = timeline.find_step(groups, 'ymd')
        assert step.unit == unit and [(step.between(group) == 1).all() for group in groups] == [True, True]
    assert step.texts([step.after(int(group[-1]), 1)[0] for group in groups]) == ['2025-01-01T16:00:00', '2025-01-01T17:30:00']


def test_what_does_not_fit_the_interval_is_no_whole_number_of_steps():
    off = timeline.find_step([times(hours(30))], 'ymd').between(np.array([0, HOUR + 1, 2 * HOUR]))
    assert not (off == np.round(off)).any()
    step = timeline.find_step([times([f'{month}-01' for month in MONTHS])], 'ymd')
    assert np.isnan(step.between(times(['2024-01-01', '2024-02-02']))).all()
    workdays = timeline.find_step([times(WORKDAYS)], 'ymd')
    assert workdays.between(times(['2024-01-05', '2024-01-08', '2024-01-10'])).tolist() == [1, 2]
    assert np.isnan(workdays.between(times(['2024-01-05', '2024-01-06']))).all()


def test_midnights_of_summer_time_are_days():
    texts = [*(f'2024-03-{day}T00:00+01:00' for day in range(26, 32)), *(f'2024-04-0{day}T00:00+02:00' for day in range(1, 5))]
    found = times(texts)
    step = timeline.find_step([found], 'ymd')
    assert step.size == DAY and step.between(found).tolist() == [1] * 9


def test_cycles_are_those_that_the_interval_resolves_and_the_data_covers():
    daily, weekly = (timeline.find_step([times(days(step, 9))], 'ymd') for step in (1, 7))
    assert daily.cycles(6 * DAY) == []
    assert daily.cycles(729 * DAY) == [{'period': 7.0, 'harmonics': 3}]  # A year that is seen once says nothing.
    assert [cycle['period'] for cycle in daily.cycles(731 * DAY)] == [365.2425, 7.0]
    assert [cycle['period'] for cycle in weekly.cycles(731 * DAY)] == [365.2425]
    quarterly = timeline.find_step([times([f'{month}-01' for month in MONTHS[::3]])], 'ymd')
    assert quarterly.cycles(4000 * DAY) == [{'period': 365.2425, 'harmonics': 2}]
    assert timeline.find_step([np.arange(9)], 'integer').cycles(10**15) == []


def test_cells_that_are_no_times_are_told():
    assert timeline.to_times(pa.array(['2024-01', '2024-13', '']), 'ym')[1].tolist() == [True, False, False]
    assert timeline.to_times(pa.array(['3', '3.5', 'x']), 'integer')[1].tolist() == [True, False, False]
    assert timeline.to_times(pa.array(['01/02/2024', '13/13/2024']), 'dmy')[1].tolist() == [True, False]
    assert timeline.find_order('', False, ['2024-01', '2024-1']) is None


def test_days_of_rows_with_the_time_of_the_day_have_it_even_if_others_had_none():
    step = timeline.find_step([times(days(1, 10))], 'ymd')
    midnight = times(['2024-01-08 00:00+02:00'])
    assert step.texts(step.after(int(midnight[0]), 2)) == ['2024-01-08T22:00:00', '2024-01-09T22:00:00']
    assert step.texts(times(['2024-01-08', '2024-01-09'])) == ['2024-01-08', '2024-01-09']
