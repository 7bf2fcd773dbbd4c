"""Users' own tables as they come from elsewhere: spreadsheets, other programs, and people."""

import copy
import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.inference.rows import make_batch
from estimator_trainer.common.own_data.extremes import Numbers
from estimator_trainer.common.own_data.tables import date_ops, raw_columns
from estimator_trainer.common.own_data.tables.cells import facts, missing_numbers, missing_values, to_days
from estimator_trainer.common.own_data.tables.columns import ColumnProfile, Settings, kind_of
from estimator_trainer.common.own_data.tables.files import open_rows, open_table
from estimator_trainer.common.own_data.tables.numbers import Style
from estimator_trainer.datasets import table as dataset
from estimator_trainer.hparams import build
from tests.datasets.own_data import Prepared, make_schema, prepare_raw
from tests.shared import failed, refused

R = range(40)


@pytest.fixture
def prepare(tmp_path, caplog):
    """Returns a function from a table and hyper-parameters to the Prepared dataset, with y as the target, and the log."""
    caplog.set_level('INFO', 'tensorflow')
    number = iter(range(99))

    def call(content, *hparams):
        caplog.clear()
        path = tmp_path / f'{next(number)}.csv'
        path.write_text(content)
        found = Prepared(dataset, tmp_path / 'data', f'table_file={path}', 'target=y', *hparams)
        return found, caplog.text

    return call


def column(function):
    """Returns a CSV file with a column x of cells, a number z, and the classes y."""
    return 'x,z,y\n' + ''.join(f'{function(i)},{i},{i % 2}\n' for i in R)


def kinds(prepared):
    return {found['name']: found['kind'] for found in prepared.metadata['columns']}


def cells(path):
    """Returns the cells of each row of a table, or the message of its fault."""
    blocks = list(open_table(str(path)).blocks())
    return [
        str(block.faults[i]) if i in block.faults else [cells[i].as_py() for cells in block.columns]
        for block in blocks
        for i in range(len(block))
    ]


def test_what_spreadsheets_add_is_no_data(tmp_path, prepare):
    (tmp_path / 'b.csv').write_text('x,z,y\n1,2,3,\n4,5,6,,\n,,\n')
    assert cells(tmp_path / 'b.csv') == [['1', '2', '3'], ['4', '5', '6'], ['', '', '']]
    plain, _ = prepare(column(lambda i: i))
    padded, _ = prepare(column(lambda i: i) + ',,\n' * 5)
    assert plain.metadata == padded.metadata and not plain.metadata['columns'][0]['indicator']
    for split in ('train', 'eval'):
        (one, labels), (other, others) = plain.read(split), padded.read(split)
        np.testing.assert_equal(one['numeric'], other['numeric'])
        np.testing.assert_equal(labels['label'], others['label'])
    (tmp_path / 'new.csv').write_text('x,z,y\n1,2,1\n,,\n')
    assert len(padded.predict(tmp_path / 'new.csv')[0]['numeric']) == 2
    found, errors = padded.read_labeled(tmp_path / 'new.csv')
    assert len(found[1]['label']) == 1 and not errors


def test_a_header_that_is_repeated_is_no_row(tmp_path):
    for rest in ('', '"7","a\nb"\n'):
        (tmp_path / 'b.csv').write_text(f'x,y\n1,a\n x ,y\ny,x\n{rest}')
        one, repeated, other, *_ = cells(tmp_path / 'b.csv')
        assert one == ['1', 'a'] and repeated.endswith('b.csv: line 3: repeats the names of the columns: remove it')
        assert other == ['y', 'x']


def test_files_that_were_joined_have_a_byte_order_mark_before_each(tmp_path):
    for quoted in ('a', '"a"'):
        (tmp_path / 'b.csv').write_text(f'\ufeff"x",y\n1,{quoted}\n\ufeff"x",y\n2,b\n\ufeff3,c\n')
        one, repeated, two, three = cells(tmp_path / 'b.csv')
        assert [one, two, three] == [['1', 'a'], ['2', 'b'], ['3', 'c']]
        assert repeated.endswith('b.csv: line 3: repeats the names of the columns: remove it')


