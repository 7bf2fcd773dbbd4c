"""Users' own tables: rows, cells, columns and splits, and datasets/csv.py, from batches to predictions."""

import functools
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.own_data.cells import is_almost_number, make_encoder, to_integer_text, to_number
from estimator_trainer.common.own_data.columns import ColumnProfile
from estimator_trainer.common.own_data.delimited import Table
from estimator_trainer.common.own_data.lines import Lines, Position
from estimator_trainer.common.own_data.moments import Moments, standardize
from estimator_trainer.common.own_data.schema import CATEGORICAL, COLUMNS, NUMERIC, Schema, find_roles, read_schema
from estimator_trainer.common.own_data.splits import SplitFile, find_files, find_split, fingerprint
from estimator_trainer.common.own_data.table_facts import describe
from estimator_trainer.common.own_data.vocabulary import ValueCounts, class_ids, column_ids, sorted_classes
from estimator_trainer.common.records import records
from estimator_trainer.datasets import csv
from estimator_trainer.hparams import build
from tests.datasets.own_data import Prepared, make_schema, predicted, prepare_raw, serve
from tests.shared import failed, refused


@pytest.fixture
def table(tmp_path):
    def make(content):
        (tmp_path / 'a.csv').write_bytes(content if isinstance(content, bytes) else content.encode())
        return Table(str(tmp_path / 'a.csv'))

    return make


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
        assert found.header == ['x', name, ''] and [row.value for row in found.rows()] == [['1', '2', '3,4']]
    found = table(b'\xef\xbb\xbfx,text,y\r\n' + b''.join(b'%d,"a, ""b""\r\nc %d",0\r\n\r\n' % (i, i) for i in range(99)))
    assert found.header == ['x', 'text', 'y']  # Without the byte order mark.
    rows = list(found.rows())
    assert [row.value for row in rows] == [[f'{i}', f'a, "b"\r\nc {i}', '0'] for i in range(99)]
    assert [row.position.row for row in rows] == [*range(99)] and rows[9].position.line == 2 + 9 * 3
    assert list(found.rows(rows[50].position)) == rows[50:]


def test_a_wrong_row_is_named_by_its_line_and_hides_no_other_and_a_wrong_header_is_refused(table):
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
    for content, message in (
        ('', 'is empty: the first line must name the columns'),
        ('x,x\n', 'line 1 names two columns x: rename one'),
        ('1,2,\n', 'line 1 must name the columns, but contains 1,2'),
        ('x,"y\n', 'line 1: a quoted cell does not end'),
        ('x,y\n1,a\n'.encode('utf-16-le'), 'line 1 contains NUL characters, as UTF-16 does: save the file as UTF-8'),
    ):
        assert f'a.csv: {message}' in failed(table, content)


def test_numbers_are_those_of_float32():
    for cell, number, integer in (
        ('1.5', 1.5, '1.5'),
        ('-1.0', -1, '-1'),
        ('+007', 7, '7'),
        ('00100000000000000001', 1e17, '100000000000000001'),  # All digits are kept.
        ('3.4028234e38', 3.4028234e38, str(int(3.4028234e38))),
        *((cell, None, cell) for cell in ('-3.5e38', 'nan', '1_0', '3,14', 'x')),
    ):
        assert (to_number(cell), to_integer_text(cell)) == (number, integer)
        assert is_almost_number(cell) == (cell not in ('x', '1_0'))


def test_each_file_of_a_directory_is_a_split_and_another_version_of_the_converter_converts_anew(tmp_path):
    find = functools.partial(find_files, 'csv_file', suffixes=('.csv', '.tsv'), eval_share=0.2)
    for path, message in (
        ('', '--hparams=csv_file=PATH is required: a file, or a directory of train.csv and eval.csv'),
        ('/no/such', '--hparams=csv_file=/no/such: there is no such file or directory'),
        (str(tmp_path), f'--hparams=csv_file={tmp_path}: the directory has no file named train.csv'),
    ):
        assert refused(find, path) == message
    for name in ('train.csv', 'eval.tsv', 'fold3.csv', '.hidden.csv', 'notes.txt'):
        (tmp_path / name).write_text('')
    files = find(str(tmp_path))
    expected = (('eval', 'eval.tsv'), ('fold3', 'fold3.csv'), ('train', 'train.csv'))
    assert files == [SplitFile(f'{tmp_path}/{name}', (split,)) for split, name in expected]
    assert find(f'{tmp_path}/train.csv') == [SplitFile(f'{tmp_path}/train.csv', ('train', 'eval'), 0.2)]
    assert find_split('fold3', 'csv_file', str(tmp_path), files) is files[1] and files[1].split_of(0) == 'fold3'
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
        assert refused(find_split, split, 'csv_file', path, files).startswith(message)


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


