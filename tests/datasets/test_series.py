"""Series in tables: windows, their split by time, baselines, features; wrong tables; files and rows to forecast from."""

import datetime
import logging
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
import tensorflow.compat.v1 as tf

from benchmarks import store_sales
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.own_data.series import reader
from estimator_trainer.common.records import records
from estimator_trainer.datasets import series
from tests.datasets.own_data import Prepared, prepare_raw

MONDAY = datetime.date(2024, 1, 1)
DATES = [str(MONDAY + datetime.timedelta(i)) for i in range(40)]
VALUES = [float((7 * i) % 11 + i) for i in range(40)]
GIVEN = {'time': 'date', 'target': 'y', 'window': 3, 'horizon': 2}


@pytest.fixture
def prepared(tmp_path):
    """Returns a function from the text of a table, and hyper-parameters, to its dataset."""

    def prepare(text, **hparams):
        (tmp_path / 'a.csv').write_text(text)
        given = {'table_file': tmp_path / 'a.csv', **GIVEN, **hparams}
        return Prepared(series, tmp_path / 'data', *(f'{name}={value}' for name, value in given.items()))

    return prepare


def table(*columns, names=('date', 'y')):
    return '\n'.join(','.join(map(str, row)) for row in (names, *zip(*columns))) + '\n'


def test_windows_are_split_by_time_with_the_baselines_of_six_values(prepared):
    """Of 1, 2, 4, 8, 16, 32, a window of 2 and a horizon of 2; the last 2 times are evaluated, with a season of 3 rows."""
    values = [1, 2, 4, 8, 16, 32]
    found = prepared(table(DATES[:6], values), window=2, season=3, eval_share=0.3)
    _, train = found.read('train')
    assert train['label'].tolist() == [[4, 8]]  # [8, 16] and [16, 32] reach into the last two times.
    features, labels = found.read('eval')
    assert labels['label'].tolist() == [[16, 32]]
    assert labels['baselines'].tolist() == [[[8, 8], [2, 4]]]
    np.testing.assert_allclose(features['past'], [[[-1], [1]]])  # 4 and 8 minus 6, divided by 2.
    assert features['window_scale'].tolist() == [[6, 2]] and [*features] == ['past', 'window_scale']  # No week is known.
    assert found.places('eval') == [{'time': DATES[4:6], 'last_value': [8, 8], 'last_season': [2, 4]}]
    assert found.metadata['season_length'] == 3


def test_no_forecast_of_training_reaches_the_evaluation_in_any_group(prepared):
    groups = {'a': (0, 40), 'b': (10, 36), 'c': (0, 30), 'd': (33, 40), 'e': (2, 6)}
    rows = [(DATES[i], group, VALUES[i] + len(group), i) for group, (begin, end) in groups.items() for i in range(begin, end)]
    np.random.RandomState(0).shuffle(rows)
    found = prepared(table(*zip(*rows), names=('date', 'g', 'y', 'price')), group='g')
    times = {split: found.places(split) for split in ('train', 'eval')}
    cut = DATES[32]  # A fifth of 40 times are evaluated.
    assert max(time for place in times['train'] for time in place['time']) < cut
    assert min(time for place in times['eval'] for time in place['time']) == cut
    counts = {
        split: {group: sum(place['group'] == group for place in found) for group in 'abcde'} for split, found in times.items()
    }
    assert counts['train'] == {'a': 32 - 4, 'b': 22 - 4, 'c': 30 - 4, 'd': 0, 'e': 0}
    assert counts['eval'] == {'a': 8 - 1, 'b': 4 - 1, 'c': 0, 'd': 7 - 4, 'e': 0}
    trained = [row for row in rows if row[0] < cut]
    price = found.metadata['columns'][-1]
    assert price['mean'] == pytest.approx(np.mean([row[3] for row in trained]))
    assert price['std'] == pytest.approx(np.std([row[3] for row in trained]))
    features, labels = found.read('eval')
    for i, place in enumerate(times['eval']):  # Records and places have one order.
        at = DATES.index(place['time'][0])
        assert labels['label'][i].tolist() == [VALUES[at] + 1, VALUES[at + 1] + 1]
        window = np.array(VALUES[at - 3 : at]) + 1
        np.testing.assert_allclose(features['past'][i, :, 0], (window - window.mean()) / window.std(), rtol=1e-4)
        expected = (np.arange(at - 3, at) - price['mean']) / price['std']
        np.testing.assert_allclose(features['past'][i, :, 1], expected, rtol=1e-4, atol=1e-6)
        phases = 2 * np.pi * np.outer([1, 2, 3], ((MONDAY - datetime.date(1970, 1, 1)).days + at - 1) / 7)
        waves = np.stack([np.sin(phases), np.cos(phases)], 1).ravel()
        np.testing.assert_allclose(features['calendar'][i], waves, atol=1e-5)