@pytest.mark.parametrize(
    'content, names',
    [
        ('net (EUR, in k, 2024);sold;y\n1,5;2;3,25\n2,5;3;4\n', ['net (EUR, in k, 2024)', 'sold', 'y']),
        ('net (EUR, k);y\n1,5;2\n2,5;3\n', ['net (EUR, k)', 'y']),
        ('a, x;b;y;\n1,5;2;3;\n2,5;2;3;\n', ['a, x', 'b', 'y', '']),  # As often, and more of them.
        ('a;b,y\n1,2\n3,4\n', ['a;b', 'y']),
        ('a;b;x,y\n', ['a', 'b', 'x,y']),  # No rows tell.
        ('"net\r\n(EUR; in k)"\tsold\ty\r\n1\t2\t3\r\n', ['net (EUR; in k)', 'sold', 'y']),
        ('"net\n(EUR)";"sold, 2024"\n1;2\n', ['net (EUR)', 'sold, 2024']),
    ],
)
def test_rows_tell_which_delimiter_a_header_has(tmp_path, content, names):
    (tmp_path / 'b.csv').write_bytes(content.encode())
    table = open_table(str(tmp_path / 'b.csv'))
    assert table.header == names
    assert all(len(block.columns) == len(names) and not block.faults for block in table.blocks())


@pytest.mark.parametrize(
    'content, message',
    [
        ('# made by x\nx,y\n1,2\n', "but contains '# made by x': remove lines above the names"),
        ('Report 2024,,\nx,y,z\n', "but contains 'Report 2024,,': remove lines above the names"),
        ('x y z\n1 2 3\n', 'line 1 must name the columns, between commas, semicolons, tabs or bars'),
        ('[{"x": 1},\n{"x": 2}]\n', 'is one JSON array: write an object per line, as with: jq -c .[] FILE'),
        ('[\n{"x": 1}\n]\n', 'is one JSON array'),
        ('<!DOCTYPE html>\n<table>', 'is a page of HTML or XML: save the table in it as CSV'),
        ('{\n "x": 1\n}\n', 'line 1: is not JSON in one line, as jq -c . FILE writes it: '),
        ('{"x": "\\ud83d", "y": 1}\n', 'line 1: has half of a character'),
    ],
)
def test_files_without_rows_below_names_are_refused(tmp_path, content, message):
    (tmp_path / 'b.csv').write_text(content)
    assert message in failed(open_table, str(tmp_path / 'b.csv'))


def test_a_column_of_one_name_that_the_user_gives_is_a_table(tmp_path):
    (tmp_path / 'b.csv').write_text('x\n1\n')
    assert open_table(str(tmp_path / 'b.csv'), ['x']).header == ['x']


def test_columns_of_json_that_are_nested_or_rare_are_ignored(tmp_path, caplog):
    lines = [json.dumps({'x': i, 'tags': [1], 'z': {} if i == 1 else i}) for i in range(1000)]
    (tmp_path / 'b.jsonl').write_text('\n'.join([*lines, '{"x": 1, "late": 2}', '{"x": 2, "late": 2}']))
    rows = cells(tmp_path / 'b.jsonl')
    assert rows[0] == ['0', '0'] and 'line 2: z is no single value' in rows[1] and rows[-1] == ['2', '']
    assert 'b.jsonl: the columns tags are ignored: they are nested' in caplog.text
    assert caplog.text.count('line 1001: the key late is ignored: the first 1000 lines lack it') == 1


def test_a_key_that_a_line_of_json_has_twice_is_refused(tmp_path):
    (tmp_path / 'b.jsonl').write_text('{"x": 1, "y": 2}\n{"x": 1, "y": 2, "x": 3}\n')
    assert cells(tmp_path / 'b.jsonl') == [['1', '2'], f"{tmp_path}/b.jsonl: line 2: 'x' is given twice"]


def test_arrow_streams_are_read_and_columns_of_one_name_or_of_bytes_are_refused(tmp_path):
    path = str(tmp_path / 'a.arrow')
    found = pa.table({'x': [1, None], 'y': ['a', 'b']})
    with pa.ipc.new_stream(path, found.schema) as writer:
        writer.write_table(found)
        writer.write_table(found)
    assert cells(path) == [['1', 'a'], ['', 'b']] * 2
    pyarrow.parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ['x', 'x']), path)
    assert 'a.arrow: the file names two columns x: rename one' in failed(open_table, path)
    pyarrow.parquet.write_table(pa.table({'x': [1], 'photo': [b'\xff\xd8']}), path)
    assert 'a.arrow: the column photo has bytes that are no text: leave it out' in failed(cells, path)


