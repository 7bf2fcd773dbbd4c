"""Users' own tables: rows, cells, columns and splits, and datasets/csv.py, from batches to predictions."""

import datetime
import functools
import gzip
import hashlib
import os
import re
import shutil
import types
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common import assets
from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference.rows import make_batch
from estimator_trainer.common.own_data import conversions
from estimator_trainer.common.own_data.examples import serialization
from estimator_trainer.common.own_data.lines import Lines, Position
from estimator_trainer.common.own_data.moments import Moments, standardize
from estimator_trainer.common.own_data.schema import CATEGORICAL, COLUMNS, DATE, NUMERIC, Schema, find_roles, read_schema
from estimator_trainer.common.own_data.split_rows import BadRows
from estimator_trainer.common.own_data.splits import Files, SplitFile, find_files, fingerprint
from estimator_trainer.common.own_data.tables.blocks import Block
from estimator_trainer.common.own_data.tables.cells import missing_values, to_days
from estimator_trainer.common.own_data.tables.columns import ColumnProfile, Settings, kind_of
from estimator_trainer.common.own_data.tables.delimited import Delimited
from estimator_trainer.common.own_data.tables.encoding import encoded_features, make_encoder
from estimator_trainer.common.own_data.tables.facts import describe
from estimator_trainer.common.own_data.tables.files import open_table
from estimator_trainer.common.own_data.tables.survey import survey
from estimator_trainer.common.own_data.vocabulary import ValueCounts, class_ids, column_ids, sorted_classes
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.records import records
from estimator_trainer.common.runs import saved_dataset
from estimator_trainer.datasets import csv
from estimator_trainer.datasets import table as dataset
from estimator_trainer.hparams import build
from tests.datasets.own_data import PREDICT, Prepared, make_schema, parse, predicted, prepare_raw, serve
from tests.shared import failed, refused


@pytest.fixture
def table(tmp_path):
    def make(content, named=()):
        (tmp_path / 'a.csv').write_bytes(content if isinstance(content, bytes) else content.encode())
        return Delimited(str(tmp_path / 'a.csv'), named)

    return make


def rows_of(table):
    """Returns the cells of each row of a table, or the message of its fault, and their lines."""
    rows, lines = [], []
    for block in table.blocks():
        cells = zip(*(column.to_pylist() for column in block.columns))
        rows += [str(block.faults[i]) if i in block.faults else list(row) for i, row in enumerate(cells)]
        lines += [block.line(i) for i in range(len(block))]
    return rows, lines


def test_lines_are_read_from_any_offset(tmp_path):
    long = [letter * 700_000 for letter in 'abcd']  # Longer than the blocks read.
    (tmp_path / 'a').write_bytes(b'\xef\xbb\xbf' + '\n'.join(['ü', *long, '\r', 'end']).encode())
    lines, found, positions = Lines(str(tmp_path / 'a')), [], []
    while (line := next(lines, None)) is not None:
        found.append(line)
        positions.append(Position(lines.offset, lines.number))
    assert found == ['ü\n', *(f'{line}\n' for line in long), '\r\n', 'end'] and lines.is_utf8
    assert positions[0] == Position(3 + 3, 2) and positions[-1].line == 8
    assert list(Lines(str(tmp_path / 'a'), positions[2])) == found[3:]
    (tmp_path / 'a').write_bytes(b'x\n' + bytes(17 << 20))
    assert '/a: line 2 is longer than 16 MiB: is this a text file' in failed(list, Lines(str(tmp_path / 'a')))
    assert '/no/such: cannot be read: ' in refused(list, Lines('/no/such'))


def test_the_delimiter_is_that_of_the_header_and_quoted_cells_may_contain_it_and_quotes_and_line_breaks(table):
    for delimiter, name in ((',', 'a;b,c|d'), (';', 'a,b'), ('\t', 'a;b,c|d'), ('|', 'a;b,c|d')):
        found = table(f'\n\nx{delimiter}"{name}"{delimiter}\n1{delimiter} 2 {delimiter}"3,4"\n')
        assert found.header == ['x', name, ''] and rows_of(found) == ([['1', '2', '3,4']], [4])
    found = table(b'\xef\xbb\xbfx,text,y\r\n' + b''.join(b'%d,"a, ""b""\r\nc %d",0\r\n\r\n' % (i, i) for i in range(99)))
    assert found.header == ['x', 'text', 'y']  # Without the byte order mark.
    rows, lines = rows_of(found)
    assert rows == [[f'{i}', f'a, "b"\r\nc {i}', '0'] for i in range(99)]
    assert lines == [2 + i * 3 for i in range(99)]
    found = table('sep=;\nx;y\n1,5;2\n')  # As Excel writes it.
    assert found.header == ['x', 'y'] and rows_of(found) == ([['1,5', '2']], [3])


def test_all_chunks_of_a_file_are_read_alike_by_arrow_and_by_csv(table, monkeypatch):
    lines = ['x,y,z', *(f'{i},"a{i}",b {i % 7}' for i in range(40))]
    lines[9:9] = ['"8","say ""hi""",", "', ' 9 , p" ,q"r"', '']
    lines[30:30] = ['1,2', '7,"two', 'lines",c', 'ü,\u2003n\u00a0,m']
    expected = None
    for size in (1, 40, 300, 1 << 21):
        monkeypatch.setattr('estimator_trainer.common.own_data.tables.delimited._CHUNK', size)
        for patched in (False, True):
            with monkeypatch.context() as patch:
                if patched:
                    patch.setattr(Delimited, '_regular', lambda *_: None)
                found = rows_of(table('\n'.join(lines)))
            expected = expected or found
            assert found == expected and len(found[0]) == 45
    assert expected[0][8:10] == [['8', 'say "hi"', ','], ['9', 'p"', 'q"r"']] and expected[1][9:11] == [11, 13]
    assert '2 cells' in expected[0][28] and ['7', 'two\nlines', 'c'] in expected[0] and ['ü', 'n', 'm'] in expected[0]


def test_a_compressed_file_with_line_breaks_in_cells_is_not_read_from_its_beginning_for_each_chunk(table, monkeypatch):
    module, begun = 'estimator_trainer.common.own_data.tables.delimited', []
    found = table(gzip.compress(b'x,y\n' + b''.join(b'"a\nb",%d\n' % i for i in range(300))))
    monkeypatch.setattr(f'{module}._CHUNK', 200)
    monkeypatch.setattr(f'{module}.Lines', lambda *given: begun.append(given) or Lines(*given))
    assert rows_of(found) == ([['a\nb', str(i)] for i in range(300)], [*range(2, 602, 2)]) and len(begun) == 1


def test_compressed_files_and_utf_16_are_read(table):
    for encoded in (gzip.compress('x,y\nä,1\n'.encode()), 'x,y\nä,1\n'.encode('utf-16')):
        assert rows_of(table(encoded)) == ([['ä', '1']], [2])


def test_a_wrong_row_is_named_by_its_line_and_hides_no_other_and_a_wrong_header_is_refused(table):
    for content, expected in (
        ('1,2,3\n1,0\n', ['line 2: 3 cells, but the header has 2', ['1', '0']]),
        ('1,0\n\n2\n1,1\n', [['1', '0'], 'line 4: 1 cells, but the header has 2', ['1', '1']]),
        ('1,0\n"2,1\n3,0\n', [['1', '0'], 'line 3: a quoted cell does not end: is a quote missing?', ['3', '0']]),
        ('"2"2,1\n3,0\n', ["line 2: ',' expected after '\"': a quote within a quoted cell must be doubled", ['3', '0']]),
        ('a "b" c"d,1\n"open, 0\n3,"4"\n', [['a "b" c"d', '1'], "line 3: ',' expected after", ['3', '4']]),
        ('\xff,1\nü,1\n', ['line 2: is not UTF-8: convert the file, as with: iconv -f CP1252', ['ü', '1']]),
        (f'"{"a" * (1 << 22)}\n",1\n{"b" * 200_000},2\n', ['line 2: a cell is longer than 4 MiB:', None, ['b' * 200_000, '2']]),
        (
            '1,0\r2,1\r',
            [
                r'line 2: contains a carriage return outside of quotes: lines must end with LF or CR LF: '
                r"tr '\r' '\n' < OLD > NEW makes line feeds of them"
            ],
        ),
    ):
        found, _ = rows_of(table(b'x,y\n' + content.encode().replace('\xff'.encode(), b'\xff')))
        for value, wanted in zip(found, expected, strict=True):
            assert not wanted or value == wanted or f'/a.csv: {wanted}' in str(value) and '\n' not in str(value)
    for content, message in (
        ('', 'is empty: the first line must name the columns'),
        ('x,x\n', 'line 1 names two columns x: rename one'),
        ('1,2,\n', 'line 1 must name the columns, but contains 1,2'),
        ('1,1\n', 'line 1 must name the columns, but contains 1,1'),
        ('0.5,0.5,a\n', 'line 1 names two columns 0.5: rename one, or, if these are values, add a line with the names above'),
        ('x,"y\n', 'line 1: a quoted cell does not end'),
        ('x,y\n1,a\n'.encode('utf-16-le'), 'line 1 contains NUL characters, as UTF-16 does: save the file as UTF-8'),
        (gzip.compress(b'x,y\n1,2\n' * 99)[:-20], 'its compression is corrupt: '),
    ):
        assert f'a.csv: {message}' in failed(lambda content: rows_of(table(content)), content)


def test_a_first_line_of_numbers_names_columns_if_pandas_or_the_user_say_so(table, caplog):
    assert table('0,1,2\n5,6,7\n').header == ['0', '1', '2'] and 'line 1, 0,1,2, is taken for names' in caplog.text
    assert table('2019,2020\n5,6\n', named=['2020']).header == ['2019', '2020']


@pytest.mark.parametrize(
    'content, message',
    [
        (b'PK\x03\x04' + bytes(26) + b'xl/workbook.xml', 'is an Excel workbook: save it as CSV UTF-8'),
        (b'PK\x03\x04' + bytes(26) + b'data.csv', 'is a zip archive: unpack it'),
        (b'\xd0\xcf\x11\xe0rest', 'is an Excel file: save it as CSV UTF-8'),
        (b'SQLite format 3\0', 'is an SQLite database: export a table'),
        (b'BZh9', 'is compressed with bzip2: decompress it'),
    ],
)
def test_files_that_are_no_tables_are_named(tmp_path, content, message):
    (tmp_path / 'a.csv').write_bytes(content)
    assert f'a.csv: {message}' in refused(open_table, str(tmp_path / 'a.csv'))