def profile(cells, kind=None):
    found, lines = ColumnProfile(100, kind), range(2, 2 + len(cells))
    for begin in range(0, len(cells), 10):
        found.update(cells[begin : begin + 10], lines[begin : begin + 10])
    return found


def test_a_column_is_numeric_if_its_cells_are_and_identifies_rows_if_ten_or_more_differ():
    numbers, mostly, neither = (True, False), (False, True), (False, False)
    for cells, kind, expected, is_integer, first_text, mean in (
        (['1', '', '2.0', '?', 'NA'], None, numbers, True, None, 1.5),
        (['1', '2.5'], None, numbers, False, None, 1.75),
        (['1', '', *'1234567', '1', 'x'], None, mostly, False, (12, 'x'), 30 / 9),  # One in ten.
        (['1', '', *'1234567', 'x'], None, neither, False, (11, 'x'), 29 / 8),
        (['1,5', 'inf', '1e99', '7'], None, mostly, False, (2, '1,5'), 7),  # These almost are numbers.
        ([*'xyzuv', 'NA', *'1234', *'1234567890' * 9], None, neither, False, (2, 'x'), 2.5),  # Too many texts at first.
        (['x', 'z', '1', '2', *'123456' * 10, '1.5'], None, mostly, False, (2, 'x'), 214.5 / 63),
        (['1', 'x', '3'], NUMERIC, numbers, True, None, 2),  # A given kind is not inferred.
        (['1', '3'], CATEGORICAL, neither, False, None, 0),
    ):
        found = profile(cells, kind)
        assert (found.is_numeric, found.is_mostly_numeric) == expected, cells
        assert (found.is_integer, found.first_text, found.moments.mean) == (is_integer, first_text, pytest.approx(mean))
        assert found.num_missing == len(cells) - found.values.total == sum(cell in ('', '?', 'NA') for cell in cells)
    assert profile([*'abcdefghij']).identifies
    assert not any(profile(cells).identifies for cells in ([*'abcdefghi'], [*'abcdefghia'], ['', *'abcdefghij']))


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
    ids = column_ids(tf.constant([['a', 'b'], ['', 'c']]), [[], []])  # Without known categories.
    spelled = tf.constant([['TRUE', 'e\u0301'], ['true', '5.0'], ['True', '5'], ['no', '']])
    spelled = column_ids(spelled, [['false', 'true', 'True'], ['\u00e9', '5']])  # A value's own spelling goes first.
    values = tf.placeholder(tf.string, [None])
    found, many = class_ids(values, ['b', 'a'], 'kind'), class_ids(values, 'abcdef', 'kind')
    session.run(tf.tables_initializer())
    assert session.run(ids).tolist() == [[0, 0], [0, 0]]
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

    def call(header, rows, schema=None):
        found = table('\n'.join([header, *(','.join(map(str, row)) for row in rows)]))
        params = {'train_split': 'train', 'target': 'y', 'min_count': 2, 'max_vocabulary': 10, 'max_bad_share': 0}
        file = SplitFile(found.path, ('train',))
        return describe({file: found}, file, Schema(COLUMNS, 'schema.json', schema or {}), build.HParams(params))

    return call


def kinds(found):
    return {column['name']: column['kind'] for column in found['columns']}


