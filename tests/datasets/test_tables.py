"""What a table of a user's own is about: its features, its target, and the examples in its rows."""

import json

import numpy as np
import pytest

from common.errors import RunError, UsageError
from common.formats import schema as schemas
from common.formats.delimited import Table
from common.formats.split_rows import BadRows
from common.formats.table_facts import ROLES, describe, find_roles, make_encoder


@pytest.fixture
def write(tmp_path):
    def call(header, rows=(), name='a.csv'):
        (tmp_path / name).write_text('\n'.join([header, *(','.join(map(str, row)) for row in rows)]) + '\n')
        return Table(str(tmp_path / name))

    return call


@pytest.fixture
def facts(write, caplog):
    """Returns a function from a header and rows to the metadata, with y as the target."""
    caplog.set_level('INFO', 'tensorflow')

    def call(header, rows, schema=None, is_trained_on=lambda row: True, others=(), limits=(2, 10)):
        table, schema = write(header, rows), schema or {}
        roles = find_roles(schema, 'schema.json', 'y', table)
        return describe([*others, table], table, is_trained_on, roles, schema, *limits, BadRows(0))

    return call


def kinds(found):
    return {column['name']: column['kind'] for column in found['columns']}


def test_the_facts_are_those_of_the_rows_trained_on(facts, write, caplog):
    trained = [(1, 5, 'Rome', 'b'), (2, '', 'Rome', 'a'), (6, 7, 'Oslo', 'b'), (3, 'NA', 'Oslo', 'a'), (3, 9, 'Rome', 'a')]
    other = write('y,u\nc,1', name='eval.csv')
    found = facts('u,v,city,y', [*trained, (99, '', 'Bonn', 'd')], None, lambda row: row < 5, [other], (1, 10))
    columns = [
        {'name': 'u', 'kind': 'numeric', 'mean': 3, 'std': pytest.approx(((4 + 1 + 9) / 5) ** 0.5), 'indicator': False},
        {'name': 'v', 'kind': 'numeric', 'mean': 7, 'std': pytest.approx((8 / 3) ** 0.5), 'indicator': True},
        {'name': 'city', 'kind': 'categorical', 'vocabulary': ['Rome', 'Oslo']},
        {'name': 'y', 'kind': 'target'},
    ]
    target = {'task': 'classification', 'class_names': ['a', 'b', 'c', 'd'], 'num_classes': 4}
    assert found == {**target, 'columns': columns, 'vocabulary_sizes': {'categorical': [3]}}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert 'a.csv: no row trained on is of the class c, d.' in caplog.text
    for line in ('numeric: u, v\n', 'categorical: city\n', 'target: y, classification\n'):
        assert f'a.csv: {line}' in caplog.text
    for limits in ((3, 10), (1, 1)):
        assert facts('u,v,city,y', trained, limits=limits)['columns'][2]['vocabulary'] == ['Rome']


def test_text_and_few_integers_are_classes_and_other_numbers_a_regression(facts):
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


def test_a_target_that_cannot_be_learned_is_refused(facts):
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
    with pytest.raises(UsageError, match='a.csv: there is no column to learn from besides y, id'):
        facts('id,y', [(i, i % 2) for i in range(20)])
    assert kinds(facts('id,y', [(i, i % 2) for i in range(9)])) == {'id': 'numeric', 'y': 'target'}  # Too few.


def test_a_cell_that_makes_a_column_of_numbers_one_of_text_is_warned_of(facts, caplog):
    for cell, header in (('inf', 'x,y'), ('9' * 400, 'x,y'), ('n.a.', 'y,x')):
        found = facts(header, [(cell if i == 1200 else i % 70 / 2, i % 50 / 2) for i in range(1300)])
        assert f"a.csv: line 1202: column {header[0]}: '{cell[:40]}" in caplog.text
        assert found['task'] == ('regression' if header == 'x,y' else 'classification')
    assert caplog.text.count('is not a number, as nearly all others are, so the column is not numeric: correct it, or ') == 3


def test_only_what_is_probably_wrong_is_warned_of(facts, caplog):
    rows = [('x' if i % 7 == 0 else i, 'n.a.' if i == 3 else i % 5, 'low' if i == 4 else i % 3) for i in range(140)]
    facts('mixed,zip,y', rows, {'columns': {'zip': 'categorical'}, 'task': 'classification'})
    assert 'column' not in caplog.text and 'no row trained on' not in caplog.text
    facts('x,time,y', [(f'"{i % 20},5"' if i % 3 == 0 else 1, 1.7e9 + i, i / 7) for i in range(60)])
    assert "a.csv: line 2: column x: '0,5' has a decimal comma, so the column is not numeric: write decimal" in caplog.text
    assert 'a.csv: column time: the numbers around 1.7e+09 differ too little for float32: subtract a constant' in caplog.text