def test_tables_of_other_formats_are_read_as_texts(tmp_path):
    columns = {
        'i': pa.array([1, None, 3]),
        'f': pa.array([1.5, float('nan'), 1e20]),
        'b': pa.array([True, False, None]),
        's': pa.array(['x', ' y ', None]).dictionary_encode(),
        'd': pa.array([datetime.date(2024, 2, 29), None, None]),
        't': pa.array([datetime.datetime(2024, 2, 29, 12, 30), None, None]),
        'nested': pa.array([[1], [], None]),
    }
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / 'a.parquet')
    pyarrow.feather.write_feather(pa.table(columns), str(tmp_path / 'a.feather'))
    for name in ('a.parquet', 'a.feather'):
        found = open_table(str(tmp_path / name))
        assert found.header == [*'ifbsdt'] and found.unit == 'row'
        (one, two, three), lines = rows_of(found)
        assert lines == [1, 2, 3] and one[:5] == ['1', '1.5', 'True', 'x', '2024-02-29']
        assert one[5].startswith('2024-02-29 12:30:00') and two == ['', 'nan', 'False', 'y', '', '']
        assert three[:4] == ['3', '1e+20', '', '']
    (tmp_path / 'a.jsonl').write_text('{"x": 1.50, "y": true}\n\n{"y": null, "z": " a"}\n[1]\n{"x": {}}\n{\n')
    rows, lines = rows_of(open_table(str(tmp_path / 'a.jsonl')))
    assert lines == [1, 3, 4, 5, 6] and rows[:2] == [['1.50', 'True', ''], ['', '', 'a']]
    for text, wanted in zip(rows[2:], ('4: is no JSON object', '5: x is no single value', '6: is not JSON in one line, as jq')):
        assert f'a.jsonl: line {wanted}' in text
    (tmp_path / 'a.parquet').write_bytes(b'PAR1broken')
    assert 'a.parquet: is corrupt: ' in failed(open_table, str(tmp_path / 'a.parquet'))


def test_each_file_of_a_directory_is_a_split_and_another_version_of_the_converter_converts_anew(tmp_path):
    find = functools.partial(find_files, 'csv_file', suffixes=('.csv', '.tsv'), eval_share=0.2)
    for path, message in (
        ('', '--hparams=csv_file=PATH is required: a file, or a directory of train.csv and eval.csv'),
        ('/no/such', '--hparams=csv_file=/no/such: there is no such file or directory'),
        ('no_such', f'--hparams=csv_file=no_such: there is no such file or directory in the current directory, {os.getcwd()}'),
        (str(tmp_path), f'--hparams=csv_file={tmp_path}: the directory has no file named train.csv; it has: no files'),
    ):
        assert refused(find, path) == message
    for name in ('train.csv', 'eval.tsv', 'FOLD3.CSV.gz', '.hidden.csv', '._train.csv', 'notes.txt'):
        (tmp_path / name).write_text('')
    files = find(str(tmp_path)).files
    expected = (('fold3', 'FOLD3.CSV.gz'), ('eval', 'eval.tsv'), ('train', 'train.csv'))
    assert files == [SplitFile(f'{tmp_path}/{name}', (split,)) for split, name in expected]
    (tmp_path / 'parts').mkdir()
    for name in ('dev.csv', 'test.csv'):
        (tmp_path / 'parts' / name).write_text('')
    assert find(str(tmp_path / 'parts')).find('eval').splits == ('dev',)
    trained = find(str(tmp_path / 'parts'), trained='dev')
    found = refused(trained.find, 'eval')
    assert (
        f'no split eval: the splits are: dev, test: add eval.csv, give {tmp_path}/parts/dev.csv, a share of which is' in found
    )
    assert ' held out, with train_split=train, or name another' in found
    assert find(f'{tmp_path}/train.csv').files == [SplitFile(f'{tmp_path}/train.csv', ('train', 'eval'), 0.2)]
    assert Files('csv_file', str(tmp_path), files).find('fold3') is files[0] and files[0].split_of(0) == 'fold3'
    (key, state), (same_key, other) = (fingerprint('a', [], None, version).split('-') for version in (1, 2))
    assert key == same_key and state != other and fingerprint('a', [], None) == f'{key}-{state}'
    (tmp_path / 'train.tsv').write_text('')
    assert f'{tmp_path}: both train.csv and train.tsv are of the split train: remove one' in refused(find, str(tmp_path))
    train, both = SplitFile('d.csv', ('train',)), SplitFile('d.csv', ('train', 'eval'), 0.2)
    for split, path, files, message in (
        ('test', 'd.csv', [both], 'train, eval: give a directory with test.csv, or name another'),
        ('eval', 'd.csv', [train], 'train: raise eval_share, or name another with --eval_splits, --predict_split or'),
        ('test', 'd', [SplitFile(f'd/{name}.tsv', (name,)) for name in 'ab'], 'a, b: add test.tsv, or name another'),
    ):
        message = f'--hparams=csv_file={path}: there is no split {split}: the splits are: {message}'
        assert refused(Files('csv_file', path, files).find, split).startswith(message)


def test_numbers_are_standardized_and_those_that_float32_cannot_tell_apart_are_recognized(session):
    mean, std = 1.7e38, 3.4e38 * 0.75**0.5  # Of the numbers 3.4e38, three times, and -3.4e38: a difference is no float32.
    found = session.run(standardize(tf.constant([3.4e38, -3.4e38]), mean, std))
    np.testing.assert_allclose(found, [3**-0.5, -(3**0.5)], rtol=1e-6)
    for values, std, is_exact in (
        ([1, 3, 5, 7], 5**0.5, True),
        ([5, 5, 5], 1, True),
        ([1e6 - 0.9, 1e6 + 0.9], 1, False),  # Float32 has 24 bits.
        ([-1e6 - 2, -1e6 + 2], 2, False),
        ([1.7e9 - 1.01e4, 1.7e9 + 1.01e4], 1.01e4, False),  # 1.7e9 / 2**24 is 101.3.
        ([1.7e9 - 1.02e4, 1.7e9 + 1.02e4], 1.02e4, True),
        ([9e-38, -9e-38], 1, True),
        ([2e-37, -2e-37], 2e-37, True),
    ):
        moments = Moments()
        moments.update(values)
        assert moments.std == pytest.approx(std) and moments.is_exact_in_float32 == is_exact