def test_durations_are_ignored_whose_unit_differs_between_files(tmp_path, caplog):
    second = datetime.timedelta(seconds=1)
    found = pa.table({'x': [1], 'took': [second], 'parts': [[1]]})
    path = str(tmp_path / 'a.parquet')
    pyarrow.parquet.write_table(found, path)
    assert cells(path) == [['1']] and open_rows(found).header == ['x', 'took']
    assert open_table(path, ['took']).header == ['x', 'took']  # Of a model that has learned it.
    assert 'a.parquet: the columns took are ignored: they are durations: write how many seconds they are.' in caplog.text
    assert 'a.parquet: the columns parts are ignored: they are nested.' in caplog.text


def test_a_column_of_a_type_without_texts_is_ignored(tmp_path, caplog):
    lasting = pa.array([(1, 2, 3)], pa.month_day_nano_interval())  # Months, days and nanoseconds.
    pairs = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int8(), [2]), pa.array([[1, 2]], pa.list_(pa.int8(), 2)))
    found = pa.table({'x': [1], 'key': pa.array([bytes(range(240, 256))], pa.uuid()), 'lasting': lasting, 'pairs': pairs})
    with pa.ipc.new_file(path := str(tmp_path / 'a.arrow'), found.schema) as writer:
        writer.write_table(found)
    assert cells(path) == [['1']] and open_rows(found).header == ['x']
    assert 'a.arrow: the columns key, lasting, pairs are ignored: they are of a type that has no texts' in caplog.text


def test_rows_of_a_program_have_the_columns_of_all_of_them():
    (block,) = open_rows([{'x': 1}, {'y': 'b', 'x': None}]).blocks()
    assert [column.to_pylist() for column in block.columns] == [['1', ''], ['', 'b']]
    for rows in ({1: [1], '1': [2]}, [{1: 1}, {'1': 2}]):
        assert failed(open_rows, rows) == 'the rows: the table names two columns 1: rename one'


def test_row_numbers_that_pandas_writes_to_parquet_are_ignored(prepare):
    found, log = prepare(column(lambda i: i).replace('x', '__index_level_0__'))
    assert kinds(found) == {'z': 'numeric', 'y': 'target'} and 'the column __index_level_0__ is ignored: pandas' in log


@pytest.mark.parametrize(
    'function, warning',
    [
        (
            lambda i: -999 if i % 5 == 0 else i,
            '-999 is far from all others, and occurs repeatedly: --hparams=missing=[-999] if',
        ),
        (lambda i: -999 if i == 7 else i, ''),
        (
            lambda i: 1e38 if i == 7 else i,
            'column x: 1e+38 is far from all others, and next to it, a model can hardly tell them apart: --hparams=mis',
        ),
        (lambda i: 2147483647 if i % 2 else 1, ''),
        (lambda i: 2147483647 if i % 9 == 4 else i % 3, '2147483647 is far from all others, and next to it,'),
        (lambda i: {5: -1e30, 3: 1e30}.get(i, i), '-1e+30 is far from all others, and next to it,'),
        (lambda i: 10.0 ** (i - 20), ''),
        (lambda i: i * 99 - 999 * (i % 2), ''),
        (
            lambda i: f'0{i:04}',
            "column x: '00001' has leading zeros, but is read as a number; to change that, give its kind in",
        ),
        (lambda i: f'0.{i + 1}', ''),
        (lambda i: '9999-12-31' if i % 4 == 0 else f'2024-03-{i % 28 + 1:02}', '9999-12-31 is far from all others, and occurs'),
        (lambda i: '31/12/9999' if i % 4 == 0 else f'{i % 28 + 1}/03/2024', '--hparams=missing=[31/12/9999] if it is missing'),
        (lambda i: '0000-00-00' if i % 4 == 0 else f'2024-03-{i % 28 + 1:02}', "% of the cells are dates, but '0000-00-00' in"),
        (
            lambda i: f'{i % 12 + 1}/{i % 28 + 1}/24',
            "years of two digits are read as 1969 to 2068, such as '2/2/24' in line 3 as",
        ),
        (lambda i: f'{i % 28 + 1}.{i % 12 + 1:02}.{2020 + i % 3}', ''),
        (
            lambda i: f'2024-03-{i % 28 + 1:02}T10:00' + ('' if i == 5 else '+02:00'),
            "column x: '2024-03-02T10:00+02:00' in line 3 has an offset, but '2024-03-06T10:00' in line 7 has none",
        ),
        (lambda i: f'2024-03-{i % 28 + 1:02}' + (' 10:00 PM Z' if i % 2 else ''), ''),  # A day needs no offset.
        (lambda i: f'{i % 28 + 1} March 2024 10:00' + ('Z' if i % 2 else 'UTC'), ''),
        (lambda i: f'{i}.5 €', "the cells are read as numbers, such as '1.5 €' in line 3 as 1.5"),
    ],
)
def test_what_may_be_missing_or_codes_causes_a_warning(prepare, function, warning):
    _, log = prepare(column(function))
    assert warning in log and (warning or 'WARNING' not in log)


