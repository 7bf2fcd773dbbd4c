"""datasets/csv.py: tables of a user's own."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.data import records
from common.errors import RunError, UsageError
from common.formats import splits as splits_module
from datasets import csv
from hparams import build
from tests.datasets.own_data import ModeKeys, Prepared, column

MODEL = '--model=tests.datasets.tabular_model'
STEPS = ('--train_steps=150', '--save_checkpoints_steps=150')
CITIES = ('Rome', 'Paris', 'Oslo')


def write(path, header, rows, delimiter=','):
    path.parent.mkdir(exist_ok=True)
    path.write_text('\n'.join([header, *(delimiter.join(map(str, row)) for row in rows)]) + '\n', encoding='utf-8')
    return path


def people(count):
    """Rows of age, city, and whether the age is above 50."""
    return [(age, CITIES[age % 3], 'old' if age > 50 else 'young') for age in (20 + i * 37 % 61 for i in range(count))]


@pytest.fixture
def splits(tmp_path):
    """A directory with train.csv and eval.csv, whose numbers are known."""
    directory = tmp_path / 'table'
    write(
        directory / 'train.csv',
        'x,y,city,kind',
        [(1, 5, 'Rome', 'b'), (2, '', 'Rome', 'a'), (6, 7, 'Oslo', 'b'), (3, 'NA', 'Oslo', 'a'), (3, 9, 'Rome', 'a')],
    )
    write(directory / 'eval.csv', 'city,kind,x,y', [('Oslo', 'a', 3, '?'), ('Bonn', 'b', '', 7)])
    return directory


def prepared(path, tmp_path, *hparams):
    return Prepared(csv, tmp_path / 'data', ','.join([f'csv_file={path}', *hparams]))


def schema(tmp_path, **content):
    path = tmp_path / 'schema.json'
    path.write_text(json.dumps(content))
    return f'schema={path}'


def test_numbers_are_standardized_by_the_training_data(splits, tmp_path):
    features, labels = prepared(splits, tmp_path, 'target=kind').batch('eval')
    # x: mean 3, variance (4 + 1 + 9 + 0 + 0) / 5; y: mean 7, variance 8 / 3, missing in training.
    np.testing.assert_allclose(features['numeric'], [[0, 0, 1], [0, 0, 0]], atol=1e-6)
    features, _ = prepared(splits, tmp_path, 'target=kind').batch('train')
    order = np.argsort(features['numeric'][:, 0], kind='stable')
    x = np.array([1, 2, 3, 3, 6])
    np.testing.assert_allclose(features['numeric'][order, 0], (x - 3) / np.sqrt(14 / 5), rtol=1e-5)
    assert features['numeric'][:, 2].sum() == 2
    assert features['numeric'].dtype == np.float32
    np.testing.assert_array_equal(labels['label'], [0, 1])


def test_categories_are_ids_by_frequency_in_training_and_unknown_ones_0(splits, tmp_path):
    dataset = prepared(splits, tmp_path, 'target=kind')
    assert dataset.metadata['vocabulary_sizes'] == {'categorical': [3]}
    features, _ = dataset.batch('eval')
    np.testing.assert_array_equal(features['categorical'], [[2], [0]])  # Rome is 1, Oslo 2, Bonn only in eval.
    assert features['categorical'].dtype == np.int32


@pytest.mark.parametrize('limit', ['min_count=3', 'max_vocabulary=1'])
def test_rare_categories_are_unknown(splits, tmp_path, limit):
    dataset = prepared(splits, tmp_path, 'target=kind', limit)
    assert [c['vocabulary'] for c in dataset.metadata['columns'] if c['kind'] == 'categorical'] == [['Rome']]
    np.testing.assert_array_equal(dataset.batch('eval')[0]['categorical'], [[0], [0]])


def test_classes_are_sorted_and_labels_are_their_indices(splits, tmp_path):
    dataset = prepared(splits, tmp_path, 'target=kind')
    assert (dataset.metadata['task'], dataset.metadata['class_names'], dataset.metadata['num_classes']) == (
        'classification',
        ['a', 'b'],
        2,
    )
    labels = dataset.batch('eval')[1]['label']
    assert labels.dtype == np.int32 and list(labels) == [0, 1]


def test_metadata_can_be_written_as_json(splits, tmp_path):
    metadata = prepared(splits, tmp_path, 'target=kind').metadata
    assert json.loads(json.dumps(metadata, allow_nan=False)) == metadata


def test_few_integers_are_classes_in_the_order_of_numbers(tmp_path):
    path = write(tmp_path / 'a.csv', 'x,stars', [(i, (10, 2, 1)[i % 3]) for i in range(60)])
    metadata = prepared(path, tmp_path, 'target=stars').metadata
    assert metadata['class_names'] == ['1', '2', '10']


@pytest.mark.parametrize('values', [[i / 7 for i in range(60)], [i * 10 for i in range(60)]])
def test_other_numbers_are_for_regression(tmp_path, values):
    path = write(tmp_path / 'a.csv', 'x,price', [(i % 5, value) for i, value in enumerate(values)])
    dataset = prepared(path, tmp_path, 'target=price')
    labels = dataset.batch('train')[1]['label']
    assert dataset.metadata['task'] == 'regression' and 'num_classes' not in dataset.metadata
    assert labels.dtype == np.float32 and set(labels) <= set(np.float32(values))
    assert dataset.metadata['target_mean'] == pytest.approx(np.mean(labels), rel=1e-5)
    assert dataset.metadata['target_std'] == pytest.approx(np.std(labels), rel=1e-5)


def test_a_share_of_a_single_file_is_held_out_and_no_row_is_in_both(tmp_path):
    path = write(tmp_path / 'a.csv', 'x,y', [(i, i % 2) for i in range(2500)])
    dataset = prepared(path, tmp_path, 'target=y', 'eval_share=0.3')
    x = next(c for c in dataset.metadata['columns'] if c['name'] == 'x')
    numbers = [
        np.rint(dataset.batch(split)[0]['numeric'][:, 0] * x['std'] + x['mean']).astype(int) for split in ('train', 'eval')
    ]
    assert sorted(np.concatenate(numbers)) == list(range(2500))
    assert abs(len(numbers[1]) - 750) < 4 * np.sqrt(2500 * 0.3 * 0.7)
    # The statistics are of the rows trained on alone.
    assert x['mean'] == pytest.approx(numbers[0].mean()) and x['std'] == pytest.approx(numbers[0].std())


def test_each_file_of_a_directory_is_a_split_and_any_may_be_trained_on(splits, tmp_path):
    shutil.copy(splits / 'eval.csv', splits / 'fold3.csv')
    dataset = prepared(splits, tmp_path, 'target=kind')
    assert [len(dataset.batch(split)[1]['label']) for split in ('train', 'eval', 'fold3')] == [5, 2, 2]
    with pytest.raises(
        UsageError, match='/table: there is no split no_such: the splits are: eval, fold3, train: add no_such.csv, or'
    ):
        dataset.batch('no_such')


@pytest.mark.parametrize(
    'hparams, split, message',
    [
        ((), 'test', 'there is no split test: the splits are: train, eval: give a directory with test.csv, or name another'),
        (('eval_share=0',), 'eval', 'there is no split eval: the splits are: train: raise eval_share, or name another'),
        (
            ('eval_share=0', 'train_split=eval'),
            'eval',
            'there is no split eval: the splits are: train: raise eval_share, or name',
        ),
    ],
)
def test_a_split_that_a_single_file_does_not_have_is_named(tmp_path, hparams, split, message):
    path = write(tmp_path / 'a.csv', 'x,y', [(i, i % 2) for i in range(50)])
    with pytest.raises(UsageError, match=f'csv_file={path}: {message}'):
        prepared(path, tmp_path, 'target=y', *hparams).source.read(split)


def test_a_directory_without_the_evaluated_split_is_named_before_the_training(run, splits, tmp_path):
    (splits / 'eval.csv').unlink()
    code, _, err = run(
        MODEL, '--dataset=csv', f'--hparams=csv_file={splits},target=kind', f'--data_dir={tmp_path}/data', *STEPS
    )
    assert code == 2 and 'Saving checkpoints' not in err
    assert err.splitlines()[-1] == (
        f'trainer.py: --hparams=csv_file={splits}: there is no split eval: the splits are: train: add eval.csv, or name '
        'another with --eval_splits, --predict_split or --hparams=train_split'
    )


def test_the_split_trained_on_determines_the_statistics(splits, tmp_path, monkeypatch):
    shutil.copy(splits / 'train.csv', splits / 'fold2.csv')
    (splits / 'train.csv').write_text('x,y,city,kind\n100,1,a,a\n')
    monkeypatch.setattr(csv, 'get_params', lambda values=csv.get_params(): {**values, 'train_split': 'fold2'})  # noqa: B008
    assert prepared(splits, tmp_path, 'target=kind').metadata['columns'][0]['mean'] == 3


@pytest.mark.parametrize('delimiter', [',', ';', '\t', '|'])
def test_the_delimiter_is_found(tmp_path, delimiter):
    header = delimiter.join(['x', '"a;b,c|d"' if delimiter != ';' else 'a,b', 'y'])
    path = write(tmp_path / 'a.csv', header, [(i, i * 2, i % 2) for i in range(50)], delimiter)
    dataset = prepared(path, tmp_path, 'target=y')
    assert [c['kind'] for c in dataset.metadata['columns']] == ['numeric', 'numeric', 'target']


def test_quoted_cells_may_contain_delimiters_quotes_and_line_breaks(tmp_path):
    rows = ''.join(f'{i},"a, ""b""\r\nc {i % 2}",{i % 2}\r\n' for i in range(2400))
    (tmp_path / 'a.csv').write_bytes(b'\xef\xbb\xbfx,text,y\r\n' + rows.encode())
    dataset = prepared(tmp_path / 'a.csv', tmp_path, 'target=y')
    assert {c['name'] for c in dataset.metadata['columns']} == {'x', 'text', 'y'}  # Without the byte order mark.
    text = next(c for c in dataset.metadata['columns'] if c['name'] == 'text')
    assert set(text['vocabulary']) == {'a, "b"\r\nc 0', 'a, "b"\r\nc 1'}
    features, labels = dataset.batch('train')
    assert [text['vocabulary'][i - 1][-1] for i in column(features, 'categorical', 0)] == [str(i) for i in labels['label']]


def test_rows_may_be_long(tmp_path):
    rows = [(letter * 10**5, i % 2) for i, letter in enumerate('abcdefghijklmnopqrst' * 2)]  # 4 MB.
    dataset = prepared(write(tmp_path / 'a.csv', 'c,y', rows), tmp_path, 'target=y', 'eval_share=0')
    vocabulary = next(c['vocabulary'] for c in dataset.metadata['columns'] if c['name'] == 'c')
    features, labels = dataset.batch('train')
    found = [(vocabulary[i - 1][0], label) for i, label in zip(column(features, 'categorical', 0), labels['label'])]
    assert sorted(found) == sorted((text[0], label) for text, label in rows)


def test_a_column_that_identifies_rows_is_no_feature_unless_the_schema_says_so(tmp_path):
    rows = [(f'row {i}', f'name {i}', i, i % 2) for i in range(50)]
    path = write(tmp_path / 'a.csv', 'Id,name,x,y', rows)
    dataset = prepared(path, tmp_path, 'target=y')
    assert {c['name']: c['kind'] for c in dataset.metadata['columns']} == {'x': 'numeric', 'y': 'target', 'Id': 'id'}
    features, _ = dataset.batch('eval')
    assert all(name.startswith(b'row ') for name in features['example_id'])
    given = schema(tmp_path, columns={'name': 'categorical', 'Id': 'ignore'})
    kinds = {c['name']: c['kind'] for c in prepared(path, tmp_path, 'target=y', given).metadata['columns']}
    assert kinds == {'name': 'categorical', 'x': 'numeric', 'y': 'target'}


def test_the_schema_overrides_what_is_inferred(tmp_path):
    rows = [(f'r{i % 9}', i % 4, 'n', i % 3 / 2, i % 2) for i in range(80)]
    path = write(tmp_path / 'a.csv', 'row,zip,note,w,income', rows)
    given = schema(
        tmp_path,
        columns={'zip': 'categorical', 'note': 'ignore'},
        target='income',
        task='regression',
        id='row',
        weight='w',
    )
    dataset = prepared(path, tmp_path, given)
    features, labels = dataset.batch('eval')
    assert set(features) == {'categorical', 'example_id'}
    assert dataset.metadata['vocabulary_sizes'] == {'categorical': [5]}
    assert labels['label'].dtype == np.float32 and set(labels['weight']) == {0, 0.5, 1}


def test_a_negative_weight_is_named(tmp_path):
    path = write(tmp_path / 'a.csv', 'x,w,y', [(i, -1 if i == 7 else 2, i % 2) for i in range(40)])
    with pytest.raises(RunError, match=f'{path}: line 9: column w: a weight must not be negative, but is -1'):
        prepared(path, tmp_path, schema(tmp_path, target='y', weight='w'))


def test_a_changed_file_or_hyper_parameter_converts_anew(splits, tmp_path):
    def count(*hparams):
        prepared(splits, tmp_path, 'target=kind', *hparams)
        return len(os.listdir(tmp_path / 'data'))

    assert count() == count() == 1
    for number, name in enumerate(('eval.csv', 'train.csv'), 2):
        os.utime(splits / name, (1, 1))
        assert count() == number
    assert count('min_count=1') == 4


def test_another_version_of_the_converter_converts_anew(splits, tmp_path, monkeypatch):
    prepared(splits, tmp_path, 'target=kind')
    monkeypatch.setattr(splits_module, '_VERSION', 0)
    prepared(splits, tmp_path, 'target=kind')
    assert len(os.listdir(tmp_path / 'data')) == 2


def test_conversions_of_earlier_states_of_the_files_are_named(splits, tmp_path, caplog):
    caplog.set_level('INFO', 'tensorflow')
    prepared(splits, tmp_path, 'target=kind', 'min_count=1')
    prepared(splits, tmp_path, 'target=kind')
    known = set(os.listdir(tmp_path / 'data'))
    assert 'can be deleted' not in caplog.text
    outdated = []
    for time in (1, 2):
        outdated.append(prepared(splits, tmp_path, 'target=kind').source.read('train')._shards.directory)
        os.utime(splits / 'eval.csv', (time, time))
        write(splits / f'test{time}.csv', 'x,y,city', [(3, 7, 'Rome')])
        caplog.clear()
        prepared(splits, tmp_path, 'target=kind')
        assert caplog.text.endswith(
            f'{splits}: earlier conversions, which can be deleted unless a training is reading them: '
            f'{" ".join(sorted(outdated))}\n'
        )
    assert known < set(os.listdir(tmp_path / 'data'))
    caplog.clear()
    prepared(splits, tmp_path, 'target=kind')
    assert 'can be deleted' not in caplog.text


@pytest.mark.parametrize(
    'content, message',
    [
        ('x,y\n1,2,3\n1,0\n', 'line 2: 3 cells, but the header has 2'),
        ('x,y\n1,0\n\n1,1\n2\n', 'line 5: 1 cells'),
        ('x,y\n1,0\n2,\n3,1\n', 'line 3: column y: the target is missing'),
        ('x,y\n1,0\n"2,1\n3,0\n', 'line 3: a quoted cell does not end'),
        ('x,y\n1,0\n"2"2,1\n', 'line 3: .*a quote within a quoted cell must be doubled'),
        ('x,y\n1,0\n\xff,1\n', 'line 3: is not UTF-8'),
        ('x,y\n1,0\n' + '"' + 'a' * 200000 + '",1\n', 'line 3: a cell is longer than 131072'),
        ('x,y\r1,0\r2,1\r', 'line 1: contains a carriage return'),
    ],
)
def test_a_wrong_row_is_named_by_its_line(tmp_path, content, message):
    path = tmp_path / 'a.csv'
    path.write_bytes(content.encode('latin-1'))
    with pytest.raises(RunError, match=f'{path}: {message}') as error:
        prepared(path, tmp_path, 'target=y', 'eval_share=0')
    assert '\n' not in str(error.value)


def test_text_in_a_column_declared_numeric_is_a_wrong_row(tmp_path):
    path = write(tmp_path / 'a.csv', 'x,y', [(1, 0), (2, 1), ('two', 1)])
    given = schema(tmp_path, columns={'x': 'numeric'})
    with pytest.raises(RunError, match="line 4: column x: 'two' is not a number: .*max_bad_share"):
        prepared(path, tmp_path, 'target=y', 'eval_share=0', given)


def test_wrong_rows_are_skipped_up_to_a_share(tmp_path, caplog):
    path = write(tmp_path / 'a.csv', 'x,y', [(i, 'bad', 3) if i % 50 == 7 else (i, i % 2) for i in range(1500)])
    dataset = prepared(path, tmp_path, 'target=y', 'max_bad_share=0.02')
    found = [dataset.batch(split)[0]['numeric'] for split in ('train', 'eval')]
    assert sum(map(len, found)) == 1470
    assert '30 of 1500 rows are skipped; the first:' in caplog.text and 'line 9: 3 cells' in caplog.text
    with pytest.raises(RunError, match='30 of 1500 rows are wrong, more than max_bad_share=0.01; the first: .*line 9'):
        prepared(path, tmp_path, 'target=y', 'max_bad_share=0.01')


@pytest.mark.parametrize(
    'header, hparams, error, message',
    [
        ('x,y', (), UsageError, '--hparams=target=COLUMN is required: the columns of .* are: x, y'),
        ('x,y', ('target=z',), UsageError, '--hparams=target: .* has no column z.*its columns are: x, y'),
        ('x,x', ('target=x',), RunError, 'names two columns x'),
        ('1,2', ('target=x',), RunError, 'line 1 must name the columns, but contains 1,2'),
        ('', ('target=x',), RunError, 'is empty'),
        ('x,y', ('target=y', 'eval_share=1.5'), UsageError, 'eval_share=1.5 must be from 0 to 0.9'),
        ('y', ('target=y',), UsageError, 'no column to learn from besides y'),
    ],
)
def test_a_wrong_table_or_hyper_parameter_is_refused(tmp_path, header, hparams, error, message):
    path = write(tmp_path / 'a.csv', header, [(i, i % 2)[-len(header.split(',')) :] for i in range(50)] if header else [])
    with pytest.raises(error, match=message):
        prepared(path, tmp_path, *hparams)


@pytest.mark.parametrize(
    'content, message',
    [
        ({'colums': {}}, 'unknown key colums, did you mean columns'),
        ({'columns': {'ag': 'numeric'}}, 'has no column ag'),
        ({'columns': {'x': 'number'}}, 'the column x is of kind number, but the kinds are: numeric, categorical, ignore'),
        ({'columns': {'x': []}}, 'the column x is of kind'),
        ({'columns': []}, 'columns must be an object'),
        ({'task': 'ranking'}, 'task is ranking, but must be classification or regression'),
        ({'id': 'y'}, 'must be different columns'),
        ({'target': 'x'}, 'names another target, x'),
    ],
)
def test_a_wrong_schema_is_refused(tmp_path, content, message):
    path = write(tmp_path / 'a.csv', 'x,y', [(i, i % 2) for i in range(50)])
    with pytest.raises(UsageError, match=message):
        prepared(path, tmp_path, 'target=y', schema(tmp_path, **content))


def test_a_feature_column_that_a_split_lacks_is_named(splits, tmp_path):
    write(splits / 'test.csv', 'x,city', [(1, 'Rome')])
    with pytest.raises(UsageError, match='test.csv: has no column y, which the model takes'):
        prepared(splits, tmp_path, 'target=kind')


def test_a_split_without_the_target_can_be_predicted(splits, tmp_path):
    write(splits / 'test.csv', 'x,y,city', [(3, 7, 'Rome')])
    features = prepared(splits, tmp_path, 'target=kind').batch('test', ModeKeys.PREDICT)
    np.testing.assert_allclose(features['numeric'], [[0, 0, 0]], atol=1e-6)


def test_input_is_read_by_the_metadata_alone(splits, tmp_path):
    dataset = prepared(splits, tmp_path, 'target=kind')
    expected, _ = dataset.batch('eval')
    inputs = shutil.copy(splits / 'eval.csv', tmp_path / 'input.csv')
    shutil.rmtree(splits)
    shutil.rmtree(tmp_path / 'data')
    features, errors = dataset.predict(inputs)
    assert not errors
    for name, value in expected.items():
        np.testing.assert_array_equal(features[name], value)


def test_input_needs_no_target_and_wrong_rows_are_errors_with_their_line(splits, tmp_path):
    dataset = prepared(splits, tmp_path, 'target=kind')
    path = write(tmp_path / 'input.csv', 'x;y;city', [(3, 7, 'Rome'), ('three', 7, 'Rome'), (1,), ('', '', '')], ';')
    features, errors = dataset.predict(path)
    np.testing.assert_array_equal(features['categorical'], [[1], [0]])
    assert errors.keys() == {3, 4}
    assert errors[3].endswith("line 3: column x: 'three' is not a number") and '1 cells' in errors[4]
    with pytest.raises(UsageError, match='input.csv: has no column y, city'):
        list(csv.read_input(str(write(tmp_path / 'input.csv', 'x,z', [(1, 2)])), dataset.params))


def test_a_column_without_known_categories_is_all_unknown(tmp_path):
    path = write(tmp_path / 'a.csv', 'c,y', [(f'v{i // 2}' if i else '', i % 2) for i in range(20)])
    dataset = prepared(path, tmp_path, 'target=y', 'min_count=3')
    assert not dataset.batch('train')[0]['categorical'].any()


def test_large_numbers_and_constants_stay_finite(tmp_path):
    rows = [(1e300 if i == 3 else 1, 5, 3e38 * (i % 2), i % 2) for i in range(40)]
    dataset = prepared(write(tmp_path / 'a.csv', 'huge,constant,wide,y', rows), tmp_path, 'target=y')
    kinds = {c['name']: c['kind'] for c in dataset.metadata['columns']}
    assert kinds['huge'] == 'categorical' and kinds['constant'] == kinds['wide'] == 'numeric'
    features, _ = dataset.batch('train')
    assert np.isfinite(features['numeric']).all() and np.abs(features['numeric'][:, 0]).max() < 1e-6


def test_the_largest_and_smallest_numbers_are_standardized(tmp_path):
    rows = [(3.4e38 if i % 4 else -3.4e38, 1e-60 * i, 1e-40 * i, i % 2) for i in range(40)]
    path = write(tmp_path / 'a.csv', 'large,tiny,denormal,y', rows)
    numbers = prepared(path, tmp_path, 'target=y', 'eval_share=0').batch('train')[0]['numeric']
    expected = [3**-0.5 if row[0] > 0 else -(3**0.5) for row in rows]  # The mean is 1/2, and the variance 3/4, of the largest.
    assert sorted(numbers[:, 0].tolist()) == pytest.approx(sorted(expected))
    assert not numbers[:, 1:].any()


def test_a_model_learns_predicts_and_is_exported(run, tmp_path):
    path = write(tmp_path / 'people.csv', 'age,city,target', people(400))
    flags = (
        MODEL,
        '--dataset=csv',
        f'--hparams=csv_file={path}',
        f'--data_dir={tmp_path}/data',
        '--train_steps=150',
        '--save_checkpoints_steps=150',
    )
    code, result, _ = run(*flags)
    assert code == 0 and result['eval']['accuracy'] > 0.9
    assert run(*flags, '--schedule=predict')[0] == 0
    code, result, _ = run(*flags, '--schedule=export')
    assert code == 0
    shutil.rmtree(tmp_path / 'data')
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.load(session, ['serve'], result['export'])
        signature = loaded.signature_def['examples:serving_default']
        examples = [records.encode({'age': 70.0, 'city': 'Rome'}), records.encode({'age': 25.0})]
        found = session.run(signature.outputs['class'].name, {signature.inputs['examples'].name: examples})
        assert list(found) == [0, 1]  # old, young.
        signature = loaded.signature_def['serving_default']
        feeds = {'numeric': [[2.0], [-2.0]], 'categorical': [[1], [0]]}
        found = session.run(
            signature.outputs['class'].name, {signature.inputs[name].name: value for name, value in feeds.items()}
        )
        assert list(found) == [0, 1]


def test_how_to_use_a_model_on_other_data_is_said(run, tmp_path):
    path = write(tmp_path / 'people.csv', 'age,city,target', people(100))
    shutil.copy(path, tmp_path / 'new.csv')
    flags = (MODEL, '--dataset=csv', f'--data_dir={tmp_path}/data')
    assert run(*flags, f'--hparams=csv_file={path}', '--train_steps=1', '--schedule=train')[0] == 0
    saved = f'{tmp_path}/output/hparams.json'
    refused = (
        f'trainer.py: {saved}: csv_file was "{path}", now it is "%s": reuse the saved values, with --hparams_set={saved}, or '
        'choose another --output_dir'
    )
    code, _, err = run(*flags, f'--hparams=csv_file={tmp_path}/new.csv', '--schedule=evaluate')
    assert code == 2 and err.splitlines()[-1] == refused % f'{tmp_path}/new.csv' + (
        '; other data can be predicted, with --input=FILES, and evaluated, with --eval_splits=test, if it is the split test '
        'of a directory that was trained on'
    )
    assert run(*flags, '--schedule=evaluate')[0] == 0
    assert run(*flags, f'--hparams_set={saved}', '--schedule=evaluate')[0] == 0


def test_a_model_learns_a_regression(run, tmp_path):
    path = write(
        tmp_path / 'lines.csv', 'x,c,y', [(i % 50, 'ab'[i % 2], 3 * (i % 50) + 100 * (i % 2) + 0.5) for i in range(500)]
    )
    code, result, _ = run(
        MODEL,
        '--dataset=csv',
        f'--hparams=csv_file={path},target=y',
        f'--data_dir={tmp_path}/data',
        '--train_steps=150',
        '--save_checkpoints_steps=150',
    )
    assert code == 0 and result['eval']['error'] < 2


@pytest.mark.parametrize(
    'flags, code, message',
    [
        ((), 2, 'trainer.py: --hparams=csv_file=PATH is required'),
        (('--hparams=csv_file=/no/such.csv',), 2, '/no/such.csv: there is no such file or directory'),
    ],
)
def test_bad_input_ends_a_run_with_one_line(run, flags, code, message):
    found, _, err = run(MODEL, '--dataset=csv', *flags)
    assert found == code and message in err and 'Traceback' not in err


def test_a_data_dir_that_is_a_file_is_named(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / 'a.csv', 'x,y', [(i, i % 2) for i in range(40)])
    code, _, err = run(MODEL, '--dataset=csv', f'--hparams=csv_file={path},target=y', '--data_dir=a.csv')
    assert code == 1 and 'trainer.py: a.csv: is not a directory: fix this' in err and 'Traceback' not in err


@pytest.mark.parametrize('cell', ['inf', '1e999', '9' * 400, 'NAN', 'n.a.'])
@pytest.mark.parametrize('role', ['feature', 'target'])
def test_a_cell_that_makes_a_column_of_numbers_one_of_text_is_warned_of(tmp_path, caplog, cell, role):
    rows = [(cell if i == 1200 else i % 70 / 2, i % 50 / 2) for i in range(1300)]
    path = write(tmp_path / 'a.csv', 'x,y', [row if role == 'feature' else row[::-1] for row in rows])
    dataset = prepared(path, tmp_path, 'target=y', 'eval_share=0')
    name = 'x' if role == 'feature' else 'y'
    shown = f"'{cell}'" if len(cell) < 99 else "'9999"
    assert f'{path}: line 1202: column {name}: {shown}' in caplog.text
    assert 'is not a number, as nearly all others are, so the column is not numeric: correct it, or give ' in caplog.text
    assert dataset.metadata['task'] == ('regression' if role == 'feature' else 'classification')


def test_a_column_of_decimal_commas_is_warned_of(tmp_path, caplog):
    rows = [(i % 20 if i % 3 else f'{i % 20},5', 'ab'[i % 2]) for i in range(60)]
    path = write(tmp_path / 'a.csv', 'x;y', rows, ';')
    prepared(path, tmp_path, 'target=y', 'eval_share=0')
    assert f"{path}: line 2: column x: '0,5' has a decimal comma, so the column is not numeric: write decimal" in caplog.text
    path = write(tmp_path / 'b.csv', 'x;y', [(f'{i},5', 1.5) for i in range(60)], ';')
    with pytest.raises(UsageError, match=r"line \d: column x: '\d,5' has a decimal comma, .*: write decimal points$"):
        prepared(path, tmp_path, 'target=x')


def test_a_column_of_text_and_one_whose_kind_is_given_are_not_warned_of(tmp_path, caplog):
    rows = [('x' if i % 7 == 0 else i, 'n.a.' if i == 3 else i % 5, 'low' if i == 4 else i % 3) for i in range(140)]
    path = write(tmp_path / 'a.csv', 'mixed,zip,y', rows)
    given = schema(tmp_path, columns={'zip': 'categorical'}, task='classification')
    dataset = prepared(path, tmp_path, 'target=y', given, 'eval_share=0')
    assert 'so the column is not numeric' not in caplog.text
    assert dataset.metadata['class_names'] == ['0', '1', '2', 'low']


def test_each_split_has_rows(splits, tmp_path):
    (splits / 'eval.csv').write_text('x,y,city,kind\n')
    with pytest.raises(RunError, match='eval.csv: has no row for the split eval'):
        prepared(splits, tmp_path, 'target=kind')


@pytest.mark.parametrize('quote', ['"open', 'a "b" c"d', '"closed" too late'])
def test_a_stray_quote_makes_one_bad_row_and_hides_no_other(tmp_path, quote):
    rows = [(i, i % 2, '"a, b"' if i % 3 else 'plain') for i in range(3000)]
    rows[1000] = (1000, 0, quote)
    path = write(tmp_path / 'a.csv', 'x,y,note', rows)
    dataset = prepared(path, tmp_path, 'target=y', 'eval_share=0', 'max_bad_share=0.01')
    numbers = dataset.batch('train')[0]['numeric'][:, 0]
    assert len(numbers) == 2999 + (quote == 'a "b" c"d')  # Within a cell that is not quoted, a quote is a character.


def test_integer_classes_are_the_same_with_and_without_a_decimal_point(tmp_path):
    write(tmp_path / 'table' / 'train.csv', 'x,y', [(i, f'{i % 2}.0') for i in range(40)])
    write(tmp_path / 'table' / 'eval.csv', 'x,y', [(i, i % 2) for i in range(4)])
    dataset = prepared(tmp_path / 'table', tmp_path, 'target=y')
    assert dataset.metadata['class_names'] == ['0', '1']
    assert dataset.batch('eval')[1]['label'].tolist() == [0, 1, 0, 1]


def test_integer_classes_keep_all_their_digits(tmp_path):
    ids = [10**17 + i % 3 for i in range(40)]
    path = write(tmp_path / 'a.csv', 'x,y', [(i, f'{"+" if i % 2 else "00"}{value}') for i, value in enumerate(ids)])
    dataset = prepared(path, tmp_path, 'target=y', 'eval_share=0')
    assert dataset.metadata['class_names'] == ['100000000000000000', '100000000000000001', '100000000000000002']
    assert np.bincount(dataset.batch('train')[1]['label']).tolist() == [14, 13, 13]


@pytest.mark.parametrize('value', [1, 1.5, 'a'])
def test_a_target_that_does_not_vary_is_refused(tmp_path, value):
    path = write(tmp_path / 'a.csv', 'x,y', [(i, value) for i in range(40)])
    with pytest.raises(RunError, match=f'the target y is always {value}: there is nothing to learn'):
        prepared(path, tmp_path, 'target=y')


def test_a_file_in_utf_16_is_named(tmp_path):
    path = tmp_path / 'a.csv'
    path.write_bytes('x,y\n1,a\n'.encode('utf-16-le'))
    with pytest.raises(RunError, match='a.csv: line 1 contains NUL characters, as UTF-16 does: save the file as UTF-8'):
        prepared(path, tmp_path, 'target=y')


def test_blank_lines_before_the_header_do_not_matter(tmp_path):
    path = tmp_path / 'a.csv'
    path.write_text('\n\nx;y\n' + ''.join(f'{i};{i % 2}\n' for i in range(40)))
    assert [c['name'] for c in prepared(path, tmp_path, 'target=y').metadata['columns']] == ['x', 'y']


def test_numbers_that_float32_cannot_tell_apart_are_warned_of_and_refused_as_a_target(tmp_path, caplog):
    path = write(tmp_path / 'a.csv', 'time,y', [(1.7e9 + i, i / 7) for i in range(60)])
    prepared(path, tmp_path, 'target=y')
    assert 'a.csv: column time: the numbers around 1.7e+09 differ too little for float32: subtract a constant' in caplog.text
    with pytest.raises(RunError, match='column time: the numbers around 1.7e.09 differ too little for float32'):
        prepared(path, tmp_path, 'target=time')
    small = write(tmp_path / 'b.csv', 'time,y', [(i * 60, i / 7) for i in range(60)])
    assert prepared(small, tmp_path, 'target=time').metadata['task'] == 'regression'


@pytest.mark.parametrize(
    'header, message', [('z,kind', 'x, on which .* as numeric, is missing'), ('x,kind', 'x, .* is categorical now')]
)
def test_columns_other_than_those_of_the_training_are_refused(tmp_path, header, message):
    path = write(tmp_path / 'a.csv', 'x,kind', [(i % 7, 'ab'[i % 2]) for i in range(60)])
    trained = prepared(path, tmp_path, 'target=kind')
    value = (lambda i: i % 7) if header.startswith('z') else (lambda i: 'cde'[i % 3])
    write(path, header, [(value(i), 'ab'[i % 2]) for i in range(60)])
    other = prepared(path, tmp_path, 'target=kind')
    params = build.HParams(dict(other.params), trained.metadata)
    with pytest.raises(UsageError, match=f'csv_file={path}: the column {message}'):
        csv.read('eval', str(tmp_path / 'data'), params)
