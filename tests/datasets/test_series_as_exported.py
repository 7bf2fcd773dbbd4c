"""Tables of series as other programs write them: offsets, clocks that change, dates in integers, inputs that never change."""

import datetime
import types
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.own_data.series import windowing
from estimator_trainer.common.own_data.series.reader import Series
from estimator_trainer.common.own_data.series.timeline import DAY, TIME, WORKDAY, Step
from estimator_trainer.datasets import series
from tests.datasets.own_data import Prepared, prepare_raw

BERLIN = zoneinfo.ZoneInfo('Europe/Berlin')
MONDAY = datetime.date(2024, 1, 1)
DAYS = [MONDAY + datetime.timedelta(i) for i in range(40)]
LOCAL = '%Y-%m-%d %H:%M'


@pytest.fixture
def prepared(tmp_path):
    """Returns a function from times, and columns of inputs, to the dataset of a target that grows."""

    def prepare(times, **inputs):
        (tmp_path / 'a.csv').write_text(table(times, **inputs))
        given = {'table_file': tmp_path / 'a.csv', 'time': 't', 'target': 'y', 'window': 3, 'horizon': 2}
        return Prepared(series, tmp_path / 'data', *(f'{name}={value}' for name, value in given.items()))

    return prepare


def table(times, **inputs):
    columns = {'t': times, 'y': [i * i % 17 for i in range(len(times))], **inputs}
    return '\n'.join(','.join(map(str, row)) for row in ([*columns], *zip(*columns.values()))) + '\n'


def hours(begin, count, minutes=60):
    """Returns local times of Berlin; the first is in UTC, an ISO text."""
    first = datetime.datetime.fromisoformat(f'{begin}+00:00')
    return [(first + datetime.timedelta(minutes=minutes * i)).astimezone(BERLIN) for i in range(count)]


def test_forecasts_of_times_with_offsets_are_marked_as_utc(prepared, tmp_path):
    times = hours('2024-03-29T23:00', 60)  # In Berlin, 2 a.m. of March 31 is left out.
    found = prepared([time.isoformat() for time in times])
    following = ['2024-04-01T11:00:00Z', '2024-04-01T12:00:00Z']  # 60 hours later.
    assert [fields for fields, _ in series.read_input(str(tmp_path / 'a.csv'), found.params)] == [{'time': following}]
    assert found.places('eval')[-1]['time'] == ['2024-04-01T09:00:00Z', '2024-04-01T10:00:00Z']
    summary = series.summary(found.source.data_dir, found.params)
    assert 'from 2024-03-29T23:00:00Z to 2024-04-01T10:00:00Z' in summary
    features = found.predict(tmp_path / 'a.csv')[0]
    rows = [{'t': time, 'y': i * i % 17} for i, time in enumerate(times)]
    for given in (rows, pa.table({'t': pa.array(times, pa.timestamp('us', 'Europe/Berlin')), 'y': [row['y'] for row in rows]})):
        arrays, fields = series.take_rows(found.params, given)
        assert fields['time'].tolist() == [following]
        for name, value in prepare_raw(series, found.params, {name: arrays[name] for name in ('t', 'y')}).items():
            np.testing.assert_allclose(value, features[name], rtol=1e-6)
    assert prepared([time.isoformat()[:-3] for time in times]).metadata['step'] == found.metadata['step']  # +01, +02.
    dates = prepared([f'{day}T00:00:00Z' for day in DAYS])
    assert series.take_rows(dates.params, [{'t': f'{day}', 'y': 1} for day in DAYS[:3]])[1]['time'][0][0] == '2024-01-04'