@pytest.mark.parametrize(
    'zone, other, warning',
    [
        (
            '+02:00',
            '',
            "'2024-03-01 10:00' has no offset, unlike the times of the training data, and is read as UTC: add it.",
        ),
        (
            '',
            'Z',
            "'2024-03-01 10:00Z' has an offset, unlike the times of the training data, and becomes UTC: omit it, as there",
        ),
        ('+02:00', 'Z', ''),
        ('', '', ''),
    ],
)
def test_files_whose_times_have_offsets_unlike_the_training_data_cause_a_warning(
    prepare, tmp_path, caplog, zone, other, warning
):
    found, _ = prepare('x,y\n' + ''.join(f'2024-03-{i % 28 + 1:02} 10:0{i % 9}{zone},{i / 3}\n' for i in R))
    unread = f'--:--{other},1\n2024-13-01 10:00{other},1'  # No times, of which nothing is said.
    (tmp_path / 'new.csv').write_text(f'x,y\n{unread}\n2024-03-01,1\n2024-03-01 10:00{other},1\n2024-03-02 10:00{other},1\n')
    for read in (found.predict, found.read_labeled):
        caplog.clear()
        read(tmp_path / 'new.csv')
        assert caplog.text.count('unlike the times') == bool(warning)
        assert f'{tmp_path}/new.csv: column x: {warning}' in caplog.text or not warning
    caplog.clear()
    read_cell = raw_columns.cell_readers(found.params)['x']
    for cell in ('', '2024-03-01', f'2024-03-01 10:00{other}', f'2024-03-02 10:00{other}'):
        assert read_cell(cell) == cell
    assert f'the input x: {warning}' in caplog.text if warning else not caplog.text
    assert len(caplog.messages) == bool(warning)


def test_a_model_of_an_older_version_goes_on_without_knowing_whether_times_have_offsets(prepare):
    found, _ = prepare('x,y\n' + ''.join(f'2024-03-{i % 28 + 1:02} 10:0{i % 9}Z,{i / 3}\n' for i in R))
    old = copy.deepcopy(dict(found.metadata))
    assert old['columns'][0].pop('has_zone') is True
    assert found.prepared_with(old).source.metadata() == old and found.source.metadata() == found.metadata


@pytest.mark.parametrize(
    'values, outliers',
    [
        ([0] * 900 + [1] * 50 + [2] * 3 + [5000], []),  # The second smallest is not far from the smallest.
        ([0] * 50 + [299] * 25 + [300] * 25, []),  # Half of the rows are no outliers.
        ([0] * 900 + [7298, 7300] * 50, []),
        ([1, 2, 1000], []),
        ([1e7 + 0.001 * i for i in range(8)], []),
        ([0, 1] * 500 + [1e6], [1e6]),
        ([-1e30, *range(50), 1e30], [-1e30, 1e30]),
        ([np.exp(i) for i in range(40)], []),
    ],
)
def test_outliers_are_few_and_far_from_numbers_that_they_make_nearly_equal(values, outliers):
    numbers = Numbers()
    numbers.update(np.array(values, np.float64), np.zeros(len(values), int))
    assert numbers.outliers == outliers


