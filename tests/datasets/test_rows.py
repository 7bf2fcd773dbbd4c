"""Rows of a user's own text files: lines, cells, numbers in cells, and the splits that rows belong to."""

import functools

import tf_estimator  # noqa: F401 - before TensorFlow

import pytest

from common.errors import RunError, UsageError
from common.formats.delimited import Table, is_almost_number, to_integer_text, to_number
from common.formats.lines import Lines, Position
from common.formats.splits import file_of, find_files, fingerprint, splits_of


@pytest.fixture
def table(tmp_path):
    def make(content):
        (tmp_path / 'a.csv').write_bytes(content if isinstance(content, bytes) else content.encode())
        return Table(str(tmp_path / 'a.csv'))

    return make


def test_lines_are_read_from_any_place_on(tmp_path):
    long = [letter * 700_000 for letter in 'abcd']  # Longer than the blocks that are read.
    (tmp_path / 'a').write_bytes(b'\xef\xbb\xbf' + '\n'.join(['ü', *long, '\r', 'end']).encode())
    lines, found, positions = Lines(str(tmp_path / 'a')), [], []
    while (line := next(lines, None)) is not None:
        found.append(line)
        positions.append(Position(lines.offset, lines.number))
    assert found == ['ü\n', *(f'{line}\n' for line in long), '\r\n', 'end'] and lines.is_utf8
    assert positions[0] == Position(3 + 3, 2) and positions[-1].line == 8
    assert list(Lines(str(tmp_path / 'a'), positions[2])) == found[3:]
    (tmp_path / 'a').write_bytes(b'x\n' + bytes(17 << 20))
    with pytest.raises(RunError, match='/a: line 2 is longer than 16 MiB: is this a text file'):
        list(Lines(str(tmp_path / 'a')))
    with pytest.raises(UsageError, match='/no/such: cannot be read: .*'):
        list(Lines('/no/such'))


def test_the_delimiter_is_that_of_the_header(table):
    for delimiter, name in ((',', 'a;b,c|d'), (';', 'a,b'), ('\t', 'a;b,c|d'), ('|', 'a;b,c|d')):
        found = table(f'\n\nx{delimiter}"{name}"{delimiter}\n1{delimiter} 2 {delimiter}"3,4"\n')
        assert found.header == ['x', name, ''] and [row.value for row in found.rows()] == [['1', '2', '3,4']]


def test_quoted_cells_may_contain_delimiters_quotes_and_line_breaks(table):
    found = table(b'\xef\xbb\xbfx,text,y\r\n' + b''.join(b'%d,"a, ""b""\r\nc %d",0\r\n\r\n' % (i, i) for i in range(99)))
    assert found.header == ['x', 'text', 'y']  # Without the byte order mark.
    rows = list(found.rows())
    assert [row.value for row in rows] == [[f'{i}', f'a, "b"\r\nc {i}', '0'] for i in range(99)]
    assert [row.position.row for row in rows] == [*range(99)] and rows[9].position.line == 2 + 9 * 3
    assert list(found.rows(rows[50].position)) == rows[50:]


def test_a_wrong_row_is_named_by_its_line_and_hides_no_other(table):
    for content, expected in (
        ('1,2,3\n1,0\n', ['line 2: 3 cells, but the header has 2', ['1', '0']]),
        ('1,0\n\n2\n1,1\n', [['1', '0'], 'line 4: 1 cells, but the header has 2', ['1', '1']]),
        ('1,0\n"2,1\n3,0\n', [['1', '0'], 'line 3: a quoted cell does not end: is a quote missing?', ['3', '0']]),
        ('"2"2,1\n3,0\n', ["line 2: ',' expected after '\"': a quote within a quoted cell must be doubled", ['3', '0']]),
        ('a "b" c"d,1\n"open, 0\n3,"4"\n', [['a "b" c"d', '1'], "line 3: ',' expected after", ['3', '4']]),
        ('\xff,1\nü,1\n', ['line 2: is not UTF-8', ['ü', '1']]),
        (f'"{"a" * 131073}",1\n{"b" * 131072},2\n', ['line 2: a cell is longer than 131072 characters:', ['b' * 131072, '2']]),
        ('1,0\r2,1\r', ['line 2: contains a carriage return outside of quotes: lines must end with LF or CR LF']),
    ):
        found = [row.value for row in table(b'x,y\n' + content.encode().replace('\xff'.encode(), b'\xff')).rows()]
        for value, wanted in zip(found, expected, strict=True):
            assert value == wanted or f'/a.csv: {wanted}' in str(value) and '\n' not in str(value)