def test_a_window_without_change_is_divided_by_a_tenth_of_the_usual_deviation(prepared):
    found = prepared(table(DATES, [*VALUES[:30], *[50] * 10]))
    windows = np.lib.stride_tricks.sliding_window_view([*VALUES[:30], 50, 50], 3).std(1)
    assert found.metadata['least_scale'] == pytest.approx(0.1 * np.median(windows[windows > 0]))
    features, _ = found.read('eval')
    np.testing.assert_allclose(features['window_scale'][-1], [50, found.metadata['least_scale']], rtol=1e-6)
    assert features['past'][-1].tolist() == [[0]] * 3


def test_a_constant_that_is_no_binary_fraction_does_not_change(prepared):
    rows = [(date, group, value) for group in 'ab' for date, value in zip(DATES, VALUES if group == 'a' else [0.1] * 40)]
    found = prepared(table(*zip(*rows), names=('date', 'g', 'y')), group='g')  # The deviation of 0.1, 0.1, 0.1 is 1e-17.
    windows = np.lib.stride_tricks.sliding_window_view(VALUES[:32], 3).std(1)
    assert found.metadata['least_scale'] == pytest.approx(0.1 * np.median(windows))


def test_windows_of_one_row_are_divided_by_the_deviation_of_all_rows(prepared):
    found = prepared(table(DATES, VALUES), window=1)
    assert found.metadata['least_scale'] == pytest.approx(np.std(VALUES[:32]))


def test_the_baselines_of_generated_sales_are_those_of_the_formula(tmp_path, prepared):
    store_sales.write(str(tmp_path / 'stores.csv'), num_days=1500)
    given = {'target': 'sales', 'group': 'store', 'window': 14, 'horizon': 7}
    _, labels = prepared((tmp_path / 'stores.csv').read_text(), **given).read('eval')
    errors = labels['baselines'] - labels['label'][:, None]
    found = np.sqrt(np.mean(errors**2, axis=(0, 2)))
    np.testing.assert_allclose(found, [*store_sales.expected().values()], rtol=0.04)