def test_ids_that_became_floats_are_one_category_in_all_files_and_rows(tmp_path):
    eans, small = [4006381333931.0, 1e10, None, 123.0], [5e-05, 0.25, 1e-07, -1e-05]
    rows = {'ean': eans * 10, 'share': small * 10, 'y': ['a', 'b'] * 20}
    pyarrow.parquet.write_table(pa.table(rows), tmp_path / 'a.parquet')
    kinds = {'columns': {'ean': 'categorical', 'share': 'categorical'}}
    (tmp_path / 'schema.json').write_text(json.dumps(kinds))
    hparams = f'table_file={tmp_path}/a.parquet', 'target=y', 'eval_share=0', f'schema={tmp_path}/schema.json'
    found = Prepared(dataset, tmp_path / 'data', *hparams)
    ean, share, _ = (column.get('vocabulary') for column in found.metadata['columns'])
    assert {*ean} == {'4006381333931', '10000000000', '123'} and {*share} == {'5e-05', '0.25', '1e-07', '-1e-05'}
    (tmp_path / 'new.csv').write_text('ean,share\n4006381333931.0,5e-05\n10000000000.0,0.25\n,1e-07\n123.0,-1e-05\n')
    new = pa.table({'ean': eans, 'share': small})
    pyarrow.parquet.write_table(new, tmp_path / 'new.parquet')
    ids = [found.predict(tmp_path / f'new.{end}')[0]['categorical'].tolist() for end in ('csv', 'parquet')]
    assert ids[0] == ids[1] and len({*map(tuple, ids[0])}) == 4 and all(second for _, second in ids[0])
    batch, _ = make_batch(new, dataset.raw_specs(found.params), dataset.cell_readers(found.params))
    assert prepare_raw(dataset, found.params, batch)['categorical'].tolist() == ids[0]
    # Older versions wrote other exponents.
    ean, share = (column['vocabulary'] for column in found.params.metadata['columns'][:2])
    ean[ean.index('4006381333931')] = '4.006381333931e+12'
    assert prepare_raw(dataset, found.params, batch)['categorical'].tolist() == ids[0]
    share[share.index('5e-05')] = '0.00005'
    assert found.predict(tmp_path / 'new.csv')[0]['categorical'].tolist() == ids[0]


def test_a_number_that_may_mark_missing_amounts_of_a_target_causes_a_warning(prepare):
    _, log = prepare('x,y\n' + ''.join(f'{i},{-999 if i % 5 == 0 else i / 2}\n' for i in R))
    assert 'the target y: -999 is far from all others, and occurs repeatedly: --hparams=missing=[-999] if it is missing' in log


@pytest.mark.parametrize('cell, given', [('-999.0', '-999'), ('-999.00', '-999'), ('-99.900', '-99.9')])
def test_a_missing_number_is_missing_in_all_its_spellings(prepare, cell, given):
    found, log = prepare(column(lambda i: cell if i % 3 == 0 else i + 0.5), f'missing=[{given}]')
    assert 'far from' not in log and 0.5 < found.metadata['columns'][0]['mean'] < 40


@pytest.mark.parametrize(
    'given, found, others',
    [
        ('1e20', ['1e20', '1e+20', '100000000000000000000'], ['1']),
        ('1e+20', ['1e+20', '1e+20'], ['10']),
        ('-1e+30', ['-1e+30'], ['1e+30']),
        ('9.96921e+36', ['9.96921e+36'], []),
        ('1e3', ['1e3', '1000', '1000.0', '1000.00'], ['100']),
        ('-999.00', ['-999', '-999.0', '-999.00', '-999.000000'], ['999']),
        ('-1e-5', ['-1e-5', '-1e-05', '-0.00001'], ['0']),
        ('007', ['007', '007.0'], ['7', '7.0']),
    ],
)
def test_a_missing_number_is_missing_as_it_is_given_and_as_programs_write_it(given, found, others):
    texts = missing_values([given])
    assert {*found} <= {*texts.to_pylist()} and not {*others} & {*texts.to_pylist()}
    assert missing_numbers(texts) == [float(given)]
    assert facts([given]) == [texts.to_pylist()] and facts([]) == []