def test_a_wrong_header_is_refused(table):
    for content, message in (
        ('', 'is empty: the first line must name the columns'),
        ('x,x\n', 'line 1 names two columns x: rename one'),
        ('1,2,\n', 'line 1 must name the columns, but contains 1,2'),
        ('x,"y\n', 'line 1: a quoted cell does not end'),
        ('x,y\n1,a\n'.encode('utf-16-le'), 'line 1 contains NUL characters, as UTF-16 does: save the file as UTF-8'),
    ):
        with pytest.raises(RunError, match=f'a.csv: {message}'):
            table(content)


def test_numbers_are_those_of_float32():
    for cell, number, integer in (
        ('1.5', 1.5, '1.5'),
        ('-1.0', -1, '-1'),
        ('+007', 7, '7'),
        ('00100000000000000001', 1e17, '100000000000000001'),  # All digits are kept.
        ('3.4028234e38', 3.4028234e38, str(int(3.4028234e38))),
        ('-3.5e38', None, '-3.5e38'),
        ('nan', None, 'nan'),
        ('1_0', None, '1_0'),
        ('3,14', None, '3,14'),
        ('x', None, 'x'),
    ):
        assert (to_number(cell), to_integer_text(cell)) == (number, integer)
        assert is_almost_number(cell) == (cell not in ('x', '1_0'))


def test_each_file_of_a_directory_is_a_split(tmp_path):
    find = functools.partial(find_files, 'csv_file', suffixes=('.csv', '.tsv'))
    for path, message in (
        ('', '--hparams=csv_file=PATH is required: a file, or a directory of train.csv and eval.csv'),
        ('/no/such', '--hparams=csv_file=/no/such: there is no such file or directory'),
        (str(tmp_path), f'--hparams=csv_file={tmp_path}: the directory has no file named train.csv'),
    ):
        with pytest.raises(UsageError, match=f'^{message}$'):
            find(path)
    for name in ('train.csv', 'eval.tsv', 'fold3.csv', '.hidden.csv', 'notes.txt'):
        (tmp_path / name).write_text('')
    files = find(str(tmp_path))
    assert files == {'train': f'{tmp_path}/train.csv', 'eval': f'{tmp_path}/eval.tsv', 'fold3': f'{tmp_path}/fold3.csv'}
    assert find(files['train']) == {'': files['train']}
    assert file_of('fold3', 'csv_file', str(tmp_path), files, 0.2) == files['fold3']
    assert splits_of('fold3', 0.2)[0] == ['fold3'] and splits_of('fold3', 0.2)[1](0) == 'fold3'
    (tmp_path / 'train.tsv').write_text('')
    with pytest.raises(UsageError, match=f'{tmp_path}: both train.csv and train.tsv are of the split train: remove one'):
        find(str(tmp_path))


def test_a_split_that_is_not_there_is_named():
    for split, files, eval_share, message in (
        ('test', {'': 'a.csv'}, 0.2, 'test: the splits are: train, eval: give a directory with test.csv, or name another'),
        ('eval', {'': 'a.csv'}, 0, 'eval: the splits are: train: raise eval_share, or name another with --eval_splits, --pre'),
        ('test', {'train': 'd/train.tsv', 'eval': 'd/eval.tsv'}, 0.2, 'test: the splits are: train, eval: add test.tsv, or na'),
    ):
        with pytest.raises(UsageError, match=f'^--hparams=csv_file=d: there is no split {message}'):
            file_of(split, 'csv_file', 'd', files, eval_share)


def test_another_version_of_the_converter_converts_anew():
    (key, state), (same_key, other) = (fingerprint('a', [], None, version).split('-') for version in (1, 2))
    assert key == same_key and state != other and fingerprint('a', [], None) == f'{key}-{state}'