def profile(cells, kind=None, decimal='', order=''):
    found, lines = ColumnProfile(Settings(100, missing_values(), decimal, order), kind), range(2, 2 + len(cells))
    for begin in range(0, len(cells), 10):
        block = pa.array(cells[begin : begin + 10])
        found.update(block, lambda i, begin=begin: lines[begin + i], np.arange(begin, begin + len(block)) // 7)
    return found


def test_a_column_is_numeric_if_nine_in_ten_cells_are_and_identifies_rows_if_ten_or_more_differ():
    for cells, kind, expected, is_integer, unread, mean in (
        (['1', '', '2.0', '?', 'NA'], None, NUMERIC, True, None, 1.5),
        (['1', '2.5'], None, NUMERIC, False, None, 1.75),
        (['1', '', *'1234567', '1', 'x'], None, NUMERIC, False, (12, 'x'), 30 / 9),  # One in ten.
        (['1', '', *'1234567', 'x'], None, CATEGORICAL, False, (11, 'x'), 29 / 8),
        ([*'xyzuv', 'NA', *'1234', *'1234567890' * 9], None, CATEGORICAL, False, (2, 'x'), 2.5),  # Too many texts at first.
        (['1', 'x', '3'], NUMERIC, NUMERIC, False, (3, 'x'), 2),  # A given kind is not inferred.
        (['1', '3'], CATEGORICAL, CATEGORICAL, True, None, 0),
    ):
        found = profile(cells, kind)
        assert kind_of(found, found.reading()) == expected, cells
        assert (found.is_integer, found.evidence.first_unread) == (is_integer, unread), cells
        assert found.numbers.finish().mean == pytest.approx(mean)
        assert found.num_missing == sum(cell in ('', '?', 'NA') for cell in cells) == len(cells) - found.num_present
    assert profile([*'abcdefghij']).identifies
    assert not any(profile(cells).identifies for cells in ([*'abcdefghi'], [*'abcdefghia'], ['', *'abcdefghij']))


# The values are those that a person reads.
@pytest.mark.parametrize(
    'cells, settings, decimal, affixes, value',
    [
        (['1,234.5', '999'], {}, 'point', [''], 1234.5),
        (['1.234,5', '0,75'], {}, 'comma', [''], 1234.5),
        (['3,14', '1.234', '7'], {}, 'comma', [''], 3.14),
        (['1,234,567', '1,234'], {}, 'point', [''], 1234567),
        (['12,34,567', '1,000'], {}, 'point', [''], 1234567),  # As in India.
        (['0,123', '1,234'], {}, 'comma', [''], 0.123),
        (["1'234.50", '12'], {}, 'point', [''], 1234.5),
        (['1_234.50', '12_000'], {}, 'point', [''], 1234.5),
        (['1 234,5', '2\u202f000,1'], {}, 'comma', [''], 1234.5),
        (['$1,200.50', '$-3'], {}, 'point', ['$'], 1200.5),
        (['($12)', '3'], {}, 'point', ['', '$'], -12),
        (['45%', '4.5 %'], {}, 'point', ['%'], 45),
        (['12 kg', '7kg'], {}, 'point', ['kg'], 12),
        (['12 widgets', '7 widgets'], {}, 'point', ['widgets'], 12),
        (['1.200 €', '1,5 €'], {}, 'comma', ['€'], 1200),
        (['\u22125', '4'], {}, 'point', [''], -5),
        (['1,234', '5,678'], {'decimal': 'point'}, 'point', [''], 1234),
        (['1,234', '5,678'], {'decimal': 'comma'}, 'comma', [''], 1.234),
    ],
)
def test_numbers_are_read_as_people_write_them(cells, settings, decimal, affixes, value):
    found = profile(cells, **settings)
    style = found.reading().style
    assert kind_of(found, found.reading()) == NUMERIC and (style.decimal, style.affixes) == (decimal, affixes)
    assert style.number(cells[0]) == value and None not in map(style.number, cells)


@pytest.mark.parametrize(
    'cells', [['A4', 'A6'], ['5th', '6th'], ['12A', '13B'], ['1-2', '3-4'], ['1.2.3', '1.2.4'], ['0x10', '1_0']]
)
def test_codes_are_no_numbers(cells):
    assert profile(cells).reading() is None


@pytest.mark.parametrize(
    'cells, message',
    [
        (
            ['1,234', '5,678'],
            "line 2: '1,234' is 1234 with a separator of thousands, or 1.234 with a decimal comma: say which with",
        ),
        (['12 kg', '500 g'], "line 2: '12 kg', but line 3: '500 g': write all in one unit"),
        (['USD 5', '5 EUR'], "line 2: 'USD 5', but line 3: '5 EUR'"),
        (['45%', '0.45'], "line 2: '45%', but a number without it"),
        (
            ['03/04/2024', '05/06/2024'],
            "line 2: '03/04/2024' may begin with the day or with the month: say which with --hparams=da",
        ),
    ],
)
def test_cells_that_can_be_read_in_two_ways_are_told_with_the_cure(cells, message):
    assert profile(cells).reading().wrong.startswith(message)


# Days since 1970-01-01, from date(1).
@pytest.mark.parametrize(
    'cells, settings, order, days',
    [
        (['2024-02-29', '2023-1-5'], {}, 'ymd', 19782),
        (['2024-02-29T12:00:00Z', '2024-02-29 18:00'], {}, 'ymd', 19782.5),
        (['2024-02-29 12:00:00.000+02:00', '2024-02-29'], {}, 'ymd', 19782 + 10 / 24),
        (['2024-02-29 12:00:00-05', '2024-02-29 12:00:00+02'], {}, 'ymd', 19782 + 17 / 24),  # As PostgreSQL writes them.
        (['2024/02/29'], {}, 'ymd', 19782),
        (['29.02.2024', '1.3.2024'], {}, 'dmy', 19782),
        (['29/02/2024', '01/03/2024'], {}, 'dmy', 19782),
        (['02/29/2024', '03/01/2024'], {}, 'mdy', 19782),
        (['02/03/2024', '03/03/2024'], {'order': 'dmy'}, 'dmy', 19784),
        (['02/03/2024 3:00 PM', '03/03/2024'], {'order': 'mdy'}, 'mdy', 19756.625),
        (['Feb 29, 2024', '1 March 2024'], {}, 'ymd', 19782),
    ],
)
def test_dates_are_read_in_the_order_that_the_column_tells(cells, settings, order, days):
    found = profile(cells, **settings)
    assert kind_of(found, found.reading()) == DATE and found.reading().order == order
    np.testing.assert_allclose(to_days(pa.array(cells), order)[0], days)


def test_a_day_that_does_not_exist_is_no_date():
    assert profile(['2024-02-30', '2024-13-01']).reading() is None


def test_long_values_are_counted_in_bounded_memory():
    counts = ValueCounts(1000)
    for i in range(100):
        counts.update([f'{i}{"." * 2**20}', 'short'])  # 100 MB in all.
    assert sum(map(len, counts.counts())) < 7e7 and counts.counts()['short'] == 100
    assert (counts.total, counts.is_exact, counts.are_distinct) == (200, False, False)
    few = ValueCounts(1000)
    for _ in range(100):
        few.update(['.' * 2**20])
    assert few.is_exact and [*few.counts().values()] == [100]


def test_values_are_counted_in_bounded_memory_and_categories_and_classes_are_their_places(session):
    counts = ValueCounts(3)
    counts.update(['b', 'a', 'b', 'c'])
    assert (len(counts), counts.total, counts.is_exact, counts.are_distinct) == (3, 4, True, False)
    assert counts.most_common(1, 10) == ['b', 'a', 'c'] and counts.most_common(2, 10) == ['b']
    assert counts.most_common(1, 2) == ['b', 'a'] and sorted(counts.values()) == ['a', 'b', 'c']
    counts.update(['d'])
    assert (list(counts.values()), counts.total, counts.is_exact) == (['b'], 5, False)  # The rarest are forgotten.
    counts.update('aaccddee')
    assert list(counts.values()) == []
    many = ValueCounts(3)
    for block in ('abc', 'def', 'aa'):
        many.update(block)
    assert many.are_distinct and not many.is_exact  # The first ones were.
    for expected in (['1.5', '2', '10'], ['01', '1'], ['10', '2', 'x']):
        assert sorted_classes(reversed(expected)) == expected
    ids = column_ids(tf.constant([['a', 'b'], ['', 'c']]), {'x': [], 'y': []})  # Without known categories.
    spelled = tf.constant([['TRUE', 'e\u0301'], ['true', '5.00'], ['True', '5'], ['no', '']])
    spelled = column_ids(spelled, {'x': ['false', 'true', 'True'], 'y': ['\u00e9', '5']})  # A value's own spelling goes first.
    values = tf.placeholder(tf.string, [None])
    found, many = class_ids(values, ['b', 'a'], 'kind'), class_ids(values, 'abcdef', 'kind')
    as_written = class_ids(tf.constant(['1', '1.00', '1.0']), ['1', '1.00'], 'tag')
    session.run(tf.tables_initializer())
    assert session.run(ids).tolist() == [[0, 0], [0, 0]] and session.run(as_written).tolist() == [0, 1, 0]
    assert session.run(spelled).tolist() == [[2, 1], [2, 2], [3, 2], [0, 0]]
    assert found.dtype == tf.int32 and session.run(found, {values: ['a', 'b', 'a']}).tolist() == [1, 0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match='Key: kind. Must be one of the classes: b, a[^,]'):
        session.run(found, {values: ['b', 'c']})
    with pytest.raises(tf.errors.InvalidArgumentError, match='Must be one of the classes: a, b, c, d, e, ...'):
        session.run(many, {values: ['g']})


@pytest.fixture
def facts(table, caplog):
    """Returns a function from a header and rows to the metadata, with y as the target."""
    caplog.set_level('INFO', 'tensorflow')

    of_tables = {'target': 'y', 'missing': [], 'decimal': '', 'dates': ''}

    def call(header, rows, schema=None, **given):
        found = table('\n'.join([header, *(','.join(map(str, row)) for row in rows)]))
        params = {'train_split': 'train', 'min_count': 2, 'max_vocabulary': 10, 'max_bad_share': 0, **of_tables, **given}
        file = SplitFile(found.path, ('train',))
        return describe({file: found}, file, Schema(COLUMNS, 'schema.json', schema or {}), build.HParams(params))[0]

    return call


def kinds(found):
    return {column['name']: column['kind'] for column in found['columns']}


def test_spellings_of_an_integer_are_one_class(facts):
    rows = [(i % 3, f'{i % 11}.0' if i % 2 else i % 11) for i in range(110)]
    assert facts('x,y', rows)['class_names'] == [str(i) for i in range(11)]


def test_text_and_few_integers_are_classes_and_other_numbers_a_regression_or_refused(facts):
    for values, schema, expected in (
        ([10, 2, 1], {}, ['1', '2', '10']),
        (range(20), {}, [str(i) for i in range(20)]),
        (range(21), {}, None),
        ([1.5, 2], {}, None),
        (['b', 'a', ''], {}, ['a', 'b']),  # Rows without one are reported later.
        (['0.0', '1', '00'], {}, ['0', '00', '1']),
        (['1.0', 'x'], {'task': 'classification'}, ['1', 'x']),
        (['001', '010', 'TRUE', 'True', 'True'], {}, ['001', '010', 'True']),  # As they are written most often.
        ([1, 2], {'task': 'regression'}, None),
        ([1.5, 2.5], {'task': 'classification'}, ['1.5', '2.5']),
    ):
        found = facts('x,y', [(i % 7, value) for i, value in enumerate([*values] * 3)], schema)
        if expected:
            assert (found['task'], found['class_names'], found['num_classes']) == ('classification', expected, len(expected))
        else:
            assert found['task'] == 'regression' and 'num_classes' not in found
            assert (found['target_mean'], found['target_std']) == pytest.approx((np.mean(values), np.std(values)))
        assert found['vocabulary_sizes'] == {}
    for values, schema, error, message in (
        ([1], {}, RunError, 'the target y is always 1: there is nothing to learn'),
        ([1.5], {}, RunError, 'the target y is always 1.5: there'),
        ([2**53, 2**53 + 1], {'task': 'regression'}, RunError, 'column y: the numbers around 9.0072e.15 differ too little'),
        ([''], {}, RunError, 'no row has a target to train on, in the column y'),
        (['a'], {'task': 'regression'}, UsageError, 'the target y is not a number: --hparams=schema can give another task'),
        ([1.7e9 + i for i in range(40)], {}, RunError, 'column y: the numbers around 1.7e.09 differ too little for float32:'),
        ([f'{i}a' for i in range(40)], {}, UsageError, 'the target y has too many different values to be classes: name'),
        (
            [f'{i},500' for i in range(1, 40)],
            {},
            UsageError,
            r"column y: line 2: '1,500' is 1500 with a separator of thousands",
        ),
        ([f'2024-01-{i + 1:02}' for i in range(28)], {}, UsageError, 'the target y is a date: compute a number'),
    ):
        with pytest.raises(error, match=f'a.csv: {message}'):
            facts('x,y', [(i % 7, f'"{values[i % len(values)]}"') for i in range(40)], schema)


def test_a_column_that_identifies_rows_is_no_feature_unless_the_schema_says_so(facts, caplog):
    rows = [(f'row {i}', f'name {i}', '', i, i % 2, '') for i in range(50)]
    assert kinds(facts('Id,name,empty,x,y,', rows)) == {'x': 'numeric', 'y': 'target', 'Id': 'id'}
    for text in ('name is ignored: it has a different value in each row.', 'empty is ignored: it is empty.'):
        assert f'a.csv: the column {text} --hparams=schema=FILE can override this.' in caplog.text
    assert 'a.csv: a column without a name is ignored.' in caplog.text
    given = {'name': 'categorical', 'Id': 'ignore', 'empty': 'numeric', 'x': 'numeric'}
    found = facts('Id,name,empty,x,y', [row[:5] for row in rows], {'columns': given})
    assert kinds(found) == {'name': 'categorical', 'empty': 'numeric', 'x': 'numeric', 'y': 'target'}
    found = facts('id,w,x,y', [(i, 1, i, i % 2) for i in range(20)], {'id': 'x', 'weight': 'w'})
    assert kinds(found) == {'id': 'numeric', 'y': 'target', 'x': 'id', 'w': 'weight'}
    assert 'a.csv: there is no column to learn from besides y, id' in refused(facts, 'id,y', [(i, i % 2) for i in range(20)])


def test_only_probable_mistakes_cause_warnings(facts, caplog):
    rows = [('x' if i % 7 < 4 else i, 'n.a.' if i == 3 else i % 5, 'low' if i == 4 else i % 2) for i in range(140)]
    facts('mixed,zip,y', rows, {'columns': {'zip': 'categorical'}, 'task': 'classification'})
    assert 'column' not in caplog.text and 'no row trained on' not in caplog.text
    found = facts('x,time,y', [(f'"{i % 20},5"' if i % 3 == 0 else 1, 1.7e9 + i, i / 7) for i in range(60)])
    assert "a.csv: column x: the cells are read as numbers, such as '0,5' in line 2 as 0.5; to change that" in caplog.text
    assert found['columns'][0]['style'] == {'decimal': 'comma', 'affixes': ['']}
    assert 'a.csv: column time: the numbers around 1.7e+09 differ too little for float32: subtract a constant' in caplog.text
    facts('n,y', [('5+' if i % 4 == 0 else i % 4, i % 2) for i in range(60)])
    assert (
        "column n: 75 % of the cells are numbers, but '5+' in line 2 is none: taken as categories; to change that"
        in caplog.text
    )
    facts('n,y', [(i % 4, i % 3) for i in range(60)])
    assert 'the target y has 3 different integers, taken as classes; give "task": "regression" in' in caplog.text


def test_a_regression_of_fractions_and_a_last_row_of_totals_are_warned_of(facts, caplog):
    cities = [('Rome', 'Oslo', 'Bonn')[i % 3] for i in range(60)]
    is_regression, has_totals = (
        'the target y has fractions, so its numbers are taken as amounts',
        'in the last row: if that has',
    )
    for rows, schema, said in (
        ([(city, i % 7 + 0.5) for i, city in enumerate(cities)], {}, [True, False]),
        ([(city, i % 7 + 0.5) for i, city in enumerate(cities)], {'task': 'regression'}, [False, False]),
        ([(city, i) for i, city in enumerate(cities)] + [('Total:', 1770)], {}, [False, True]),
        (
            [(city, i) for i, city in enumerate(cities)] + [('Gesamtergebnis', 1770)],
            {},
            [False, True],
        ),  # As Excel's pivot tables.
        ([('total' if i % 3 else 'part', i) for i in range(60)], {}, [False, False]),
    ):
        caplog.clear()
        facts('city,y', rows, schema)
        assert [is_regression in caplog.text, has_totals in caplog.text] == said


@pytest.mark.parametrize(
    'cells, message',
    [
        (
            ['2024-02-11 01:00:00 CET', '2024-02-12 01:00:00 CET'],
            "'2024-02-11 01:00:00 CET' is no date that is read: taken as c",
        ),
        (
            ['2024-W07', '2024-W08'],
            "'2024-W07' is no date that is read: taken as categories; write dates as 2024-12-31 23:59, t",
        ),
        (['01:30', '23:59'], "'01:30' is no date that is read: taken as categories"),
        (['3. April 2024', '5. März 2024', '6. Mai 2024'], "'5. März 2024' is no date that is read: taken as categories"),
        (['1 de enero de 2024', '2 de abril de 2024'], "'1 de enero de 2024' is no date that is read: taken as categories"),
        ([f'{i}:05:00' for i in range(40)], "'0:05:00' is no date that is read: the column is ignored"),
        ([2**53 + i for i in range(40)], 'the numbers around 9.0072e+15 differ too little for float32: subtract a constant'),
        ([2**53, 2**53 + 1], 'the numbers around 9.0072e+15 differ too little for float32: subtract a constant'),
        ([2**53], ''),
        (['1000-12', '1000-13'], ''),
        (['4:3', '16:9'], ''),
    ],
)
def test_columns_that_are_lost_to_the_model_are_warned_of(facts, caplog, cells, message):
    facts('x,a,y', [(i, cells[i % len(cells)], 'no yes'.split()[i % 2]) for i in range(40)])
    warned = [record.message for record in caplog.records if record.levelname == 'WARNING']
    assert len(warned) == bool(message) and all(f'column a: {message}' in text for text in warned)


def test_a_bad_cell_among_numbers_is_a_bad_row(facts, caplog):
    for cell in ('inf', '9' * 400, 'n.a.'):
        for header in ('x,y', 'y,x'):
            rows = [(cell if i == 1200 else i % 70 / 2, i % 50 / 2) for i in range(1300)]
            found = failed(facts, header, rows)
            assert f"a.csv: line 1202: column {header[0]}: '{cell[:40]}" in found and ('missing=[' in found) == (
                len(cell) < 100
            )
            assert facts(header, rows, max_bad_share=0.01)['task'] == 'regression' and 'such rows are skipped' in caplog.text


def test_a_column_of_row_numbers_as_pandas_writes_them_is_ignored(facts, caplog):
    found = facts('Unnamed: 0,x,y', [(i, i % 7, i % 2) for i in range(30)])
    assert kinds(found) == {'x': 'numeric', 'y': 'target'}
    assert 'the column Unnamed: 0 is ignored: pandas names row numbers so; to change that, give its kind in' in caplog.text


def test_dates_become_days_and_the_cycles_that_they_cover(facts, session):
    days = [datetime.date(2023, 1, 2) + datetime.timedelta(7 * i) for i in range(60)]
    found = facts('when,y', [(day.strftime('%d.%m.%Y') if i != 5 else '', i % 2) for i, day in enumerate(days)])
    (column,) = [column for column in found['columns'] if column['kind'] == 'date']
    origin = (days[0] - datetime.date(1970, 1, 1)).days
    numbers = np.array([7.0 * i for i in range(60) if i != 5])
    assert (column['order'], column['origin'], column['cycles'], column['indicator']) == ('dmy', origin, ['year', 'week'], True)
    assert (column['mean'], column['std']) == pytest.approx((numbers.mean(), numbers.std()))
    table = write_table('a.csv', ['when', 'y'], [['02.01.2023', '03.01.2024', '', '1.1.x'], ['0', '1', '1', '1']])
    encoded = make_encoder(table, found, has_labels=True)(next(table.blocks()), np.arange(4))
    assert [str(error) for error in encoded.faults.values()] == ["a.csv: line 5: column when: '1.1.x' is not a date"]
    first, second, third = (records.decode(record) for record in encoded.examples.to_pylist())
    assert first['when'][1] == [0] and second['when'][1] == [366] and 'when' not in third
    names = ('year, sine', 'year, cosine', 'week, sine', 'week, cosine')
    turn = 2 * np.pi * (origin + 366) / np.array([365.2425, 7])
    expected = [np.sin(turn[0]), np.cos(turn[0]), np.sin(turn[1]), np.cos(turn[1])]
    np.testing.assert_allclose([second[f'when: {name}'][1][0] for name in names], expected, rtol=1e-5)
    assert [feature['name'] for feature in encoded_features(found)] == ['when', *(f'when: {name}' for name in names), 'y']


def test_vocabularies_are_files_of_an_export_one_for_each_of_few_columns_or_all_in_one(session):
    few = {'a/b': ['x', 'y'], 'A?b': ['z'], 'a%b': ['x', 'y'], 'none': [], 'tab': ['x\ty'], '\u00e9' * 99: ['1', 'e\u0301']}
    many = {f'c{i}': ['x', ' y'] for i in range(101)}
    with assets.written():
        found = column_ids(tf.constant([['y', 'z', 'x', '', 'x\ty', '\u00e9'], ['Y', 'x', 'z', 'a', 'x', '1.0']]), few)
        again = column_ids(tf.constant([['y', '', '', '', '', '']]), few)
        of_many = column_ids(tf.constant([['x'] * 51 + [' y'] * 50]), many)
        session.run(tf.tables_initializer())
        paths = {path.decode() for path in session.run(tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS))}
        contents = {os.path.basename(path): open(path, encoding='utf-8').read() for path in paths}
        assert session.run(found).tolist() == [[2, 1, 1, 0, 1, 2], [0, 0, 0, 0, 0, 1]]
        assert session.run(again).tolist() == [[2, 0, 0, 0, 0, 0]]
        assert session.run(of_many).tolist() == [[1] * 51 + [2] * 50]
    assert contents == {
        'a_b.txt': 'x\t1\ny\t2\n',
        'a_b_2.txt': 'z\t1\n',
        'a_b_3.txt': 'x\t1\ny\t2\n',
        'none.txt': '\t0\n',
        '\u00e9' * 50 + '.txt': '1\t1\ne\u0301\t2\n1.0\t1\n\u00e9\t2\n',
        'categories.txt': ''.join(f'{i} x\t1\n{i}  y\t2\n' for i in range(101)),
    }
    assert not assets.are_written()