def test_a_given_kind_that_no_cell_has_is_refused(tmp_path, prepare):
    schema = make_schema(tmp_path, columns={'x': 'date'})
    for function, shown in ((lambda i: 'abc'[i % 3], "'b' in line 3"), (lambda i: i, 'numbers')):
        assert f'column x has no dates, but {shown}: give another kind' in refused(prepare, column(function), schema)


def test_only_words_make_a_free_text():
    for cell, kind in (('+49 170 {} 12', None), ('{} x 3 x 7', None), ('the car number {}', 'text')):
        profile = ColumnProfile(Settings(1000, missing_values()))
        profile.update(pa.array([cell.format(i) for i in R]), lambda i: i, np.zeros(len(R), int))
        assert kind_of(profile, profile.reading()) == kind


def test_a_fraction_in_any_split_makes_a_regression(prepare):
    found, _ = prepare('x,y\n1,0.5\n2,1\n3,2\n')  # Of which the first is for evaluation.
    assert found.metadata['task'] == 'regression' and found.metadata['target_mean'] == 1.5


def test_dates_are_read_alike_in_files_and_graphs_with_years_of_two_digits_as_posix_has_them():
    days = {
        '01.03.24': (2024, 3, 1),
        '2/3/68': (2068, 3, 2),
        '2/3/69 12:00': (1969, 3, 2),
        '5-Mar-99': (1999, 3, 5),
        '31. Dec 00': (2000, 12, 31),
        '01-02-03': None,
        '1/2/345': None,
        '1/2/2024\xa03:00': None,
        '\u0661/\u0662/2024': None,
        '\u20031/2/2024 3:00\u202fPM\xa0': (2024, 2, 1),
        **dict.fromkeys(['2024-03-04', '2024/03/04', '2024.03.04', '04-03-2024', '04/03/2024', '04.03.2024'], (2024, 3, 4)),
        **dict.fromkeys(['2024-03/04', '2024/03.04', '2024.03-04', '04-03/2024', '04/03.2024', '04.03/24', '4-3/24'], None),
        **dict.fromkeys(
            ['4/3/2024 02:00+02', '2024-03-03 22:00:00.0-02', '4.3.2024 1:30 +01:30', '4.3.24 0:00Z'], (2024, 3, 4)
        ),
        '2024-03-04 02:00+2': None,
        '2024-03-04 02:00+02:': None,
    }
    expected = [np.nan if day is None else (datetime.date(*day) - datetime.date(1970, 1, 1)).days for day in days.values()]
    expected[2] += 0.5
    expected[9] += 15 / 24
    found = to_days(pa.array([cell.strip() for cell in days]), 'dmy')
    with tf.Graph().as_default(), tf.Session() as session:
        in_graph = session.run(date_ops.to_days(tf.constant([*days]), 'dmy'))
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(in_graph, expected)


def test_months_before_days_are_read_alike_in_files_and_graphs():
    days = {'03/04/2024': (2024, 3, 4), '03-04-24': None, '03-04-2024': (2024, 3, 4), '2024/03/04': (2024, 3, 4)}
    days |= dict.fromkeys(['03.04.2024', '03-04/2024', '03/04-2024', '2024-03/04', '13/04/2024'], None)
    expected = [np.nan if day is None else (datetime.date(*day) - datetime.date(1970, 1, 1)).days for day in days.values()]
    with tf.Graph().as_default(), tf.Session() as session:
        in_graph = session.run(date_ops.to_days(tf.constant([*days]), 'mdy'))
    np.testing.assert_allclose(to_days(pa.array([*days]), 'mdy'), expected)
    np.testing.assert_allclose(in_graph, expected)


def test_numbers_that_people_write_are_a_target(prepare):
    for written, mean in ((lambda i: f'"${i % 25 + 100},000"', 112_000), (lambda i: f'{i}%', 99.5)):
        found, _ = prepare('x,y\n' + ''.join(f'{i},{written(i)}\n' for i in range(200)), 'decimal=point')
        assert found.metadata['task'] == 'regression'
        np.testing.assert_allclose(found.metadata['target_mean'], mean, rtol=0.05)