def test_text_and_few_integers_are_classes_and_other_numbers_a_regression_or_refused(facts):
    for values, schema, expected in (
        ([10, 2, 1], {}, ['1', '2', '10']),
        (range(20), {}, [str(i) for i in range(20)]),
        (range(21), {}, None),
        ([1.5, 2], {}, None),
        (['b', 'a', ''], {}, ['a', 'b']),  # Rows without one are reported later.
        (['0.0', '1', '00'], {}, ['0', '1']),
        (['1.0', 'x'], {'task': 'classification'}, ['1.0', 'x']),
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
        ([''], {}, RunError, 'no row has a target to train on, in the column y'),
        (['a'], {'task': 'regression'}, UsageError, 'the target y is not a number: --hparams=schema can give another task'),
        ([1.7e9 + i for i in range(40)], {}, RunError, 'column y: the numbers around 1.7e.09 differ too little for float32:'),
        ([f'{i}a' for i in range(40)], {}, UsageError, 'the target y has too many different values to be classes: name'),
        ([f'{i},5' for i in range(40)], {}, UsageError, r"line 2: column y: '0,5' has .*: write decimal points$"),
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
    rows = [('x' if i % 7 == 0 else i, 'n.a.' if i == 3 else i % 5, 'low' if i == 4 else i % 3) for i in range(140)]
    facts('mixed,zip,y', rows, {'columns': {'zip': 'categorical'}, 'task': 'classification'})
    assert 'column' not in caplog.text and 'no row trained on' not in caplog.text
    facts('x,time,y', [(f'"{i % 20},5"' if i % 3 == 0 else 1, 1.7e9 + i, i / 7) for i in range(60)])
    assert "a.csv: line 2: column x: '0,5' has a decimal comma, so the column is not numeric: write decimal" in caplog.text
    assert 'a.csv: column time: the numbers around 1.7e+09 differ too little for float32: subtract a constant' in caplog.text
    for cell, header in (('inf', 'x,y'), ('9' * 400, 'x,y'), ('n.a.', 'y,x')):
        found = facts(header, [(cell if i == 1200 else i % 70 / 2, i % 50 / 2) for i in range(1300)])
        assert f"a.csv: line 1202: column {header[0]}: '{cell[:40]}" in caplog.text
        assert found['task'] == ('regression' if header == 'x,y' else 'classification')
    assert caplog.text.count('is not a number, as nearly all others are, so the column is not numeric: correct it, or ') == 3


def test_the_target_is_given_or_has_a_usual_name_and_a_wrong_schema_is_refused(table, tmp_path):
    several = table('x,,Target,label').names
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


def test_a_row_becomes_an_example_of_its_existing_cells():
    columns = {'x': 'numeric', 'c': 'categorical', 'key': 'id', 'w': 'weight', 'y': 'target'}
    facts = {'columns': [{'name': name, 'kind': kind} for name, kind in columns.items()], 'task': 'classification'}
    header, integers = ['y', 'other', 'w', 'x', 'c', 'key'], {**facts, 'class_names': ['-1', '7']}
    encode = make_encoder('a.csv', header, integers, has_labels=True)
    assert encode(['7.0', '', '0', '1e1', '5.0', 'r']) == {'x': 10, 'c': '5.0', 'key': 'r', 'w': 0, 'y': '7'}
    assert encode(['-01', '', '2', 'NA', '?', '']) == {'w': 2, 'y': '-1'}
    assert make_encoder('a.csv', header, integers, has_labels=False)(['x', '', '-1', '1', 'a', '']) == {'x': 1, 'c': 'a'}
    assert make_encoder('', ['c', 'x'], integers, has_labels=True)(['a', '']) == {'c': 'a'}
    names = make_encoder('a.csv', header, {**facts, 'class_names': ['7.0', 'x']}, has_labels=True)
    assert names(['7.0', '', '1', '', '', '']) == {'w': 1, 'y': '7.0'}
    numbers = make_encoder('a.csv', header, {**facts, 'task': 'regression'}, has_labels=True)
    assert numbers(['2.50', '', '1', '', '', '']) == {'w': 1, 'y': 2.5}
    for cells, message in (
        (['', '', '1', '', '', ''], 'column y: the target is missing'),
        (['7', '', '', '', '', ''], 'column w: the weight is missing'),
        (['7', '', '-1', '', '', ''], 'column w: a weight must not be negative, but is -1'),
        (['7', '', '1', 'two', '', ''], "column x: 'two' is not a number"),
    ):
        assert failed(encode, cells) == message
    assert refused(make_encoder, 'a.csv', ['y'], integers, False) == 'a.csv: has no column x, c, which the model requires'


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
    return lambda path, *hparams: Prepared(csv, tmp_path / 'data', f'csv_file={path}', *hparams)


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
    unseen = 'no row trained on is of the class c.'
    for line in (unseen, 'numeric: x, y\n', 'categorical: city\n', 'target: kind, classification\n'):
        assert f'train.csv: {line}' in caplog.text
    for limit in ('min_count=3', 'max_vocabulary=1'):
        assert prepared(splits, 'target=kind', limit).metadata['columns'][2]['vocabulary'] == ['Rome']
    assert f'csv_file={splits}: there is no split no' in refused(found.read, 'no')
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
    np.testing.assert_equal(prepare_raw(csv, found.params, raw), features)
    path = write(tmp_path / 'input.csv', 'x;y;city', [(3, 7, 'Rome'), ('three', 7, 'Rome'), (1,), ('', '', '')], ';')
    features, errors = found.predict(path)
    assert features['categorical'].tolist() == [[1], [0]]
    wrong = {3: "column x: 'three' is not a number", 4: '1 cells, but the header has 3'}
    assert errors == {line: f'{path}: line {line}: {text}' for line, text in wrong.items()}


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
    path = write(tmp_path / 'a.csv', 'x,y', [(i, i % 2, 3) if i == 7 else (i, i % 2) for i in range(100)])
    found = prepared(path, 'target=y', 'max_bad_share=0.01')
    x = found.metadata['columns'][0]
    numbers = [np.rint(found.read(split)[0]['numeric'][:, 0] * x['std'] + x['mean']).astype(int) for split in ('train', 'eval')]
    assert sorted(np.concatenate(numbers)) == [i for i in range(100) if i != 7] and 5 < len(numbers[1]) < 40
    assert x['mean'] == pytest.approx(numbers[0].mean())
    assert '1 of 100 rows are skipped; the first:' in caplog.text and 'line 9: 3 cells' in caplog.text
    for name, rows in (('train.csv', [(1, 0), (2, 1)]), ('eval.csv', [])):
        write(tmp_path / 'empty' / name, 'x,y', rows)
    assert 'empty/eval.csv: has no row for the split eval' in failed(prepared, tmp_path / 'empty', 'target=y')


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
    assert [line.count(f'{tmp_path}/data/csv-') for line in lines] == [1, 2]
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
            csv.read('eval', str(tmp_path / 'data'), build.HParams(other.params, trained))


def test_a_model_learns_numbers_and_is_used_on_other_data(run, tmp_path):
    rows = [(i % 50, 'ab'[i % 2], 3 * (i % 50) + 100 * (i % 2) + 0.5) for i in range(300)]
    path = write(tmp_path / 'lines.csv', 'x,c,target', rows)
    flags = ('--model=mlp', '--dataset=csv', f'--data_dir={tmp_path}/data', '--train_steps=150')
    hparams = f'--hparams=csv_file={path},hidden_units=[16],learning_rate=0.02,batch_size=32'
    code, result, _ = run(*flags, hparams)
    assert code == 0 and result['eval']['mean_absolute_error'] < 15
    new, saved = write(tmp_path / 'new.csv', 'x,c', [(40, 'b'), (10, 'a')]), f'{tmp_path}/output/hparams.json'
    code, _, err = run(*flags, hparams.replace('lines', 'new'), '--schedule=evaluate')
    assert code == 2 and f'{saved}: csv_file was "{path}", now it is "{new}": reuse the saved values, with --hparams_' in err
    assert 'other data can be predicted, with --input=FILES, and evaluated, with --eval_splits=test, if it is the split' in err
    assert run(*flags, '--schedule=evaluate')[1]['eval'] == result['eval']
    shutil.rmtree(tmp_path / 'data')
    path.unlink()
    assert run(*flags, f'--hparams_set={saved}', '--schedule=predict', f'--input={new}')[0] == 0
    expected = [row['value'] for row in predicted(tmp_path / 'output')]
    np.testing.assert_allclose(expected, [220.5, 30.5], atol=40)
    loaded = api.load(tmp_path / 'output')
    for rows in ([[40, 'b'], [10, 'a']], {'c': ['b', 'a'], 'x': ['40', 10]}):
        np.testing.assert_allclose(loaded.predict(rows)['value'], expected, rtol=1e-5)
    assert loaded.predict({'x': 10, 'c': 'a'})['value'] == pytest.approx(expected[1], rel=1e-5)
    labeled, metrics = write(tmp_path / 'labeled.csv', 'target,x,c', [(200, 40, 'b'), (50, 10, 'a')]), tmp_path / 'output'
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
    write(labeled, 'x,c,target', [(4, 'b', '')])
    code, _, err = run(*flags, '--schedule=evaluate', f'--input={labeled}')
    problem = 'line 2: column target: the target is missing: correct it, or leave it out'
    assert code == 1 and err.splitlines()[-1] == f'trainer.py: {labeled}: {problem}'
    code, result, _ = run(*flags, '--schedule=export')
    assert code == 0
    found = serve(result['export'], 'serving_default', {'x': [40, 10], 'c': ['b', 'a']})
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    examples = [records.encode({'x': 40.0, 'c': 'b'}), records.encode({'x': 10.0, 'c': 'a'})]
    found = serve(result['export'], 'examples:serving_default', {'examples': examples})
    np.testing.assert_allclose(found, expected, rtol=1e-5)