def test_the_target_is_given_or_has_a_usual_name_and_a_wrong_schema_is_refused(table, tmp_path):
    several = ['x', 'Target', 'label']
    schema_of = functools.partial(Schema, COLUMNS, 's.json')
    for target, schema, message in (
        ('', {}, '--hparams=target=COLUMN is required: the columns of a.csv are: x, Target, label$'),
        ('z', {}, '--hparams=target: a.csv has no column z; its columns are: x, Target, label'),
        ('x', {'columns': {'lable': 'numeric'}}, 's.json: a.csv has no column lable, did you mean label'),
        ('x', {'weight': 'w'}, 's.json: a.csv has no column w'),
        ('x', {'columns': {'x': 'number'}}, 's.json: the column x is of kind number, but the kinds are: numeric, categorical,'),
        ('label', {'target': 'x'}, '--hparams=target=label: s.json names another target, x'),
        ('x', {'id': 'x'}, 's.json: target, id must be different columns'),
    ):
        assert re.search(message, refused(find_roles, schema_of(schema), several, 'a.csv', target))
    given = {'target': 'x', 'weight': 'label'}
    assert find_roles(schema_of(given), several, '') == find_roles(schema_of(given), several, '', 'x') == given
    assert find_roles(schema_of({}), several[:2], '') == {'target': 'Target'}
    for content, message in (
        ('{"colums": {}}', 's.json: unknown key colums, did you mean columns.*; the keys are: columns, target, id, weight,'),
        ('{"columns": []}', 's.json: columns must be an object'),
        ('{"target": {}}', 's.json: target must be a string'),
        ('{"task": "ranking"}', 's.json: task is ranking, but must be classification or regression'),
        ('{', '--hparams=schema: .*s.json: is not JSON'),
    ):
        (tmp_path / 's.json').write_text(content)
        assert re.search(message, refused(read_schema, str(tmp_path / 's.json'), COLUMNS))
    for count, end in ((50, 'c49$'), (51, r'c49, \.\.\.$')):
        with pytest.raises(UsageError, match=f'its columns are: c0, .*, {end}'):
            find_roles(schema_of({'id': 'x'}), [f'c{i}' for i in range(count)], 'a.csv')


def write_table(path, header, columns):
    """Returns a table of one block of columns of texts."""
    block = Block(Position(0, 2), [pa.array(column) for column in columns])
    return types.SimpleNamespace(path=path, header=header, unit='line', numbers=(), blocks=lambda: iter([block]))