@pytest.mark.parametrize(
    'affixes, cell, number',
    [(['$'], '1,000.5', 1000.5), (['$'], '$5', 5), (['$'], '€5', None), (['kg'], '5', 5), (['%'], '0.5', None)],
)
def test_a_number_without_its_currency_or_unit_is_the_same_but_no_percentage(affixes, cell, number):
    assert Style('point', affixes).number(cell) == number


def test_points_that_may_separate_thousands_cause_a_warning_and_the_user_decides(prepare, tmp_path):
    content = column(lambda i: f'{i * 100:,}'.replace(',', '.'))  # 900, 1.000, 1.100 ...
    found, log = prepare(content)
    assert found.metadata['columns'][0]['mean'] < 300 and 'if 1.234 is 1234, give --hparams=decimal=comma' in log
    found, log = prepare(content, 'decimal=comma')
    assert 1500 < found.metadata['columns'][0]['mean'] < 2500 and 'if 1.234' not in log
    for cell in (lambda i: i + 0.125, lambda i: f'{i * 37 + 0.125}' if i % 2 else i, lambda i: f'{i + 1}.{i % 10}'):
        assert 'if 1.234' not in prepare(column(cell))[1]
        assert 'if 1.234' not in prepare(column(lambda i, cell=cell: f'{cell(i)} kg'))[1]


def test_integers_of_pandas_beside_missing_ones_have_no_leading_zeros(prepare):
    assert 'leading zeros' not in prepare(column(lambda i: f'{i % 9}.0' if i % 4 else ''))[1]


def test_points_that_may_separate_thousands_are_found_beside_units_and_beside_columns_with_decimal_commas(prepare):
    assert 'if 1.234' in prepare(column(lambda i: f'{i * 100:,} kg'.replace(',', '.')))[1]
    thousands = [f'{1000 + i}'.replace('1', '1.', 1) for i in R]  # 1.000, 1.001, ..., none below 1,000.
    for other, is_found in (('0,5', True), ('0.5', False)):
        rows = [f'{cell};{other} €;{i % 2}' for i, cell in enumerate(thousands)]
        assert ('if 1.234' in prepare('\n'.join(['x;z;y', *rows]))[1]) == is_found
    for by, other, is_found in ((';', '7', True), (',', '7', False), (';', '7.5', False)):  # Spreadsheets of which countries.
        rows = [by.join([cell, other, str(i % 2)]) for i, cell in enumerate(thousands)]
        assert ('if 1.234' in prepare('\n'.join([by.join('xzy'), *rows]))[1]) == is_found