def test_the_target_is_given_or_has_a_usual_name(write):
    table = write('x,,Target,label')
    for target, schema, message in (
        ('', {}, '--hparams=target=COLUMN is required: the columns of .*/a.csv are: x, Target, label$'),
        ('z', {}, '--hparams=target: .*/a.csv has no column z; its columns are: x, Target, label'),
        ('x', {'columns': {'lable': 'numeric'}}, 's.json: .*/a.csv has no column lable, did you mean label'),
        ('x', {'weight': 'w'}, 's.json: .*/a.csv has no column w'),
        ('x', {'columns': {'x': 'number'}}, 's.json: the column x is of kind number, but the kinds are: numeric, categorical,'),
        ('label', {'target': 'x'}, '--hparams=target=label: s.json names another target, x'),
        ('x', {'id': 'x'}, 's.json: target, id must be different columns'),
    ):
        with pytest.raises(UsageError, match=message):
            find_roles(schema, 's.json', target, table)
    assert find_roles({'target': 'x'}, 's.json', 'x', table) == {'target': 'x'}
    given = {'target': 'x', 'weight': 'label'}
    assert find_roles(given, 's.json', '', table) == given
    assert find_roles({}, 's.json', '', write('x,Target')) == {'target': 'Target'}


def test_a_row_becomes_an_example_of_the_cells_that_are_there(write):
    columns = {'x': 'numeric', 'c': 'categorical', 'key': 'id', 'w': 'weight', 'y': 'target'}
    facts = {'columns': [{'name': name, 'kind': kind} for name, kind in columns.items()], 'task': 'classification'}
    table, integers = write('y,other,w,x,c,key'), {**facts, 'class_names': ['-1', '7']}
    encode = make_encoder(table, integers, has_labels=True)
    assert encode(['7.0', '', '0', '1e1', '5.0', 'r']) == {'x': 10, 'c': '5.0', 'key': 'r', 'w': 0, 'y': '7'}
    assert encode(['-01', '', '2', 'NA', '?', '']) == {'w': 2, 'y': '-1'}
    assert make_encoder(table, integers, has_labels=False)(['x', '', '-1', '1', 'a', '']) == {'x': 1, 'c': 'a'}
    assert make_encoder(write('c,x'), integers, has_labels=True)(['a', '']) == {'c': 'a'}
    names = make_encoder(table, {**facts, 'class_names': ['7.0', 'x']}, has_labels=True)
    assert names(['7.0', '', '1', '', '', '']) == {'w': 1, 'y': '7.0'}
    numbers = make_encoder(table, {**facts, 'task': 'regression'}, has_labels=True)
    assert numbers(['2.50', '', '1', '', '', '']) == {'w': 1, 'y': 2.5}
    for cells, message in (
        (['', '', '1', '', '', ''], 'column y: the target is missing'),
        (['7', '', '', '', '', ''], 'column w: the weight is missing'),
        (['7', '', '-1', '', '', ''], 'column w: a weight must not be negative, but is -1'),
        (['7', '', '1', 'two', '', ''], "column x: 'two' is not a number"),
    ):
        with pytest.raises(RunError, match=f'^{message}$'):
            encode(cells)
    with pytest.raises(UsageError, match='a.csv: has no column x, c, which the model takes'):
        make_encoder(write('y'), integers, has_labels=False)


def test_a_wrong_schema_is_refused(tmp_path):
    for content, message in (
        ('{"colums": {}}', 's.json: unknown key colums, did you mean columns.*; the keys are: columns, target, id, weight,'),
        ('{"columns": []}', 's.json: columns must be an object'),
        ('{"target": {}}', 's.json: target must be a string'),
        ('{"task": "ranking"}', 's.json: task is ranking, but must be classification or regression'),
        ('{', '--hparams=schema: .*s.json: is not JSON'),
    ):
        (tmp_path / 's.json').write_text(content)
        with pytest.raises(UsageError, match=message):
            schemas.read_schema(str(tmp_path / 's.json'), 'columns', ROLES)


def test_only_the_first_names_are_listed():
    for count, end in ((50, 'c49$'), (51, r'c49, \.\.\.$')):
        with pytest.raises(UsageError, match=f'its columns are: c0, .*, {end}'):
            schemas.check_names('s.json', 'column', ['x'], [f'c{i}' for i in range(count)], 'a.csv')