@pytest.mark.parametrize(
    'text, hparams, message',
    [
        (table([*DATES, DATES[5]], [*VALUES, 1]), {}, 'a.csv: lines 7 and 42: two values for 2024-01-06: remove one, or name'),
        (
            table(DATES[:10] + DATES[12:], VALUES[2:]),
            {},
            'a.csv: line 12: 2024-01-13 comes after 2024-01-10: 2 times are missing',
        ),
        (
            table(DATES[:10] + DATES[11:], VALUES[1:]),
            {},
            'a time is missing: add a row for each, as with 0 where nothing was sold',
        ),
        (
            table(DATES * 2, VALUES * 2, ['a'] * 80, names=('date', 'y', 'g')),
            {'group': 'g'},
            'g a: two values for 2024-01-01: remove one, or write into column g all that tells them apart, as a store and',
        ),
        (table([f'2024-01-01 {i}:{i * i % 60:02}' for i in range(20)], VALUES), {}, 'the times have no common interval: only'),
        (
            table([*DATES[:9], 'soon', *DATES[9:]], [*VALUES, 1]),
            {},
            "line 11: column date: 'soon' is no time: write times as 2024",
        ),
        (table([*DATES[:9], '', *DATES[9:]], [*VALUES, 1]), {}, "line 11: column date: '' is no time: correct it, or remove"),
        (table(['x', 'y', 'z'], VALUES), {}, "column date: 'x' is no time: write times as 2024-12-31"),
        (table([i / 2 for i in range(40)], VALUES), {}, "column date: '0.0' is no time"),
        (table([date.replace('-', '') for date in DATES], VALUES), {}, 'column date: 20240101 seems to be a date: write it as'),
        (
            table([201500 + 88 * (i // 12) + i + 1 for i in range(40)], VALUES),
            {},
            'column date: 201501 seems to be a month: write',
        ),
        (table([f'0{i % 9 + 1}/02/20{i + 10}' for i in range(20)], VALUES), {}, 'say which with --hparams=dates=dmy or'),
        (table(DATES, [*VALUES[:9], '', *VALUES[10:]]), {}, "line 11: column y: '' is no number: a target must not be missing"),
        (table(DATES, [*VALUES[:9], 'x', *VALUES[10:]]), {}, "line 11: column y: 'x' is not a number: correct it"),
        (table(DATES, [*'ab'] * 20), {}, "line 2: column y: 'a' is not a number: correct it"),
        (
            table(DATES, VALUES, [*range(9), 'x', *range(30)], names=('date', 'y', 'p')),
            {},
            'as missing with --hparams=missing=[x]',
        ),
        (
            table(DATES, VALUES, ['a', *[''] * 39], names=('date', 'y', 'g')),
            {'group': 'g'},
            "line 3: column g: '' names no group",
        ),
        (
            table(DATES, VALUES, range(40), names=('date', 'y', 'g')),
            {'group': 'g'},
            'no series has two times: is group=g the column',
        ),
        (table(DATES, [10**9 + i % 7 for i in range(40)]), {}, 'column y: numbers up to 1000000006 change by about 0.816 in a'),
        (table(DATES, [1e30, -1e30] * 20), {}, 'column y: 1e+30 is larger than 1e+18: write the numbers in a larger unit'),
        (table(DATES, [5] * 40), {}, 'column y never changes in any series: there is nothing to forecast'),
        (
            table(DATES[:4], VALUES),
            {},
            'no series has 5 rows, as window=3 and horizon=2 require: the longest has 4: lower window',
        ),
        (table(DATES[:1], VALUES), {}, 'no series has two times: add rows'),
        (table(DATES, VALUES), {'window': 30, 'horizon': 9}, 'no series has a window for the split train, whose forecasts end'),
        (table(DATES, VALUES) + '1,2,3\n', {}, 'line 42: 3 cells, but the header has 2: correct it'),
        ('date,y\n', {}, 'a.csv: has no rows'),
        (table(DATES, VALUES), {'target': 'date'}, 'target=date: the column is also the time: name another'),
        (table(DATES, VALUES), {'group': 'y'}, 'group=y: the column is also the target: name another'),
        (table(DATES, VALUES), {'target': 'sales'}, 'target=sales: there is no such column; '),
        (table(DATES, VALUES), {'time': ''}, '--hparams=time=COLUMN is required; '),
        (table(DATES, VALUES), {'window': 0}, 'window=0 must be at least 1'),
        (table(DATES, VALUES), {'horizon': 0}, 'horizon=0 must be at least 1'),
        (table(DATES, VALUES), {'season': -1}, 'season=-1 must be at least 0'),
        (table(DATES, VALUES), {'eval_share': 0.95}, 'eval_share=0.95 must be from 0 to 0.9'),
        (table(DATES, VALUES), {'dates': 'ymd'}, 'dates=ymd must be dmy or mdy'),
        (table(DATES, VALUES), {'folds': 5}, 'folds=5: --dataset=series is split by time, and folds would mix past and future'),
        (table(DATES, VALUES), {'train_split': 'x'}, 'train_split=x: --dataset=series trains on the times before'),
        (table(DATES, VALUES), {'table_file': ''}, '--hparams=table_file=PATH is required'),
        (table(DATES, VALUES), {'table_file': '/'}, 'is a directory: give one table, which is split by time'),
    ],
)
def test_a_wrong_table_or_hyperparameter_is_one_line(prepared, text, hparams, message):
    with pytest.raises((UsageError, RunError)) as error:
        prepared(text, **hparams)
    assert message in str(error.value) and '\n' not in str(error.value)


def test_integers_of_which_not_all_are_counted_are_no_months(prepared, monkeypatch):
    monkeypatch.setattr(reader, '_MAX_DISTINCT', 30)
    assert prepared(table(range(40), VALUES)).metadata['step']


def test_what_is_decided_is_said(prepared, caplog):
    caplog.set_level(logging.WARNING)
    rows = [(DATES[i], 'a', VALUES[i], 'x', '' if i % 5 else i) for i in range(40)]
    rows += [(DATES[i], 'new', VALUES[i], 'x', i) for i in range(33, 40)]
    rows += [(DATES[i], 'flat', 3, 'x', i) for i in range(30)] + [(DATES[0], 'short', 3, 'x', 1)]
    rows = [(*row, i if i % 9 else -999) for i, row in enumerate(rows)]
    found = prepared(table(*zip(*rows), names=('date', 'g', 'y', 'note', 'p', 'q')), group='g')
    for text in (
        'column q: -999 is far from all others, and occurs repeatedly: --hparams=missing=[-999] if it is missing',
        'the columns note are ignored: they are no numbers',
        '1 of 4 series have fewer than window + horizon = 5 rows and are skipped: short',
        'column y never changes in 1 of 3 series: the last value forecasts these: flat',
        'some series are in the split eval only: new. The model knows no groups',
        '3 of 10 windows have less than a season of 7 rows before them',
    ):
        assert any(text in record.getMessage() for record in caplog.records), text
    summary = series.summary(found.source.data_dir, found.params)
    assert 'eval      10 windows, whose forecasts begin at 2024-02-02 or later' in summary
    assert 'season    7 rows, the usual ones of this interval' in summary and 'interval  a day' in summary
    features, _ = found.read('train')
    assert (features['past'][0, 1:, 1] == 0).all() and np.isfinite(features['past']).all()  # Missing inputs.
    _, labels = prepared(table(DATES, VALUES), season=365).read('eval')  # Longer than the table.
    assert labels['baselines'][0].tolist() == [[VALUES[31]] * 2] * 2


def test_raw_inputs_have_the_features_of_files(prepared):
    prices = [*range(30), -999, *range(31, 40)]
    found = prepared(table(DATES, VALUES, prices, names=('date', 'y', 'p')), missing='[-999]')
    features, _ = found.read('eval')
    raw = {'date': [DATES[31].encode()], 'y': [VALUES[29:32]], 'p': [prices[29:32]]}
    made = prepare_raw(series, found.params, raw)
    assert made.keys() == features.keys()
    for name, value in made.items():
        np.testing.assert_allclose(value[0], features[name][0], rtol=1e-5, atol=1e-6)
    for wrong in (np.nan, -999):
        with pytest.raises(tf.errors.InvalidArgumentError, match='the input y has a missing number'):
            prepare_raw(series, found.params, {**raw, 'y': [[1, wrong, 2]]})
    with pytest.raises(tf.errors.InvalidArgumentError, match='the input p has an infinite number'):
        prepare_raw(series, found.params, {**raw, 'p': [[1.0, np.inf, 2.0]]})
    parts = series.input_parts(found.params)
    sizes = {name: value.shape[-1] for name, value in features.items()}
    assert {name: len(found) for name, found in parts.items()} == sizes


def test_the_next_times_of_each_group_are_forecast_from_files_and_rows(prepared, tmp_path):
    rows = [(DATES[i], group, VALUES[i]) for group in 'ba' for i in range(40)]
    found = prepared(table(*zip(*rows), names=('date', 'g', 'y')), group='g')
    newest = tmp_path / 'newest.csv'
    newest.write_text(table(*zip(*rows[37:40], *rows[75:80], (DATES[0], 'c', 1)), names=('date', 'g', 'y')))
    entries = list(series.read_input(str(newest), found.params))
    following = ['2024-02-10', '2024-02-11']
    assert [fields for fields, _ in entries] == [
        {'group': 'b', 'time': following},
        {'group': 'a', 'time': following},
        {'group': 'c'},
    ]
    assert str(entries[2][1]).endswith('newest.csv: g c: 1 rows, but window=3 requires as many: give more of its past')
    features = found.predict(newest)[0]
    frame = pa.table(dict(zip(('date', 'g', 'y'), map(list, zip(*rows)))))
    dated = frame.set_column(0, 'date', frame['date'].cast(pa.timestamp('ns')))
    for given in (frame, dated, frame.to_pylist(), frame.to_pydict()):
        arrays, fields = series.take_rows(found.params, given)
        assert fields['group'].tolist() == ['b', 'a'] and fields['time'].tolist() == [following] * 2
        made = prepare_raw(series, found.params, {name: arrays[name] for name in ('date', 'y')})
        for name, value in made.items():
            np.testing.assert_allclose(value, features[name][:2], rtol=1e-6)
    late = [(f'{date} 18:00', *others) for date, *others in rows]
    newest.write_text(table(*zip(*late), names=('date', 'g', 'y')))
    arrays, _ = series.take_rows(found.params, dict(zip(('date', 'g', 'y'), map(list, zip(*late)))))
    calendar = prepare_raw(series, found.params, {name: arrays[name] for name in ('date', 'y')})['calendar']
    np.testing.assert_allclose(calendar, found.predict(newest)[0]['calendar'], rtol=1e-6)
    assert series.take_rows(found.params, {'date': '2024-01-01', 'y': [1, 2, 3]}) is None
    assert series.take_rows(found.params, {'date': ['2024-01-01'], 'y': [[1, 2, 3]]}) is None
    assert series.take_rows(found.params, [{'date': '2024-01-01', 'y': [1, 2, 3]}]) is None
    for given, message in (
        (frame[:2], 'the rows: g b: 2 rows, but window=3 requires as many: give more of its past'),
        (frame[30:42], 'the rows: g a: 2 rows, but window=3 requires as many: give more of its past, or leave out a'),
    ):
        with pytest.raises(RunError, match=f'^{message}$'):
            series.take_rows(found.params, given)
    with pytest.raises(UsageError, match='the rows: has no column y, which a forecast requires; it has: date, g'):
        series.take_rows(found.params, frame.select(['date', 'g']))


def test_a_target_with_accents_apart_is_found_in_files_to_forecast_from(prepared, tmp_path):
    found = prepared(table(DATES, VALUES, names=('date', unicodedata.normalize('NFD', 'Verkäufe'))), target='Verkäufe')
    assert len(found.places('eval')) == len(found.read('eval')[1]['label'])
    assert found.predict(tmp_path / 'a.csv')[0]['past'].shape == (1, 3, 1)
    assert found.read_labeled(tmp_path / 'a.csv')[0]


def test_accents_apart_in_names_and_groups_of_rows_are_the_same(prepared, tmp_path):
    rows = [(DATES[i], group, VALUES[i]) for group in ('Süd', 'Nord') for i in range(40)]
    found = prepared(
        table(*zip(*rows), names=('Tag für Tag', 'g', 'Verkäufe')), time='Tag für Tag', target='Verkäufe', group='g'
    )
    apart = [unicodedata.normalize('NFD', name) for name in ('Tag für Tag', 'g', 'Verkäufe')]
    given = [(date, unicodedata.normalize('NFD', group) if i % 2 else group, y) for i, (date, group, y) in enumerate(rows)]
    frame = pa.table(dict(zip(apart, map(list, zip(*given)))))
    expected, _ = series.take_rows(found.params, [dict(zip(('Tag für Tag', 'g', 'Verkäufe'), row)) for row in rows])
    for form in (frame, frame.to_pydict(), frame.to_pylist()):
        arrays, fields = series.take_rows(found.params, form)
        assert fields['group'].tolist() == ['Süd', 'Nord']
        assert {name: array.tolist() for name, array in arrays.items()} == {
            name: array.tolist() for name, array in expected.items()
        }
    (tmp_path / 'new.csv').write_text(table(*zip(*given), names=apart))
    assert [fields['group'] for fields, _ in series.read_input(str(tmp_path / 'new.csv'), found.params)] == ['Süd', 'Nord']


def test_a_window_that_float32_cannot_hold_is_refused(prepared, tmp_path):
    found = prepared(table(DATES, VALUES))
    new = tmp_path / 'new.csv'
    for values, message in (
        ([1e19, 2e19, 3e19], '3e\\+19 is larger than 1e\\+18: write the numbers in a larger unit'),
        ([2e9, 2e9 + 9, 2e9 + 1], r'numbers up to 2000000009 change by about 4.03 in a window, which is lost in float32: sub'),
    ):
        new.write_text(table(DATES[:3], values))
        [(_, error)] = series.read_input(str(new), found.params)
        with pytest.raises(RunError, match=f'new.csv: {message}'):
            raise error
        new.write_text(table(DATES[:6], values * 2))
        assert any(isinstance(error, RunError) for _, error in series.read_labeled(str(new), found.params))
        with pytest.raises(RunError, match=f'the rows: {message}'):
            series.take_rows(found.params, {'date': DATES[:3], 'y': values})
    for values in ([2e9] * 3, [5e5, 5e5 + 1e-7, 5e5], [2e9, 2e9 + 1000, 2e9]):  # A constant, but for rounding, can be forecast.
        assert series.take_rows(found.params, {'date': DATES[:3], 'y': values})[0]['y'].shape == (1, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match='the input y has a number larger than 1e\\+18'):
        prepare_raw(series, found.params, {'date': [DATES[2]], 'y': [[1e19, 2e19, 3e19]]})


def test_rows_that_cannot_be_read_are_one_line(prepared):
    found = prepared(table(DATES, VALUES))
    for rows, message in (
        (pa.table([DATES, VALUES, VALUES], names=['date', 'y', 'y']), 'the rows: the table names two columns y: rename one'),
        ({'date': [b'\xff'], 'y': [1]}, 'the rows: the column date has bytes that are no text: leave it out'),
        ({'date': DATES[:1], 'y': [2**70]}, 'the rows cannot be read: column y: '),
        ([{'date': DATES[0], 'y': 1.5}, {'date': DATES[1], 'y': 'x'}], 'the rows cannot be read: column y: '),
        ({'date': DATES[:2], 'y': [1.5, '']}, "the rows: row 2: column y: '' is no number: a target must not be missing"),
    ):
        with pytest.raises(RunError, match=f'^{message}'):
            series.take_rows(found.params, rows)


def test_an_empty_text_beside_the_numbers_of_a_program_is_missing(prepared):
    found = prepared(table(DATES, VALUES, VALUES, names=('date', 'y', 'p')))
    rows = [{'date': date, 'y': y, 'p': p} for date, y, p in zip(DATES, [1, 2, 3], [1.5, ' ', 2.5])]
    for form in (rows, {name: [row[name] for row in rows] for name in rows[0]}):
        np.testing.assert_array_equal(series.take_rows(found.params, form)[0]['p'], np.float32([[1.5, np.nan, 2.5]]))


def test_numbers_of_programs_are_read_as_such_whatever_the_file_for_training_has(prepared, tmp_path):
    found = prepared(table(DATES, [f'"1.{i:03},{i % 7}"' for i in range(40)]))
    assert found.metadata['columns'][1]['style']['decimal'] == 'comma'
    assert found.read('eval')[1]['label'][0].tolist() == pytest.approx([1032.4, 1033.5])
    rows = {'date': [datetime.date.fromisoformat(date) for date in DATES[:3]], 'y': [1.234, 2.5, 3.0]}
    assert series.take_rows(found.params, rows)[0]['y'].tolist() == [pytest.approx([1.234, 2.5, 3.0])]
    lines = [f'{{"date": "{date}", "y": {value}}}' for date, value in zip(DATES, rows['y'])]
    (tmp_path / 'new.jsonl').write_text('\n'.join(lines))
    [(_, record)] = series.read_input(str(tmp_path / 'new.jsonl'), found.params)
    assert records.decode(record)['past'][1] == pytest.approx([1.234, 2.5, 3.0])
    texts = rows | {'y': ['1.234', '2,5', '3']}
    assert series.take_rows(found.params, texts)[0]['y'].tolist() == [[1234, 2.5, 3]]


def test_all_windows_of_a_file_with_labels_are_evaluated(prepared, tmp_path, caplog):
    found = prepared(table(DATES, VALUES))
    (tmp_path / 'new.csv').write_text(table(DATES[:9], VALUES))
    (features, labels), errors = found.read_labeled(tmp_path / 'new.csv')
    assert not errors and labels['label'].tolist() == [VALUES[i : i + 2] for i in range(3, 8)]
    assert 'new.csv: 4 of 5 windows have less than a season of 7 rows before them' in caplog.text
    (tmp_path / 'new.csv').write_text(table(DATES[:4], VALUES))
    with pytest.raises(RunError, match='no series has 5 rows'):
        found.read_labeled(tmp_path / 'new.csv')