@pytest.mark.parametrize(
    'name, cell, warning',
    [
        ('day', lambda i: f'202401{i % 28 + 1:02d}', '20240101 seems to be a date, but is read as a number: write dates as 20'),
        ('size', lambda i: f'202401{i + 1:02d}', ''),  # There is no such day as the last one.
        (
            'PassengerId',
            lambda i: i,
            'each row has another number, which is learned from; if they are ids, give the kind ignore',
        ),
        ('customer_id', lambda i: 7 * i, 'each row has another number'),
        ('customer_id', lambda i: i // 2, ''),
        ('paid', lambda i: i, ''),
        ('id no.', lambda i: i + 0.5, ''),
    ],
)
def test_numbers_that_may_be_dates_or_ids_are_warned_of(prepare, name, cell, warning):
    found, log = prepare(column(cell).replace('x,', f'{name},', 1))
    assert (f'column {name}: {warning}' if warning else '') in log
    assert ('seems to be' in log or 'are ids' in log) == bool(warning)
    assert kinds(found)[name] == 'numeric'


def test_numbers_whose_kind_or_role_is_given_are_not_warned_of(prepare, tmp_path):
    schema = tmp_path / 'schema.json'
    for content in ({'id': 'PassengerId'}, {'columns': {'PassengerId': 'numeric'}}):
        schema.write_text(json.dumps(content))
        assert 'each row has' not in prepare(column(lambda i: i).replace('x,', 'PassengerId,', 1), f'schema={schema}')[1]


def test_files_of_other_line_ends_and_encodings_are_refused_with_a_cure(tmp_path):
    for content, message in (
        ('x,y\r\n1,2\r\n'.encode('utf-16-le'), 'b.csv: line 1 contains NUL characters, as UTF-16 does: save the file as UTF-8'),
        (b'x,y\r1,2\r', "b.csv: line 1: contains a carriage return outside of quotes: lines must end with LF or CR LF: tr '"),
    ):
        (tmp_path / 'b.csv').write_bytes(content)
        assert message in failed(open_table, str(tmp_path / 'b.csv'))


def test_a_column_that_is_ignored_although_most_cells_are_numbers_causes_a_warning(prepare):
    _, log = prepare(column(lambda i: f'{i}+' if i % 4 == 0 else i))
    assert (
        "% of the cells are numbers, but '4+' in line 6 is none: the column is ignored; to change that, give its kind in" in log
    )


def test_a_missing_text_has_no_words(prepare, tmp_path):
    found, _ = prepare(column(lambda i: '' if i % 4 == 0 else f'a good car {i}'))
    assert kinds(found)['x'] == 'text'
    assert sum(len(found.read(split)[0]['text']) for split in ('train', 'eval')) == len(R)
    (tmp_path / 'new.csv').write_text('x,z\n,1\na car,2\n')
    features, errors = found.predict(tmp_path / 'new.csv')
    assert features['text'].tolist() == [[1, 0], [2, 3]] and not errors  # Unknown; a, car, good in the vocabulary.
    assert prepare_raw(dataset, found.params, {'x': ['a car', 'N/A'], 'z': [1, 1]})['text'].tolist() == [[2, 3], [1, 0]]


def test_dates_with_the_year_first_go_with_those_of_one_other_order():
    found = ColumnProfile(Settings(100, missing_values()))
    cells = pa.array([*['2024-01-05'] * 9, '26/07/2019'])
    found.update(cells, int, np.zeros(10, int))
    assert found.reading().order == 'dmy'
    expected = [(datetime.date(*day) - datetime.date(1970, 1, 1)).days for day in ((2024, 1, 5), (2019, 7, 26))]
    assert to_days(cells, 'dmy')[[0, 9]].tolist() == expected


def test_a_program_gives_cells_as_files_have_them():
    columns = [
        {'name': 'area', 'kind': 'numeric', 'style': {'decimal': 'comma', 'affixes': ['m²']}},
        {'name': 'n', 'kind': 'numeric'},
        {'name': 'day', 'kind': 'date', 'order': 'dmy'},
        {'name': 'city', 'kind': 'categorical'},
    ]
    readers = raw_columns.cell_readers(build.HParams({}, {'columns': columns, 'missing': ['none']}))

    def read(name, cell):
        return readers[name](cell)

    assert [read('area', ' 1.050,5 m² '), read('n', '1e3'), read('day', '3.2.2024 '), read('city', 'NA')] == [
        1050.5,
        1000,
        '3.2.2024',
        '',
    ]
    assert np.isnan([read('area', 'N/A'), read('n', 'none')]).all()
    for name, cell, what in (('area', '3 kg', 'a number'), ('n', '1,5', 'a number'), ('day', 'soon', 'a date')):
        with pytest.raises(ValueError, match=f"the input {name}: '{cell}' is not {what}"):
            read(name, cell)


def test_a_graph_refuses_what_is_no_date_and_no_mark_of_a_missing_one(session):
    columns = [{'name': 'day', 'kind': 'date', 'order': 'dmy', 'origin': 0, 'cycles': []}]
    days = raw_columns._days(cells := tf.placeholder(tf.string, [None]), columns[0], raw_columns.missing_values(['none']))
    np.testing.assert_array_equal(session.run(days, {cells: ['2.1.1970', '', 'NA', 'none']}), [1, np.nan, np.nan, np.nan])
    assert session.run(days, {cells: []}).shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match='the input day is not a date:.*5 May'):
        session.run(days, {cells: ['2.1.1970', '5 May']})


def test_the_split_eval_may_have_another_usual_name(tmp_path):
    for name, rows in (('train', range(30)), ('val', range(7))):
        (tmp_path / f'{name}.csv').write_text('x,y\n' + ''.join(f'{i},{i % 2}\n' for i in rows))
    found = Prepared(dataset, tmp_path / 'data', f'table_file={tmp_path}', 'target=y')
    assert len(found.read('eval')[1]['label']) == len(found.read('val')[1]['label']) == 7
    assert found.places('eval')[0] == {'file': f'{tmp_path}/val.csv', 'line': 2}