def test_examples_are_serialized_as_protobuf_writes_them():
    texts = {'a' * 200: ['a', None, 'é' * 100, ''], 'ä': ['', None, 'b', 'c']}
    numbers = {'xx': [1.5, None, -3e38, 1 / 3], 'Z': [0.0, None, 2.0, None]}
    rows = [{name: values[i] for name, values in {**texts, **numbers}.items() if values[i] is not None} for i in range(4)]
    cells = {name: pa.array(['NA' if text is None else text for text in values]) for name, values in texts.items()}
    columns = {name: serialization.Texts(name, lambda cell: None if cell == 'NA' else cell)(cells[name]) for name in texts}
    columns |= {name: np.array(values, np.float64) for name, values in numbers.items()}
    assert serialization.serialize(columns).to_pylist() == [records.encode(row) for row in rows]


def test_entries_of_texts_do_not_depend_on_what_is_remembered(monkeypatch):
    monkeypatch.setattr(serialization, '_MAX_TEXTS', 4)
    read: list[str] = []
    texts = serialization.Texts('x', lambda cell: read.append(cell) or (None if cell == '' else cell.upper()))  # type: ignore[func-returns-value]
    for cells in (['a', 'b', 'a'], ['b', '', 'c'], ['d', 'a', 'e', 'd'], [], [*'fghijk'], ['f', 'g', 'a', 'a']):
        found = serialization.serialize({'x': texts(pa.array(cells, pa.string()))}).to_pylist()
        assert found == [records.encode({'x': cell.upper()} if cell else {}) for cell in cells]
    assert read == [*'ab', *['', 'c'], *'dae', *'fghijk', *'fga']  # No cell twice, unless there were too many.


def test_a_number_may_be_the_text_of_a_missing_cell():
    settings, cells = Settings(100, missing_values(['-99'])), ['1', '-99', '3']
    found = ColumnProfile(settings)
    found.update(pa.array(cells), lambda i: i, np.zeros(3, int))
    assert (found.num_present, found.num_missing, found.numbers.min) == (2, 1, 1)
    facts = {'columns': [{'name': 'x', 'kind': 'numeric'}], 'task': 'classification', 'missing': ['-99']}
    table = write_table('a.csv', ['x'], [cells])
    encoded = make_encoder(table, facts, False)(next(table.blocks()), np.arange(3))
    assert encoded.examples.to_pylist() == [records.encode(row) for row in ({'x': 1.0}, {}, {'x': 3.0})]


def test_numbers_by_type_have_decimal_points_whatever_the_training_data_has(tmp_path):
    (tmp_path / 'a.jsonl').write_text('{"x": 1.234, "s": "1.234"}\n{"x": 2, "s": "2,5"}\n')
    pyarrow.parquet.write_table(pa.table({'x': [1.234, 2], 's': ['1.234', '2,5']}), tmp_path / 'a.parquet')
    style = {'decimal': 'comma', 'affixes': ['', '€']}
    facts = {'columns': [{'name': name, 'kind': 'numeric', 'style': style} for name in 'xs'], 'task': 'classification'}
    for name in ('a.jsonl', 'a.parquet'):
        table = open_table(str(tmp_path / name))
        found = make_encoder(table, facts, False)(next(table.blocks()), np.arange(2))
        rows = [{'x': 1.234, 's': 1234.0}, {'x': 2.0, 's': 2.5}]
        assert found.examples.to_pylist() == [records.encode(row) for row in rows]
        settings = Settings(100, missing_values(), 'comma')
        kinds = dict.fromkeys('xs')
        columns = survey(table, SplitFile(table.path, ('train',)), 'train', kinds, (), (), settings, BadRows(1))[0]
        assert columns['x'].numbers.max == 2 and columns['s'].numbers.max == 1234


def test_a_row_becomes_an_example_of_its_existing_cells():
    columns = {'x': 'numeric', 'c': 'categorical', 'key': 'id', 'w': 'weight', 'y': 'target'}
    facts = {'columns': [{'name': name, 'kind': kind, 'vocabulary': ['é', 'True']} for name, kind in columns.items()]}
    facts |= {'task': 'classification', 'class_names': ['-1', '7']}
    header, styled = ['y', 'other', 'w', 'x', 'c', 'key'], {'name': 'x', 'kind': 'numeric', 'style': {'decimal': 'comma'}}

    def encoded(facts, *rows, header=header, has_labels=True):
        table = write_table('a.csv', header, list(zip(*rows)))
        found = make_encoder(table, facts, has_labels)(next(table.blocks()), np.arange(len(rows)))
        values = [
            {name: value[0] for name, (_, value) in records.decode(record).items()} for record in found.examples.to_pylist()
        ]
        return values, [str(error) for error in found.faults.values()]

    rows = (['7.0', '', '0', '1e1', 'TRUE', 'r'], ['-1', '', '2', 'NA', '?', ''], ['7', '', '1', '', 'e\u0301', ''])
    assert encoded(facts, *rows)[0] == [
        {'x': 10, 'c': b'True', 'key': b'r', 'w': 0, 'y': b'7'},
        {'w': 2, 'y': b'-1'},
        {'w': 1, 'y': b'7', 'c': 'é'.encode()},
    ]
    assert encoded(facts, ['x', '', '-1', '1', 'a', ''], has_labels=False)[0] == [{'x': 1, 'c': b'a'}]
    assert encoded(facts, ['a', ''], header=['c', 'x'])[0] == [{'c': b'a'}]
    numbers = {'columns': [styled, {'name': 'y', 'kind': 'target'}], 'task': 'regression', 'missing': ['none']}
    assert encoded(numbers, ['2.50', '', '1', '1.234,5', '', ''])[0] == [{'y': 2.5, 'x': 1234.5}]
    assert encoded(numbers, ['2.50', '', '1', 'none', '', ''])[0] == [{'y': 2.5}]
    wrong = (
        (['', '', '1', '', '', ''], 'column y: the target is missing'),
        (
            ['None', '', '1', '', '', ''],
            "column y: the target is missing: 'None' counts as missing; if it is a value, write another text",
        ),
        (['8', '', '1', '', '', ''], "column y: '8' is not one of the classes"),
        (['7', '', '', '', '', ''], 'column w: the weight is missing'),
        (['7', '', '-1', '', '', ''], 'column w: a weight must not be negative, but is -1'),
        (['7', '', '1', 'two', '', ''], "column x: 'two' is not a number"),
    )
    found, errors = encoded(facts, *(cells for cells, _ in wrong), ['7', '', '1', '2', '', ''])
    assert found == [{'w': 1, 'x': 2, 'y': b'7'}]
    assert errors == [f'a.csv: line {line}: {message}' for line, (_, message) in enumerate(wrong, 2)]
    table = write_table('a.csv', ['y'], [['7']])
    assert (
        refused(make_encoder, table, facts, False) == 'a.csv: has no column x, c, which the model requires; its columns are: y'
    )


def write(path, header, rows, delimiter=','):
    path.parent.mkdir(exist_ok=True)
    path.write_text('\n'.join([header, *(delimiter.join(map(str, row)) for row in rows)]) + '\n')
    return path


@pytest.fixture
def splits(tmp_path):
    """A directory with train.csv and eval.csv, whose numbers are known."""
    rows = [(1, 5, 'Rome', 'b'), (2, '', 'Rome', 'a'), (6, 7, 'Oslo', 'b'), (3, 'NA', 'Oslo', 'a'), (3, 9, 'Rome', 'a')]
    write(tmp_path / 'table' / 'train.csv', 'x,y,city,kind', rows)
    write(tmp_path / 'table' / 'eval.csv', 'city,kind,x,y', [('Oslo', 'a', 3, '?'), ('Bonn', 'c', '', 7)])
    return tmp_path / 'table'


@pytest.fixture
def prepared(tmp_path):
    return lambda path, *hparams: Prepared(dataset, tmp_path / 'data', f'table_file={path}', *hparams)


def test_tables_and_input_become_standardized_numbers_ids_and_labels(splits, tmp_path, prepared, caplog):
    caplog.set_level('INFO', 'tensorflow')
    found = prepared(splits, 'target=kind', 'min_count=1')
    columns = [
        {'name': 'x', 'kind': 'numeric', 'mean': 3, 'std': pytest.approx(((4 + 1 + 9) / 5) ** 0.5), 'indicator': False},
        {'name': 'y', 'kind': 'numeric', 'mean': 7, 'std': pytest.approx((8 / 3) ** 0.5), 'indicator': True},
        {'name': 'city', 'kind': 'categorical', 'vocabulary': ['Rome', 'Oslo']},
        {'name': 'kind', 'kind': 'target'},
    ]
    target = {'task': 'classification', 'class_names': ['a', 'b', 'c'], 'num_classes': 3}
    assert found.metadata == {**target, 'columns': columns, 'vocabulary_sizes': {'categorical': [3]}}
    unseen = 'the target kind: the split train has no example of the class c: it is not learned.'
    for line in (unseen, 'numeric: x, y\n', 'categorical: city\n', 'target: kind, classification\n'):
        assert f'train.csv: {line}' in caplog.text
    for limit in ('min_count=3', 'max_vocabulary=1'):
        assert prepared(splits, 'target=kind', limit).metadata['columns'][2]['vocabulary'] == ['Rome']
    assert f'table_file={splits}: there is no split no' in refused(found.read, 'no')
    assert found.source.is_parsed_once()
    features, labels = expected = found.read('eval')
    np.testing.assert_allclose(features['numeric'], [[0, 0, 1], [0, 0, 0]], atol=1e-6)
    numbers = sorted(found.read('train')[0]['numeric'][:, 0])
    np.testing.assert_allclose(numbers, np.array([-2, -1, 0, 0, 3]) / np.sqrt((4 + 1 + 9) / 5), rtol=1e-5)
    assert features['categorical'].tolist() == [[2], [0]]  # Rome is 1, Oslo 2; Bonn is only in eval.
    assert labels['label'].tolist() == [0, 2] and labels.keys() == {'label'}
    types = [features['numeric'].dtype, features['categorical'].dtype, labels['label'].dtype]
    assert types == [np.float32, np.int32, np.int32] and features.keys() == {'numeric', 'categorical'}
    inputs = shutil.copy(splits / 'eval.csv', tmp_path / 'input.csv')
    shutil.rmtree(splits)
    shutil.rmtree(tmp_path / 'data')  # Input is read by the metadata alone.
    features, errors = found.predict(inputs)
    assert not errors
    np.testing.assert_equal(features, expected[0])
    raw = {'x': [3, np.nan], 'y': [np.nan, 7], 'city': [' Oslo ', 'Bonn']}
    np.testing.assert_equal(prepare_raw(dataset, found.params, raw), features)
    path = write(tmp_path / 'input.csv', 'x;y;city', [(3, 7, 'Rome'), ('three', 7, 'Rome'), (1,), ('', '', '')], ';')
    features, errors = found.predict(path)
    assert features['categorical'].tolist() == [[1], [0]]
    wrong = {3: "column x: 'three' is not a number", 4: '1 cells, but the header has 3'}
    assert errors == {line: f'{path}: line {line}: {text}' for line, text in wrong.items()}