def test_times_of_another_kind_than_the_training_data_has_are_told(prepared, tmp_path, caplog):
    with_offset = [time.isoformat() for time in hours('2024-02-01T00:00', 40)]
    without = [time.strftime(LOCAL) for time in hours('2024-02-01T00:00', 40)]
    mixed = [*with_offset[:20], *(time[:19] for time in with_offset[20:])]  # Which are of Berlin, an hour ahead.
    local, utc = 'have an offset, unlike those of the training data, and become UTC: write none, as there', 'have no offset'
    for trained, given, message in (
        (with_offset, without, f'the times {utc}, unlike those of the training data, and are read as UTC: write it'),
        (without, with_offset, f'the times {local}'),
        (with_offset, with_offset, ''),
        (without, without, ''),
        (with_offset, mixed, 'times have an offset, but that in line 22 has none: times without one are read as UTC'),
    ):
        found = prepared(trained)
        (tmp_path / 'new.csv').write_text(table(given))
        caplog.clear()
        if given is mixed:
            with pytest.raises(
                RunError, match='new.csv: line 22: 2024-02-01T21:00:00Z comes after 2024-02-01T19:00:00Z: a time'
            ):
                [*series.read_input(str(tmp_path / 'new.csv'), found.params)]
        else:
            [*series.read_input(str(tmp_path / 'new.csv'), found.params)]
        assert [each.getMessage().split('column t: ')[1] for each in caplog.records] == ([f'{message}.'] if message else [])


@pytest.mark.parametrize('minutes', [15, 60])
def test_an_hour_that_clocks_repeat_or_leave_out_is_explained(prepared, minutes):
    count, cure = 1440 // minutes, 'if clocks changed then, write times with their offset, as 2024-10-27 02:00+01:00'
    for begin, message in (
        ('2024-10-26T12:00', 'two values for 2024-10-27T02:00:00'),
        ('2024-03-30T12:00', '03-31T03:00:00 comes'),
    ):
        local = [time.strftime(LOCAL) for time in hours(begin, count, minutes)]
        with pytest.raises(RunError, match=f'{message}.*{cure}'.replace('+', r'\+')):
            prepared(local)
    gap = [time.strftime(LOCAL) for time in hours('2024-11-01T12:00', count, minutes)]
    del gap[4:6]  # On a Friday.
    for times in (gap, [*map(str, DAYS), DAYS[6]]):  # January 7 is a Sunday.
        with pytest.raises(RunError) as error:
            prepared(times)
        assert 'if clocks' not in str(error.value)