def test_a_file_with_few_of_the_columns_is_no_split(tmp_path, prepared, caplog):
    for name, header in (('train', 'x,z,y'), ('test', 'x,z'), ('sample_submission', 'id,y')):
        write(tmp_path / 'own' / f'{name}.csv', header, [(i % 7, i % 2, i % 2)[: len(header.split(','))] for i in range(40)])
    found = prepared(tmp_path / 'own', 'target=y')
    assert f'sample_submission.csv is ignored: it has few of the columns of {tmp_path}/own/train.csv' in caplog.text
    assert len(found.read('test', PREDICT)['numeric']) == 40
    message = refused(found.read, 'eval')
    assert (
        f'no split eval: the splits are: sample_submission, test, train: add eval.csv, give {tmp_path}/own/train.csv' in message
    )


def test_a_split_to_predict_may_have_a_target_without_values(tmp_path, prepared, caplog):
    for name, target in (('train', 'ab'), ('eval', 'ba'), ('test', ['', 'NA']), ('few', ['', 'a'])):
        rows = [(i % 7, target[i % 2]) for i in range(40)]
        write(tmp_path / 'own' / f'{name}.csv', 'x,y', rows if name != 'few' else rows[1::2])
    found = prepared(tmp_path / 'own', 'target=y')
    assert f'{tmp_path}/own/test.csv: no row has a target: the split can be predicted, but not evaluated.' in caplog.text
    assert caplog.text.count('no row has a target') == 1
    mean, std = np.mean([i % 7 for i in range(40)]), np.std([i % 7 for i in range(40)])
    expected = [(i % 7 - mean) / std for i in range(40)]
    np.testing.assert_allclose(found.read('test', PREDICT)['numeric'][:, 0], expected, rtol=1e-5)
    assert found.places('test') == [{'file': f'{tmp_path}/own/test.csv', 'line': i + 2} for i in range(40)]
    write(tmp_path / 'own' / 'few.csv', 'x,y', [(1, ''), (2, 'a')])
    assert 'few.csv: line 2: column y: the target is missing' in failed(prepared, tmp_path / 'own', 'target=y')
    (tmp_path / 'own' / 'few.csv').unlink()
    write(tmp_path / 'own' / 'eval.csv', 'x,y', [(1, ''), (2, '')])
    assert 'eval.csv: line 2: column y: the target is missing' in failed(prepared, tmp_path / 'own', 'target=y')


def test_values_spelled_otherwise_than_in_training_raise_an_alarm(tmp_path, prepared, caplog):
    write(tmp_path / 'own' / 'train.csv', 'state,y', [(('Bayern', 'Hessen')[i % 2], i % 3 % 2) for i in range(40)])
    path = write(tmp_path / 'own' / 'eval.csv', 'state,y', [(('BY', 'HE', 'Hessen')[i % 3], i % 2) for i in range(12)])
    found = prepared(tmp_path / 'own', 'target=y')
    unknown = f'{path}: 66 % of the values of column state are unknown: the training data has Bayern, Hessen, here are BY, HE'
    assert caplog.text.count(unknown) == 1
    found.predict(path)
    assert caplog.text.count(unknown) == 2


def test_a_schema_gives_the_id_the_weight_and_the_task(tmp_path, prepared):
    path = write(tmp_path / 'a.csv', 'row,zip,note,w,income', [(f'r{i}', i % 4, 'n', i % 3 / 2, i % 2) for i in range(80)])
    kinds = {'zip': 'categorical', 'note': 'ignore'}
    given = make_schema(tmp_path, columns=kinds, target='income', task='regression', id='row', weight='w')
    features, labels = prepared(path, given, 'eval_share=0', 'max_vocabulary=3').read('train')
    assert features.keys() == {'categorical', 'example_id'} and labels.keys() == {'label', 'weight'}
    i = np.array([int(name[1:]) for name in features['example_id']])
    assert sorted(i) == list(range(80)) and labels['label'].dtype == labels['weight'].dtype == np.float32
    np.testing.assert_array_equal(labels['label'], i % 2)
    np.testing.assert_array_equal(labels['weight'], i % 3 / 2)
    np.testing.assert_array_equal(features['categorical'][:, 0], np.where(i % 4 == 3, 0, i % 4 + 1))


def test_sound_rows_of_a_file_are_trained_on_or_held_out(tmp_path, prepared, caplog):
    write(path := tmp_path / 'a.csv', 'x,y', [(i, i % 2, 3) if i == 7 else (i, i % 2) for i in range(100)])
    found = prepared(path, 'target=y', 'max_bad_share=0.01')
    x = found.metadata['columns'][0]
    numbers = [np.rint(found.read(split)[0]['numeric'][:, 0] * x['std'] + x['mean']).astype(int) for split in ('train', 'eval')]
    assert sorted(np.concatenate(numbers)) == [i for i in range(100) if i != 7] and 5 < len(numbers[1]) < 40
    assert x['mean'] == pytest.approx(numbers[0].mean())
    lines = [[place['line'] for place in found.places(split)] for split in ('train', 'eval')]  # Row i is line i + 2.
    assert lines == [(array + 2).tolist() for array in numbers]
    assert '1 of 100 rows are skipped; the first:' in caplog.text and 'line 9: 3 cells' in caplog.text
    for name, rows in (('train.csv', [(1, 0), (2, 1)]), ('eval.csv', [])):
        write(tmp_path / 'empty' / name, 'x,y', rows)
    assert 'empty/eval.csv: has no row for the split eval' in failed(prepared, tmp_path / 'empty', 'target=y')


def checksum(row):
    return int.from_bytes(hashlib.blake2b(row.to_bytes(8, 'little'), digest_size=8).digest(), 'little')


def test_names_are_the_same_in_both_forms_of_unicode_and_zero_is_one_value(tmp_path, prepared, session):
    write(tmp_path / 'a.csv', 'x,Gro\u0308\u00dfe', [(i, ('0', '-0', '-0.0', '1')[i % 4]) for i in range(40)])
    found = prepared(tmp_path / 'a.csv', 'target=Gr\u00f6\u00dfe')
    assert found.metadata['class_names'] == ['0', '1'] and found.metadata['columns'][-1]['name'] == 'Gr\u00f6\u00dfe'
    write(tmp_path / 'new.csv', 'Gro\u0308\u00dfe,x', [('-0.0', 3), ('1.0', 4)])
    (_, labels), errors = found.read_labeled(tmp_path / 'new.csv')
    assert labels['label'].tolist() == [0, 1] and not errors
    values = tf.constant([['1', '-0'], ['1.00', '-0.0'], ['1.0', '0.0'], ['1.000', '0.00'], ['', '-1']])
    ids = column_ids(values, {'tag': ['1', '1.00'], 'a': ['1', '0']})
    session.run(tf.tables_initializer())
    assert session.run(ids).tolist() == [[1, 2], [2, 2], [1, 2], [0, 2], [0, 0]]


def test_files_of_every_format_may_name_columns_in_either_form_of_unicode(tmp_path):
    apart, columns = unicodedata.normalize('NFD', 'Größe'), {'x': [1.5, 2.5], 'Größe': [0, 1]}
    written = pa.table({'x': columns['x'], apart: columns['Größe']})
    pyarrow.parquet.write_table(written, tmp_path / 'a.parquet')
    pyarrow.feather.write_feather(written, str(tmp_path / 'a.feather'))
    (tmp_path / 'a.csv').write_text(f'x,{apart}\n1.5,0\n2.5,1\n')
    (tmp_path / 'a.jsonl').write_text(f'{{"x": 1.5, "{apart}": 0}}\n{{"x": 2.5, "{apart}": 1}}\n')
    for kind in ('csv', 'parquet', 'feather', 'jsonl'):
        opened = open_table(str(tmp_path / f'a.{kind}'), ['Größe'])
        assert opened.header == ['x', 'Größe'] and 'x' in (opened.numbers or 'x')
        assert [column.to_pylist() for column in next(iter(opened.blocks())).columns] == [['1.5', '2.5'], ['0', '1']]
    (tmp_path / 'b.jsonl').write_text(f'{{"Größe": 1.5, "{apart}": 0}}\n')
    with pytest.raises(RunError, match='b.jsonl: the file names two columns Größe: rename one'):
        open_table(str(tmp_path / 'b.jsonl'), ['Größe'])


@pytest.mark.parametrize('kind', ['words', 'bytes'])
def test_free_texts_and_categories_of_programs_have_either_form_of_unicode_as_files_have(tmp_path, prepared, kind):
    words = ['schöner', 'süßer', 'übler', 'großer']
    rows = [(f'ein {words[i % 4]} Film {i}', ('Zürich', 'Ångström')[i % 2], i % 2) for i in range(60)]
    write(tmp_path / 'a.csv', 'text,city,y', rows)
    found = prepared(tmp_path / 'a.csv', 'target=y', f'tokens={kind}')
    given = {'text': ['ein süßer Film', 'ein übler Film'], 'city': ['Zürich', 'Ångström']}
    apart = {name: [unicodedata.normalize('NFD', value) for value in values] for name, values in given.items()}
    apart['city'][1] = '\u212bngstro\u0308m'  # The sign of the unit, and an accent apart.
    write(tmp_path / 'new.csv', 'text,city', [*zip(*given.values()), *zip(*apart.values())])
    features, errors = found.predict(tmp_path / 'new.csv')
    assert not errors
    for name in ('text', 'categorical'):
        assert features[name][2:].tolist() == features[name][:2].tolist() and (features[name] > 0).any()
    assert (features['categorical'] > 0).all()
    batch, _ = make_batch(apart, dataset.raw_specs(found.params), dataset.cell_readers(found.params))
    made = prepare_raw(dataset, found.params, batch)
    for name in ('text', 'categorical'):
        assert made[name].tolist() == features[name][:2].tolist()
    if kind == 'bytes':
        with pytest.raises(tf.errors.InvalidArgumentError, match='not in the composed form of Unicode, NFC'):
            prepare_raw(dataset, found.params, apart)
        example = {'text': apart['text'][0], 'city': 'Zürich'}
        with pytest.raises(tf.errors.InvalidArgumentError, match='not in the composed form of Unicode, NFC'):
            parse(dataset, found.params, [records.encode(example)], PREDICT)


def test_infinite_numbers_of_serialized_examples_are_refused_and_count_as_missing_where_no_graph_can_refuse(tmp_path, prepared):
    write(tmp_path / 'a.csv', 'x,y', [('' if i % 5 == 0 else i, i % 2) for i in range(40)])
    found = prepared(tmp_path / 'a.csv', 'target=y')
    with pytest.raises(tf.errors.InvalidArgumentError, match='infinite, where NaN is missing, are the inputs'):
        parse(dataset, found.params, [records.encode({'x': np.inf})], PREDICT)
    examples = [records.encode({**x, 'y': '1'}) for x in ({'x': np.inf}, {'x': -np.inf}, {}, {'x': 3.0})]
    features, _ = parse(dataset, found.params, examples)
    assert features['numeric'][:3].tolist() == [[0, 1]] * 3 and features['numeric'][3, 1] == 0


def test_the_summary_counts_a_class_in_all_of_its_spellings_and_names_constants(tmp_path, prepared):
    held_out = [row for row in range(40) if checksum(row) < 0.2 * 2**64]
    cells = ['no' if i % 4 == 0 else 'TRUE' if i in held_out or i % 2 else 'True' for i in range(40)]
    write(tmp_path / 'a.csv', 'x,c,y', [(i, 7, cell) for i, cell in enumerate(cells)])
    found = prepared(tmp_path / 'a.csv', 'target=y')
    summary = dataset.summary(str(tmp_path / 'data'), found.params)
    share = 100 * np.mean([cells[i] == 'no' for i in range(40) if i not in held_out])
    assert f'2 classes: TRUE {100 - share:.3g} %, no {share:.3g} %' in summary
    assert 'always 7' in summary


def test_each_class_of_two_rows_is_trained_on_and_held_out_and_no_other_row_moves(tmp_path, prepared, caplog):
    caplog.set_level('INFO', 'tensorflow')
    held_out = [row for row in range(60) if checksum(row) < 0.2 * 2**64]
    kept = [row for row in range(60) if row not in held_out]
    rows = ['common'] * 60
    for name, numbers in {'TRUE': kept[3:7], 'True': kept[7:8], 'rare': held_out[:3], 'single': kept[8:9]}.items():
        for number in numbers:
            rows[number] = name
    expected = {min(kept[3:8], key=checksum), max(held_out[:3], key=checksum)}
    write(path := tmp_path / 'a.csv', 'x,y', [*enumerate(rows)])
    found = prepared(path, 'target=y')
    assert found.metadata['moved_rows'] == sorted(expected)
    assert f'{path}: 2 rows are moved, so that each class is in both of train and eval.' in caplog.messages
    in_eval = sorted({*held_out} ^ expected)
    assert [place['line'] - 2 for place in found.places('eval')] == in_eval
    names = found.metadata['class_names']
    labels = found.read('eval')[1]['label'].tolist()
    assert [names[label] for label in labels] == [rows[row].replace('True', 'TRUE') for row in in_eval]
    mean = np.mean([row for row in range(60) if row not in in_eval])
    assert found.metadata['columns'][0]['mean'] == pytest.approx(mean)

    older = {name: value for name, value in found.metadata.items() if name != 'moved_rows'}
    again = found.prepared_with(older)  # As a run that began before resumes.
    assert [place['line'] - 2 for place in again.places('eval')] == held_out
    assert 'moved_rows' not in again.source.metadata() and 'moved_rows' in found.source.metadata()
    amounts = prepared(path, 'target=x')
    assert amounts.metadata['task'] == 'regression' and amounts.metadata['moved_rows'] == []


@pytest.mark.parametrize('is_moved_before', [False, True])
def test_the_rows_that_move_are_those_of_the_file_as_it_is_whichever_run_converts_it(tmp_path, prepared, is_moved_before):
    held_out = [row for row in range(60) if checksum(row) < 0.2 * 2**64]
    before, after = held_out[:3] if is_moved_before else range(0, 60, 2), held_out[-3:]
    path = tmp_path / 'a.csv'

    def write_classes(numbers):
        write(path, 'x,y', [(i, 'yes' if i in numbers else 'no') for i in range(60)])

    write_classes(before)
    trained = prepared(path, 'target=y')
    assert trained.metadata['moved_rows'] == ([max(before, key=checksum)] if is_moved_before else [])
    write_classes(after)
    again = trained.prepared_with(trained.metadata)
    moved = max(after, key=checksum)
    in_eval = sorted({*held_out} ^ {moved})
    assert [place['line'] - 2 for place in again.places('eval')] == in_eval
    assert again.read('eval')[1]['label'].tolist() == [row in after for row in in_eval]
    new = prepared(path, 'target=y')
    assert new.metadata['moved_rows'] == [moved] and new.metadata == again.source.metadata()


def test_any_change_converts_anew(splits, tmp_path, prepared, caplog):
    def count(*hparams):
        prepared(splits, *hparams)
        return len(os.listdir(tmp_path / 'data'))

    caplog.set_level('INFO', 'tensorflow')
    assert count('target=kind') == count('target=kind') == 1
    (first,) = os.listdir(tmp_path / 'data')
    changes = ('eval_share=0.1', 'min_count=1', 'max_vocabulary=9', 'max_bad_share=0.1', 'train_split=eval')
    assert [count('target=kind', change) for change in changes] == [2, 3, 4, 5, 6]
    assert [count('target=city'), count(make_schema(tmp_path, target='kind'))] == [7, 8]
    assert 'can be deleted' not in caplog.text
    for number, name in enumerate(('eval.csv', 'train.csv'), 9):
        os.utime(splits / name, (1, 1))
        assert count('target=kind') == number
    lines = [record.getMessage() for record in caplog.records if 'can be deleted' in record.getMessage()]
    assert [line.count(f'{tmp_path}/data/table-') for line in lines] == [1, 2]
    assert lines[0].startswith(f'{splits}: earlier conversions, ') and lines[0].endswith(f' them: {tmp_path}/data/{first}')
    for wrong in ('eval_share=0.91', 'max_bad_share=1.1', 'min_count=0', 'max_vocabulary=0'):
        assert f'{wrong} must be' in refused(prepared, splits, 'target=kind', wrong)
    assert 'there is no split fold3' in refused(prepared, splits, 'target=kind', 'train_split=fold3')


def test_data_with_other_columns_than_in_training_is_rejected(tmp_path, prepared):
    path = tmp_path / 'a.csv'
    trained = prepared(write(path, 'x,kind', [(i % 7, 'ab'[i % 2]) for i in range(60)]), 'target=kind').metadata
    for header, message in (('x,kind', 'is categorical now'), ('z,kind', 'is missing now')):
        other = prepared(write(path, header, [('cde'[i % 3], 'ab'[i % 2]) for i in range(60)]), 'target=kind')
        with pytest.raises(UsageError, match=f'{path}: the column x, on which the model was trained as numeric, {message}'):
            dataset.read('eval', str(tmp_path / 'data'), build.HParams(other.params, trained))


def test_reading_a_table_reads_no_hyper_parameters_of_the_training(tmp_path, prepared):
    path = tmp_path / 'a.csv'
    write(path, 'x,kind', [(i % 7, 'ab'[i % 2]) for i in range(60)])
    source = prepared(path, 'target=kind').source
    source.metadata()
    source.read('train')
    assert {'table_file', 'target'} <= source.names_read  # Others given without effect are refused by name.
    assert not source.names_read & {'swa_every', 'rmsprop_decay', 'learning_rate'}


def test_a_trained_model_has_its_table_read_as_it_learned_to(tmp_path, prepared, caplog):
    path = tmp_path / 'a.csv'
    rows = [(i % 7, f'2024-01-{i % 9 + 1:02}', f'{i % 5} kg', i, 'ab'[i % 2]) for i in range(60)]
    write(path, 'x,day,mass,id,kind', rows)
    schema = make_schema(tmp_path, columns={'day': 'categorical', 'mass': 'categorical'})
    learned = prepared(path, 'target=kind', schema)
    shutil.rmtree(tmp_path / 'data')
    params = build.make_hparams('m', {}, 'table', dataset.get_params(), text=f'table_file={path},target=kind')
    source = DataSource(dataset, str(tmp_path / 'data'), params)
    saved = saved_dataset.SavedDataset(learned.metadata, None, None, None)
    for _ in range(2):  # Converted, and reused.
        caplog.clear()
        found = saved_dataset.prepare(source, saved, trains=True)
        assert [record.getMessage() for record in caplog.records if record.levelname == 'WARNING'] == [
            f'{path}: a new run would read other columns, or some as other kinds; this run reads them as the model learned to.'
        ]
        assert found.params.metadata == learned.metadata
        for split in ('train', 'eval'):
            of_run, of_model = (each.read(split) for each in (Prepared.of(found), learned))
            np.testing.assert_equal(of_run, of_model)
    assert ''.join(found.summary().split()).count('categorical') == 2
    write(path, 'x,day,mass,id,kind', [(8, *rest) for _, *rest in rows[:59]])
    with pytest.raises(
        RunError,
        match=r'what is known of its columns \(kinds, means and values\) differs from that of the data',
    ):
        saved_dataset.prepare(source, saved, trains=True)
    write(path, 'x,day,id,kind', [(x, day, i, kind) for x, day, _, i, kind in rows])
    with pytest.raises(UsageError, match=f'the columns of the trained model: {path} has no column mass'):
        saved_dataset.prepare(source, saved, trains=True)


def test_dates_of_other_data_are_as_far_from_those_of_training_as_they_are(tmp_path, prepared):
    (tmp_path / 'parts').mkdir()

    def rewrite(first, of_test):
        days = np.datetime64('2023-01-01') + np.arange(first, first + 400)
        write(tmp_path / 'parts' / 'train.csv', 'day,y', [(day, i % 2) for i, day in enumerate(days)])
        write(tmp_path / 'parts' / 'test.csv', 'day,y', [(np.datetime64('2023-01-01') + of_test, 1)])

    rewrite(0, 10)
    learned = prepared(tmp_path / 'parts', 'target=y')
    rewrite(365, 400)
    found = learned.prepared_with(learned.metadata)
    std = np.arange(400).std()
    for features in (found.read('test')[0], learned.predict(tmp_path / 'parts' / 'test.csv')[0]):
        np.testing.assert_allclose(features['numeric'][0, 0], (400 - np.arange(400).mean()) / std, rtol=1e-5)
    np.testing.assert_equal(found.read('test')[0]['numeric'], learned.predict(tmp_path / 'parts' / 'test.csv')[0]['numeric'])
    assert prepared(tmp_path / 'parts', 'target=y').metadata['columns'][0]['origin'] == 365 + 19358  # Of 2023-01-01.