def test_days_and_months_with_offsets_that_change_are_to_be_written_as_dates(prepared):
    months = [datetime.datetime(2020 + i // 12, i % 12 + 1, 1, tzinfo=BERLIN) for i in range(40)]
    days = [datetime.datetime(day.year, day.month, day.day, tzinfo=BERLIN) for day in DAYS if day.weekday() < 5]
    for times in (months, days):
        with pytest.raises(RunError, match='if these are local dates, write them without offsets, as 2024-12-31'):
            prepared([time.isoformat() for time in times])
        assert prepared([time.date() for time in times]).metadata['step']['unit'] in ('month', 'workday')


@pytest.mark.parametrize(
    'times, message',
    [
        (
            [202401 + i for i in range(52)],
            '202401 seems to be a week: .* 2024-12-30 for 202501; if these are numbers of steps, subtract a constant',
        ),
        (
            [20241 + i % 4 + 10 * (i // 4) for i in range(40)],
            '20241 seems to be a quarter: write it as its first day, 2024-10-01 for 20244',
        ),
        ([2024001 + i for i in range(366)], '2024001 seems to be a day of a year: write it as 2024-12-31'),
        ([f'{day:%Y%m%d}{hour:02}' for day in DAYS[:2] for hour in range(24)], '2024010100 seems to be a time: write it as'),
        ([f'{DAYS[0]:%Y%m%d}{i // 60:02}{i % 60:02}' for i in range(90)], '202401010000 seems to be a time: write it as'),
        (
            [f'2024-W{i:02}' for i in range(1, 40)],
            "'2024-W01' is no time: write times as .*; a week or a quarter as its first day",
        ),
        ([1704067200 * 10**9 + i for i in range(9)], 'seems to be nanoseconds since 1970: write it as 2024-01-01 00:00:00'),
        ([10**17 + i for i in range(9)], "'100000000000000000' is no time: .* times are integers, below"),
    ],
)
def test_quarters_weeks_days_and_times_without_hyphens_are_refused(prepared, times, message):
    with pytest.raises(RunError, match=message):
        prepared(times)


@pytest.mark.parametrize(
    'times, message',
    [
        ([1704067200 + 3600 * i for i in range(40)], 'seconds since 1970, write 1704067200 as 2024-01-01 00:00:00'),
        ([1704067200000 + 60000 * i for i in range(40)], 'milliseconds since 1970, write 1704067200000 as 2024-01-01 00:00:00'),
        ([45292 + i for i in range(40)], 'days of a spreadsheet, write 45292 as 2024-01-01 00:00:00'),
        (range(1980, 2020), ''),
        (range(60000, 0, -1500), ''),
        (range(20), ''),
    ],
)
def test_integers_that_may_count_from_a_date_on_have_no_calendar_and_that_is_said(prepared, caplog, times, message):
    assert prepared(times).metadata['cycles'] == []
    found = [record.getMessage() for record in caplog.records if 'numbers of steps, without a calendar' in record.getMessage()]
    assert [text.split('if they are ')[1] for text in found] == ([f'{message}.'] if message else [])


def test_years_of_two_digits_are_told(prepared, caplog):
    prepared([f'{day:%d.%m.%y}' for day in DAYS])
    text = "years of two digits are read as 1969 to 2068, such as '01.01.24' in line 2 as 2024-01-01"
    assert any(text in record.getMessage() for record in caplog.records)


def test_a_wrong_time_of_a_file_to_forecast_from_is_shown_beside_the_right_form(prepared, tmp_path):
    found = prepared(DAYS)
    (tmp_path / 'new.csv').write_text(table([f'{day:%m/%d/%Y}' for day in DAYS]))
    with pytest.raises(RunError, match="line 2: column t: '01/01/2024' is no time: .* times are as 2024-12-31 .40 rows"):
        [*series.read_input(str(tmp_path / 'new.csv'), found.params)]


def test_a_target_that_is_too_large_for_float32_is_not_called_missing(prepared, tmp_path):
    found = prepared(DAYS)
    for cell, message in (('1e40', 'correct it, or remove the row'), ('', 'a target must not be missing: write it')):
        (tmp_path / 'new.csv').write_text(table(DAYS) + f'2024-02-10,{cell}\n')
        with pytest.raises(RunError, match=f"line 42: column y: '{cell}' is no number: {message}"):
            [*series.read_input(str(tmp_path / 'new.csv'), found.params)]


def test_inputs_that_never_change_before_the_evaluation_are_named(prepared, caplog):
    """The last 8 of 40 days are evaluated."""
    late, switched, halved = [''] * 32 + [20 + i for i in range(8)], [0] * 32 + [500] * 8, [1] * 31 + [2] * 9
    found = prepared(DAYS, late=late, price=range(40), switched=switched, halved=halved)
    assert [column['name'] for column in found.metadata['columns']] == ['t', 'y', 'late', 'price', 'switched', 'halved']
    text = 'the columns late, switched never change before the evaluation, so nothing is learned from them: remove them.'
    assert any(text in record.getMessage() for record in caplog.records)


def test_a_model_whose_metadata_tells_no_offsets_gets_its_data_as_it_was(prepared, tmp_path):
    found = prepared([f'{day}T12:00:00Z' for day in DAYS])
    old = {**found.source.metadata()}
    assert old['columns'][0].pop('has_zone') and old['step'].pop('has_zone')
    again = found.prepared_with(old)
    assert again.source.metadata() == old
    assert 'has_zone' in found.source.metadata()['step']
    (tmp_path / 'new.csv').write_text(table([f'{day}T12:00:00Z' for day in DAYS]) + '2024-02-10T12:00:00Z,1\n')
    assert [fields for fields, _ in series.read_input(str(tmp_path / 'new.csv'), again.params)] == [
        {'time': ['2024-02-11T12:00:00', '2024-02-12T12:00:00']}
    ]


def test_days_with_other_clocks_in_each_series_count_once_for_the_evaluation():
    groups = {
        name: Series(np.arange(30) * DAY + hour * DAY // 24, np.zeros([30, 1]), np.arange(30))
        for name, hour in (('a', 16), ('b', 17))
    }
    params = types.SimpleNamespace(eval_share=0.1, horizon=7)
    assert windowing.find_cut(groups, params, Step(WORKDAY, 1)) == 23 * DAY + 16 * DAY // 24  # The last 7 of 30 days.
    assert windowing.find_cut(groups, params, Step(TIME, DAY // 24)) == 26 * DAY + 17 * DAY // 24  # The last 7 of 60 times.