def test_a_column_of_dates_without_one_in_training_is_refused(facts):
    rows = [('', i, i % 2) for i in range(20)]
    message = refused(facts, 'day,x,y', rows, {'columns': {'day': 'date'}})
    assert 'a.csv: column day has no dates in the rows that are trained on: give the kind ignore in' in message


def test_the_users_own_texts_of_missing_cells_are_no_unknown_categories(tmp_path, prepared, caplog):
    rows = [(('Rome', 'Oslo', 'unknown')[i % 3], i % 2) for i in range(60)]
    found = prepared(write(tmp_path / 'a.csv', 'city,y', rows), 'target=y', 'missing=[unknown]')
    caplog.clear()
    write(tmp_path / 'new.csv', 'city', [('unknown',)] * 6 + [('Rome',)] * 4)
    assert not found.predict(tmp_path / 'new.csv')[1] and 'are unknown' not in caplog.text
    write(tmp_path / 'new.csv', 'city', [('ROM',)] * 6 + [('Rome',)] * 4)
    assert not found.predict(tmp_path / 'new.csv')[1] and '60 % of the values of column city are unknown' in caplog.text


def test_a_trained_model_whose_table_is_read_alike_today_shares_the_conversion_of_new_runs(tmp_path, prepared, caplog):
    path = write(tmp_path / 'a.csv', 'x,id,kind', [(i % 7, i, 'ab'[i % 2]) for i in range(60)])
    learned = prepared(path, 'target=kind')
    for is_kept in (True, False):
        if not is_kept:
            shutil.rmtree(tmp_path / 'data')
        saved = saved_dataset.SavedDataset(learned.metadata, None, None, None)
        source = DataSource(dataset, str(tmp_path / 'data'), build.HParams(learned.params))
        assert saved_dataset.prepare(source, saved, trains=True).params.metadata == learned.metadata
        assert len(os.listdir(tmp_path / 'data')) == 1
    prepared(path, 'target=kind')
    assert len(os.listdir(tmp_path / 'data')) == 1 and 'WARNING' not in caplog.text


def test_warnings_of_a_conversion_are_said_again_when_it_is_used_again(tmp_path, prepared, caplog):
    rows = [(f'{i % 9} kg', ('n/v' if i == 5 else i % 4), 'ab'[i % 2]) for i in range(60)]
    path = write(tmp_path / 'a.csv', 'mass,number,kind', [*rows, ('1 kg', 2)])
    said = []
    for _ in range(3):
        caplog.clear()
        prepared(path, 'target=kind', 'max_bad_share=0.1')
        said.append([record.getMessage() for record in caplog.records if record.levelname == 'WARNING'])
    assert said[0] == said[1] == said[2]
    assert [
        any(text in line for line in said[0]) for text in ('read as numbers', "'n/v' is not a number", 'rows are skipped')
    ] == 3 * [True]


def test_a_process_whose_data_another_one_converts_meanwhile_keeps_the_warnings_of_both(tmp_path, caplog):
    for texts in (['of columns', 'of rows'], ['of columns']):
        conversions.once(str(tmp_path / 'warnings.json'), False, lambda texts=texts: [*map(tf.logging.warning, texts)])
    caplog.clear()
    conversions.once(str(tmp_path / 'warnings.json'), True, lambda: None)
    assert caplog.messages == ['of columns', 'of rows']


def test_facts_about_records_that_are_gone_or_broken_are_named_with_the_cure(splits, tmp_path, prepared):
    found = prepared(splits, 'target=kind')
    (path,) = (tmp_path / 'data').glob('*/metadata.json')
    for spoil, problem in ((lambda: path.write_text('{'), 'is not JSON'), (path.unlink, 'cannot be read')):
        spoil()
        wanted = f'{path}: {problem}.*: delete {path.parent} to convert the data again'
        assert re.fullmatch(wanted, failed(found.source.metadata))


def test_csv_is_another_name_of_table(splits, tmp_path):
    found = Prepared(csv, tmp_path / 'data', f'csv_file={splits}', 'target=kind')
    assert found.metadata == Prepared(dataset, tmp_path / 'data', f'table_file={splits}', 'target=kind').metadata
    assert csv.input_parts is dataset.input_parts
    assert 'csv_file=' in refused(found.read, 'no') and len(os.listdir(tmp_path / 'data')) == 1
    names = [
        name
        for name in dir(dataset)
        if callable(getattr(dataset, name)) and getattr(dataset, name).__module__ == dataset.__name__
    ]
    assert {name for name in names if not name.startswith('_')} <= {*vars(csv)}


def test_the_summary_says_what_is_in_each_column_and_what_was_decided(tmp_path, prepared):
    rows = [
        (f'r{i}', '' if i % 4 == 0 else f'"{i},5"', 'ab'[i % 4 == 0], '', f'{1 + i % 28}.2.2023', i, ('no', 'yes')[i % 5 == 0])
        for i in range(40)
    ]
    path = write(tmp_path / 'a.csv', 'id,x,c,empty,day,Unnamed: 0,y', rows)
    found = prepared(path, 'target=y', 'eval_share=0')
    assert dataset.summary(str(tmp_path / 'data'), found.params).splitlines() == [
        f'{path}: rows with a target: 40 in train',
        'column  kind         missing  values',
        'id      id                    a different value in each row',
        'x       numeric      25.0 %   1.5 to 39.5, mean 20.5, as in 1,5',
        'c       categorical           2 values: a 75 %, b 25 %',
        'empty   ignored      100.0 %  it is empty',
        'day     date                  2023-02-01 to 2023-02-28, dmy: position in time, place in the week',
        'y       target                2 classes: no 80 %, yes 20 %',
        'To read a column otherwise, give its kind in --hparams=schema=FILE.',
    ]


def test_a_model_learns_numbers_and_is_used_on_other_data(run, tmp_path):
    rows = [(i % 50, 'ab'[i % 2], 3 * (i % 50) + 100 * (i % 2) + 0.5) for i in range(300)]
    path = write(tmp_path / 'lines.csv', 'x,class,target', rows)
    flags = ('--model=mlp', '--dataset=csv', f'--data_dir={tmp_path}/data', '--train_steps=150')
    hparams = f'--hparams=csv_file={path},hidden_units=[16],learning_rate=0.02,batch_size=32'
    code, result, _ = run(*flags, hparams)
    assert code == 0 and result['eval']['mean_absolute_error'] < 15
    described = run(*flags, hparams, '--schedule=describe', output_dir=tmp_path / 'unused')
    text = (tmp_path / 'output' / 'data_summary.txt').read_text()
    assert (
        described[0] == 0
        and described[1].startswith(text.rstrip())
        and 'x       numeric' in text
        and not (tmp_path / 'unused').exists()
    )
    new, saved = write(tmp_path / 'new.csv', 'x,class', [(40, 'b'), (10, 'a')]), f'{tmp_path}/output/hparams.json'
    code, _, err = run(*flags, hparams.replace('lines', 'new'), '--schedule=evaluate')
    assert code == 2 and f'{saved}: csv_file was "{path}", now it is "{new}": omit what differs to use' in err
    assert 'other data can be predicted, with --input=FILES, and evaluated, with --eval_splits=test, if it is the split' in err
    assert run(*flags, '--schedule=evaluate')[1]['eval'] == result['eval']
    shutil.rmtree(tmp_path / 'data')
    path.unlink()
    assert run(*flags, f'--hparams_set={saved}', '--schedule=predict', f'--input={new}')[0] == 0
    expected = [row['value'] for row in predicted(tmp_path / 'output')]
    np.testing.assert_allclose(expected, [220.5, 30.5], atol=40)
    loaded = api.load(tmp_path / 'output')
    for rows in ([[40, 'b'], [10, 'a']], {'class': ['b', 'a'], 'x': ['40', 10]}):
        np.testing.assert_allclose(loaded.predict(rows)['value'], expected, rtol=1e-5)
    assert loaded.predict({'x': 10, 'class': 'a'})['value'] == pytest.approx(expected[1], rel=1e-5)
    labeled, metrics = write(tmp_path / 'labeled.csv', 'target,x,class', [(200, 40, 'b'), (50, 10, 'a')]), tmp_path / 'output'
    before = (metrics / 'metrics.csv').read_text(), sorted(path.name for path in metrics.iterdir())
    code, result, _ = run(*flags, '--schedule=evaluate', f'--input={labeled}')
    assert code == 0 and result.keys() == {'global_step', 'input'} and result['global_step'] == 150
    errors = np.abs(np.subtract(expected, [200, 50]))
    found = [result['input'][name] for name in ('mean_absolute_error', 'rmse')]
    np.testing.assert_allclose(found, [errors.mean(), np.sqrt(np.square(errors).mean())], rtol=1e-4)
    assert loaded.evaluate_files(labeled) == {'global_step': 150, **result['input']}
    assert before == ((metrics / 'metrics.csv').read_text(), sorted(path.name for path in metrics.iterdir()))
    code, _, err = run(*flags, '--schedule=evaluate', f'--input={new}')
    assert code == 2 and err.splitlines()[-1] == f'trainer.py: {new}: has no column target, which evaluation requires'
    write(labeled, 'x,class,target', [(4, 'b', '')])
    code, _, err = run(*flags, '--schedule=evaluate', f'--input={labeled}')
    problem = 'line 2: column target: the target is missing: correct it, or leave it out'
    assert code == 1 and err.splitlines()[-1] == f'trainer.py: {labeled}: {problem}'
    code, result, err = run(*flags, '--schedule=export')
    assert code == 0 and 'tf.saved_model.load of recent TensorFlow makes Python names of inputs, which fails for class: ' in err
    found = serve(result['export'], 'serving_default', {'x': [40, 10], 'class': ['b', 'a']})
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    examples = [records.encode({'x': 40.0, 'class': 'b'}), records.encode({'x': 10.0, 'class': 'a'})]
    found = serve(result['export'], 'examples:serving_default', {'examples': examples})
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    'parts, is_constant, is_exact',
    [
        ([[0.7] * 3] * 3, True, True),  # Rounding gives equal numbers a spread of 1e-16.
        ([[]], True, True),
        ([[float('nan')]], True, True),
        ([[0.7], [0.8]], False, True),
        ([[1.7e9], [1.7e9 + 60]], False, False),
        ([[[0.7, 1.0]] * 3, [[0.7, 2.0]]], False, True),
    ],
)
def test_equal_numbers_are_constant_and_those_too_close_for_float32_are_told(parts, is_constant, is_exact):
    moments = Moments()
    for part in parts:
        moments.update(part)
    assert (moments.is_constant, moments.is_exact_in_float32) == (is_constant, is_exact)
